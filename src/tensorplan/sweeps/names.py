"""Specs of problems and planners in a normal form, and the complete parameters that they stand for.

``"layered:d=3:actions=2"`` and ``"layered/2x3:states=200"`` are the same problem: they have the same name and the same
value of every parameter, defaults included.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache, wraps
from typing import Any

from tensorplan.core.specs import call
from tensorplan.core.user_code import is_user_code
from tensorplan.planners import registry
from tensorplan.problems import catalog


def normal_problem(spec: str) -> str:
    """The spec of a problem with sorted parameters; BadInput unless the catalog has it.

    User code is not loaded, so that a stored suite can be read without it.
    """
    name, size, params = catalog.take_apart(spec)
    return spec_of(f"{name}/{size}" if size else name, params) if is_user_code(name) else checked_problem(spec)


def normal_planner(spec: str) -> str:
    """The spec of a planner with sorted parameters; likewise."""
    name, _, params = registry.take_apart(spec)
    return spec_of(name, params) if is_user_code(name) else checked_planner(spec)


def checked_problem(spec: str) -> str:
    """The same with user code loaded; BadInput for an unknown name or parameter."""
    name, entry, params = catalog.find(spec)
    _complete(name, entry.build, params)
    name, size, given = catalog.take_apart(spec)
    return spec_of(f"{name}/{size}" if size else name, given)


def checked_planner(spec: str) -> str:
    """The same for a planner; BadInput if it cannot be made."""
    registry.make_planner(spec)
    name, _, given = registry.take_apart(spec)
    return spec_of(name, given)


def spell(value: Any) -> str:
    """A parameter as written in a spec."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return str(_whole_if_equal(value))


def spec_of(head: str, params: Mapping[str, Any]) -> str:
    """The spec of a name with sorted parameters."""
    return ":".join([head, *(f"{key}={spell(params[key])}" for key in sorted(params))])


def _whole_if_equal(value: Any) -> Any:
    """500 for 500.0, which mean the same."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


@lru_cache(maxsize=10_000)
def complete_problem(spec: str) -> dict[str, Any]:
    """Everything that determines a problem, except a seed that the spec does not give.

    For user code that is its name and the given parameters, since its defaults are unknown here.
    """
    name, _, given = catalog.take_apart(spec)
    if is_user_code(name):
        return _as_given(name, given)
    name, entry, params = catalog.find(spec)
    complete = _complete(name, entry.build, params)
    if "seed" not in params:
        complete.pop("seed", None)
    return {"name": name, "parameters": complete}


@lru_cache(maxsize=10_000)
def complete_planner(spec: str) -> dict[str, Any]:
    """Everything that determines a planner; for user code its name and the given parameters."""
    name, _, given = registry.take_apart(spec)
    if is_user_code(name):
        return _as_given(name, given)
    name, build, options = registry.find(spec)
    complete = _complete(name, build, options)
    complete.pop("callback", None)
    return {"name": name, "parameters": complete}


def _as_given(name: str, params: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "parameters": {key: _whole_if_equal(value) for key, value in params.items()}}


def _complete(name: str, build: Callable[..., Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters with defaults filled in, checked as :func:`tensorplan.core.specs.call` does."""

    @wraps(build, updated=())
    def given(**params: Any) -> dict[str, Any]:
        return params

    takes = inspect.signature(build).parameters
    defaults = {key: p.default for key, p in takes.items() if p.kind is not p.VAR_KEYWORD}
    return {key: _whole_if_equal(value) for key, value in (defaults | call(name, given, params)).items()}
