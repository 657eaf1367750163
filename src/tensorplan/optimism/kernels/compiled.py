"""The kernels as machine code.

A kernel is a plain function, which Python can run.  Compiled ones are twins: the same code with the other twins, and
the loops of :mod:`tensorplan.optimism.kernels.loops`, under the names that it calls.  Each is compiled for one
signature, which its annotations say, and only the outermost one can be called from Python and is kept on disk.
"""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, TypeVar, cast

from tensorplan.optimism.kernels import vectors
from tensorplan.optimism.kernels.state import Relaxed

F = TypeVar("F", bound=Callable[..., Any])

_KERNELS: dict[str, FunctionType] = {}
_INLINED: set[str] = set()
_OPTIONS: Any = {
    "error_model": "numpy",
    "nogil": True,
    "_nrt": False,  # no reference counts, which would take a third of the time; so compiled code cannot allocate
    "no_cfunc_wrapper": True,
}


def kernel(function: F) -> F:
    """Register a function that has machine code of its own when compiled."""
    if function.__name__ in _KERNELS:
        raise ValueError(f"there are two kernels named {function.__name__}")
    _KERNELS[function.__name__] = cast(FunctionType, function)
    return function


def inlined(function: F) -> F:
    """Register a function that becomes a part of each compiled one that calls it.

    For steps that have one caller and are named for the reader: compiled alone, each would be passed dozens of arrays,
    and all that it calls would be optimised once more.
    """
    _INLINED.add(function.__name__)
    return kernel(function)


class Compilation:
    """A kernel to be compiled for arguments such as these; as the argument of a kernel, a NamedTuple is known by it."""

    def __init__(self, entry: Any, *arguments: Any) -> None:
        import numba

        from tensorplan.optimism.kernels import loops

        operations = [name for name, value in vars(vectors).items() if isinstance(value, FunctionType)]
        functions = {**_KERNELS, **{name: getattr(loops, name) for name in operations}}
        worlds: dict[str, dict[str, Any]] = {}
        self._twins = {}
        for name, function in functions.items():
            world = worlds.setdefault(function.__module__, dict(function.__globals__))
            self._twins[name] = _twin(function, world, function is entry)
        for world in worlds.values():
            world.update((name, self._twins[name]) for name in world.keys() & self._twins.keys())
        self._types = dict(_named_types(arguments))
        self.signature = tuple(numba.typeof(argument) for argument in arguments)
        self.entry = self._twins[entry.__name__]

    def compile_all(self) -> None:
        """Compile the kernel, and first what it calls."""
        self._compile(self.entry.py_func.__name__, set())

    def _compile(self, name: str, done: set[str]) -> None:
        if name in done:
            return
        done.add(name)
        twin = self._twins[name]
        for callee in sorted(_globals_read(twin.py_func) & self._twins.keys()):
            self._compile(callee, done)
        if name not in _INLINED:
            twin.compile(self.signature if twin is self.entry else self._signature(twin.py_func))
            twin.disable_compile()

    def _signature(self, function: FunctionType) -> tuple[Any, ...]:
        hints = {name: kind for name, kind in function.__annotations__.items() if name != "return"}
        return tuple(self._types[kind] for kind in hints.values())


def _twin(function: FunctionType, world: dict[str, Any], callable_from_python: bool) -> Any:
    import numba

    from tensorplan.optimism.kernels.loops import WITHOUT_CALL

    twin = FunctionType(function.__code__, world, function.__name__)
    twin.__annotations__ = function.__annotations__
    inline = "always" if function.__name__ in _INLINED else "never"
    options = {"inline": inline, "no_cpython_wrapper": not callable_from_python, **_OPTIONS}
    return numba.njit(forceinline=function.__name__ in WITHOUT_CALL, **options)(twin)


def _globals_read(function: FunctionType) -> set[str]:
    return {i.argval for i in dis.get_instructions(function) if i.opname == "LOAD_GLOBAL"}


def _named_types(arguments: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """What the annotations of kernels mean: numbers, vectors, and the classes of the arguments and of their fields."""
    import numba

    yield from {"int": numba.int64, "float": numba.float64, "bool": numba.boolean}.items()
    yield from {"Vector": numba.float64[::1], "Integers": numba.int64[::1]}.items()
    yield "tuple[float, float]", numba.types.UniTuple(numba.float64, 2)
    yield "Relaxed", numba.typeof(Relaxed(0, 0, 0.0, 0.0, 0.0))
    waiting = list(arguments)
    while waiting:
        value = waiting.pop()
        if isinstance(value, tuple):
            yield type(value).__name__, numba.typeof(value)
            waiting.extend(value)
