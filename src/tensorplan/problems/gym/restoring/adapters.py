"""The registry of adapters: how to save and load an environment, or a part of one, that lives outside of Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from tensorplan.core.errors import BadInput, shown


class Adapter(NamedTuple):
    """Two functions of an environment or of a part of one: its state, and the way back to it."""

    get_state: Callable[[Any], Any]
    """The state as data, preferably bytes; it must not change when the environment moves on."""
    set_state: Callable[[Any, Any], object]


_KNOWN: dict[str, Adapter] = {}
"""Those that come with the package."""
_REGISTERED: dict[str, Adapter] = {}
"""Those of the user, which go first."""
_FOUND: dict[type, Adapter | None] = {}
"""By class, as far as it was looked up."""


def register_restore(
    kind: type | str, get_state: Callable[[Any], Any], set_state: Callable[[Any, Any], object]
) -> None:
    """Tell :func:`tensorplan.from_gym` how objects of a class are saved and loaded.

    ``kind``: the class of an environment, of a wrapper, or of a part such as the handle of a physics engine; or its
    name, ``"module.Class"``.  Subclasses are included, and what is registered last counts.  ``get_state(x)`` returns
    the state as data, ``set_state(x, state)`` goes back to it.  The rest of an environment is captured as its
    attributes.
    """
    if not isinstance(kind, type | str):
        raise BadInput(f"register_restore needs a class or its name, got {shown(kind)}")
    for name, function in (("get_state", get_state), ("set_state", set_state)):
        if not callable(function):
            raise BadInput(f"{name} must be a function, got {shown(function)}")
    _REGISTERED[kind if isinstance(kind, str) else full_name(kind)] = Adapter(get_state, set_state)
    _FOUND.clear()


def know(kind: str, get_state: Callable[[Any], Any], set_state: Callable[[Any, Any], object]) -> None:
    """Add an adapter that comes with the package."""
    _KNOWN[kind] = Adapter(get_state, set_state)
    _FOUND.clear()


def adapter_of(kind: type) -> Adapter | None:
    """The adapter of the class, or of the nearest of its bases that has one."""
    if kind not in _FOUND:
        adapters = _KNOWN | _REGISTERED
        names = [full_name(base) for base in kind.__mro__]
        _FOUND[kind] = next((adapters[name] for name in names if name in adapters), None)
    return _FOUND[kind]


def full_name(kind: type) -> str:
    """``module.Class``; classes of SWIG have no module."""
    module = getattr(kind, "__module__", None)
    return kind.__qualname__ if module is None else f"{module}.{kind.__qualname__}"
