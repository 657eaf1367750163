"""Names with parameters, as people type them: ``hanoi/8``, ``layered/4x10:horizon=20``, ``uct:simulations=500``."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from tensorplan.core.errors import BadInput, Refused, TensorplanError, raised, shown

T = TypeVar("T")

HUGE = 10**9
"""A parameter beyond this is to blame where NumPy cannot make an array, whose complaint is a plain ValueError."""


def parse(spec: str) -> tuple[str, str, dict[str, Any]]:
    """``"name/size:key=value"`` taken apart: the name, the size (may be empty), the parameters."""
    head, *options = spec.split(":")
    name, _, size = head.partition("/")
    return name.strip(), size.strip(), parameters(spec, options)


def parameters(spec: str, options: Iterable[str]) -> dict[str, Any]:
    """The parameters that the ``key=value`` parts of a spec give."""
    params: dict[str, Any] = {}
    for option in options:
        key, equals, text = option.partition("=")
        if not equals or not key:
            raise BadInput(f"{spec!r}: expected key=value after ':', got {option!r}")
        if key.strip() in params:
            raise BadInput(f"{spec!r}: {key.strip()!r} is given twice")
        params[key.strip()] = literal(text.strip())
    return params


def literal(text: str) -> Any:
    """The number, truth value or None that the text stands for, else the text itself."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def lookup(kind: str, name: str, known: Mapping[str, T]) -> T:
    """``known[name]``, or BadInput with the nearest name."""
    if name in known:
        return known[name]
    raise BadInput(f"unknown {kind} {name!r}; {suggestion(name, known)}")


def suggestion(name: str, known: Iterable[str]) -> str:
    """``did you mean ...?``, or the list of what there is."""
    known = sorted(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"there are: {', '.join(known)}" if known else "there are none"


def call(name: str, build: Callable[..., T], params: Mapping[str, Any]) -> T:
    """``build(**params)``, with a clear sentence for a parameter that is unknown, missing or too large."""
    signature = inspect.signature(build).parameters.values()
    takes = {p.name: p for p in signature if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    for key in params:
        if key not in takes and all(p.kind is not p.VAR_KEYWORD for p in signature):
            raise BadInput(f"{name!r} has no parameter {key!r}; {suggestion(key, takes)}")
    for key, parameter in takes.items():
        if parameter.default is parameter.empty and key not in params:
            raise BadInput(f"{name!r} needs the parameter {key!r}")
    try:
        return build(**params)
    except (MemoryError, OverflowError, ValueError) as error:
        huge = [key for key, value in params.items() if isinstance(value, int) and abs(value) > HUGE]
        if isinstance(error, TensorplanError) or (isinstance(error, ValueError) and not huge):
            raise
        blame = f" with {huge[0]}={shown(params[huge[0]], 20)}" if huge else ""
        raise BadInput(f"{name!r} is too large{blame}: {raised(error).removeprefix('raised ')}") from None


def options(config: Any) -> list[str]:
    """The parameters of a frozen configuration; none of what is not a dataclass."""
    return [f.name for f in dataclasses.fields(config) if f.init] if dataclasses.is_dataclass(config) else []


def whole(name: str, value: Any, low: int, high: int | None = None) -> int:
    """The value as an int in [low, high], or BadInput naming it."""
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        if value >= low and (high is None or value <= high):
            return int(value)
    elif isinstance(value, float) and value.is_integer():
        return whole(name, int(value), low, high)
    limits = f">= {low}" if high is None else f"from {low} to {high}"
    raise BadInput(f"{name} must be a whole number {limits}, got {shown(value)}")


def number(name: str, value: Any, low: float, high: float = np.inf) -> float:
    """The value as a finite float in [low, high], or BadInput naming it."""
    numeric = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    try:
        x = float(value) if numeric else math.nan
    except OverflowError:
        x = math.inf
    if low <= x <= high and math.isfinite(x):
        return x
    limits = f">= {low:g}" if high == np.inf else f"from {low:g} to {high:g}"
    raise BadInput(f"{name} must be a number {limits}, got {shown(value)}")


def seconds(name: str, value: Any) -> float:
    """The value as a finite number of seconds above 0, or BadInput naming it."""
    try:
        limit = number(name, value, 0.0)
    except BadInput:
        limit = 0.0
    if limit > 0:
        return limit
    raise BadInput(f"{name} must be a positive number of seconds, got {shown(value)}")


def truth(name: str, value: Any) -> bool:
    """The value as a bool, or BadInput naming it."""
    if isinstance(value, bool | int | np.bool_) and value in (0, 1):
        return bool(value)
    raise BadInput(f"{name} must be true or false, got {shown(value)}")


def one_of(name: str, value: Any, choices: Iterable[str]) -> str:
    """The value, or BadInput naming the choices."""
    choices = list(choices)
    if value in choices:
        return str(value)
    raise BadInput(f"{name} must be one of {', '.join(choices)}, got {shown(value)}")


def undiscounted(who: str, problem: str, discount: float) -> None:
    """Refuse a discounted problem."""
    if discount != 1:
        raise Refused(f"{who} is for undiscounted problems, and problem {problem!r} has the discount {discount:g}")
