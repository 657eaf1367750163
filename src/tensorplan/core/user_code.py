"""Problems and planners of the user's own, by name: ``mymodule:make_problem``, ``./mine.py:make_problem:size=5``.

The module is imported as Python finds it, the file is run from its path: naming one runs its code.
"""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable, Collection
from functools import lru_cache, reduce, wraps
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from re import compile as pattern
from traceback import extract_tb
from types import ModuleType
from typing import Any, cast

from tensorplan.core.errors import BadInput, TensorplanError, raised, shown
from tensorplan.core.specs import parameters, parse, suggestion

CODE = pattern(r"(?P<where>[^\W\d][\w.]*|[^=]*\.py):(?P<what>[^\W\d][\w.]*)(?=:|$)")
"""A module or a file, and the name of something in it."""


def parse_name(spec: str, known: Collection[str]) -> tuple[str, str, dict[str, Any]]:
    """:func:`~tensorplan.core.specs.parse`, where the name may be that of user code, unless it begins with a known one.

    Such a name keeps its colon.
    """
    found = CODE.match(spec.strip())
    if found is None or found["where"] in known:
        return parse(spec)
    _, *options = spec.strip()[found.end() :].split(":")
    return found[0], "", parameters(spec, options)


def is_user_code(name: str) -> bool:
    """Whether a name stands for user code."""
    return CODE.fullmatch(name) is not None


def find(name: str) -> Callable[..., Any]:
    """What a name stands for, a function or a class, as it is."""
    where, _, what = name.rpartition(":")
    found = _attribute(_file(where) if where.endswith(".py") else _module(where), where, what)
    if not callable(found):
        raise BadInput(f"{name!r} is not a function or a class: it is {shown(found)}")
    return cast("Callable[..., Any]", found)


def load(name: str) -> Callable[..., Any]:
    """What a name stands for; what it raises when called is one sentence."""
    found = find(name)
    try:
        inspect.signature(found)
    except ValueError:
        raise BadInput(f"{name!r} does not say which parameters it takes") from None

    @wraps(found, updated=())
    def called(**params: Any) -> Any:
        return _guarded(repr(name), lambda: found(**params))

    return called


def _module(name: str) -> ModuleType:
    def find() -> ModuleType:
        try:
            return import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise  # the module is there, and one that it imports is not
            raise BadInput(f"there is no module {error.name!r}") from None

    module: ModuleType = _guarded(f"importing {name!r}", find)
    return module


def _file(name: str) -> ModuleType:
    path = Path(name).resolve()
    try:
        changed = path.stat().st_mtime_ns
    except OSError as error:
        raise BadInput(f"cannot read {name!r}: {error.strerror}") from None
    module: ModuleType = _guarded(f"running {name!r}", lambda: _run_file(path, changed))
    return module


@lru_cache(maxsize=100)
def _run_file(path: Path, changed: int) -> ModuleType:
    """The module that a file makes, under a name of its own; made once, and again after the file has changed."""
    name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = module_from_spec(spec)  # dataclasses look themselves up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _attribute(module: ModuleType, where: str, what: str) -> Any:
    try:
        return reduce(getattr, what.split("."), module)
    except AttributeError:
        public = [key for key in vars(module) if not key.startswith("_")]
        raise BadInput(f"there is no {what!r} in {where!r}; {suggestion(what, public)}") from None


def _guarded(what: str, call: Callable[[], Any]) -> Any:
    """What the call gives; an error of user code as one sentence, with the line of user code that it comes from."""
    try:
        return call()
    except TensorplanError:
        raise
    except (Exception, SystemExit) as error:
        raise BadInput(f"{what} {raised(error)}{_line(error)}") from error


def _line(error: BaseException) -> str:
    """Where an error left the file in which user code begins."""
    frames = [
        frame
        for frame in extract_tb(error.__traceback__)
        if frame.filename != __file__ and "importlib" not in frame.filename
    ]
    own = [frame for frame in frames if frame.filename == frames[0].filename]
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
