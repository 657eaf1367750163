"""Gymnasium's observations as points: by the rules of their space, or by the user's function.

By default the numbers of an observation are its coordinates, tuples are concatenated, dictionaries are flattened as
Gymnasium does, with indicators of discrete parts (one-hot), and large images are averaged over a grid.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from tensorplan.core import Array
from tensorplan.core.errors import BadInput, ProblemError, raised, shown
from tensorplan.problems.gym.images import ImageGrid, is_image, is_large_image
from tensorplan.problems.gym.points import ObservationPoints, floats


@dataclass(frozen=True)
class Flattening:
    """How the parts of an observation become coordinates."""

    onehot: bool
    """Whether discrete parts become indicators."""
    onehot_in_dict: bool
    """The same inside of dictionaries."""
    averaged: Callable[[spaces.Box], bool]
    """Which boxes are images that are averaged over a grid."""


RULES = {
    "auto": Flattening(False, True, is_large_image),
    "numbers": Flattening(False, False, lambda box: False),
    "flat": Flattening(True, True, lambda box: False),
    "image": Flattening(False, True, is_image),
}
"""The values of ``observation=`` beside functions."""


def view(space: Any, name: str, observation: Any = "auto") -> ObservationPoints:
    """The observations of a space as points, by a rule (``RULES``) or by the user's function of an observation."""
    if callable(observation):
        return ObservationPoints(UserPoint(observation, name), (), (), False, nbytes=_nbytes(space))
    if not (isinstance(observation, str) and observation in RULES):
        raise BadInput(
            f"observation must be a function or one of {', '.join(map(repr, RULES))}, got {shown(observation)}"
        )
    found = list(_parts(space, (), "", RULES[observation]))
    parts = [part for part in found if isinstance(part, Part)]
    if not parts:
        raise BadInput(
            f"{name} has observations without numbers ({space}): give observation=f, a function of an observation "
            "that returns an array of numbers"
        )
    if observation == "image" and not any(isinstance(part.numbers, ImageGrid) for part in parts):
        raise BadInput(f"{name} has no image, a bounded box with two to four dimensions, in its observations ({space})")
    _warn_of_missing([part.label for part in found if isinstance(part, Missing)], name)
    return ObservationPoints(
        SpacePoint(parts, name),
        tuple(itertools.chain(*(part.low for part in parts))),
        tuple(itertools.chain(*(part.high for part in parts))),
        all(part.whole for part in parts),
        tuple(itertools.chain(*(part.names for part in parts))),
        nbytes=_nbytes(space),
    )


def table_view(env: Any, states: int, name: str, observation: Any = "auto") -> ObservationPoints:
    """The view of numbered states; by default rows and columns in the toy-text environments, or the number itself."""
    if observation != "auto":
        return _listed(view(env.observation_space, name, observation), states)
    if hasattr(env, "decode") and hasattr(env, "locs"):  # Taxi
        places = len(env.locs)
        decoded = [np.array(list(env.decode(s)), dtype=np.float64) for s in range(states)]
        high = (float(env.max_row), float(env.max_col), float(places), float(places - 1))
        return ObservationPoints(
            lambda s: decoded[s], (0.0,) * 4, high, True, ("row", "column", "passenger", "destination")
        )
    shape = (env.nrow, env.ncol) if hasattr(env, "nrow") else getattr(env, "shape", None)
    if shape is not None and len(shape) == 2 and shape[0] * shape[1] == states:
        columns = int(shape[1])
        ends = (float(shape[0] - 1), float(shape[1] - 1))
        return ObservationPoints(
            lambda s: np.array(divmod(s, columns), dtype=np.float64), (0.0, 0.0), ends, True, ("row", "column")
        )
    return ObservationPoints(lambda s: np.array([s], dtype=np.float64), (0.0,), (float(states - 1),), True)


def _listed(seen: ObservationPoints, states: int) -> ObservationPoints:
    """The view, with the ranges over all states where the ranges are not known."""
    if seen.low:
        return seen
    points = [seen.point(state) for state in range(states)]
    return replace(seen, low=floats(np.min(points, axis=0)), high=floats(np.max(points, axis=0)))


# ------------------------------------------------------------------------------------------ points


class UserPoint:
    """The value of the user's function of an observation, checked: finite numbers, always as many."""

    def __init__(self, function: Callable[[Any], Any], name: str) -> None:
        self.function, self.name = function, name
        self._size: int | None = None

    def __call__(self, observation: Any) -> Array:
        """The point of an observation, (n,)."""
        try:
            value = self.function(observation)
        except Exception as error:
            raise self._refusal(raised(error)) from error
        try:
            point: Array = np.array(value, dtype=np.float64).ravel()
        except (TypeError, ValueError):
            raise self._refusal(f"returned {shown(value)}, expected an array of numbers") from None
        if not np.isfinite(point).all():
            raise self._refusal(f"returned a number that is not finite, {point[~np.isfinite(point)][0]}")
        self._size = self._size or len(point)
        if not 0 < len(point) == self._size:
            raise self._refusal(f"returned {len(point)} numbers, expected {self._size or 'at least one'}")
        return point

    def _refusal(self, what: str) -> ProblemError:
        return ProblemError(f"observation={getattr(self.function, '__name__', 'f')} of {self.name} {what}")


@dataclass(frozen=True)
class Part:
    """Some coordinates of a point, made of one part of the observation."""

    path: tuple[Any, ...]
    """The keys that lead to the part."""
    numbers: Callable[[Any], Array]
    """The coordinates of the part, (k,)."""
    low: tuple[float, ...]
    high: tuple[float, ...]
    names: tuple[str, ...]
    whole: bool


@dataclass(frozen=True)
class Missing:
    """A part of an observation that is not numeric."""

    label: str


class SpacePoint:
    """The coordinates of all parts of an observation."""

    def __init__(self, parts: list[Part], name: str) -> None:
        self.parts, self.name = parts, name
        self._ends = list(itertools.accumulate((len(part.low) for part in parts), initial=0))

    def __call__(self, observation: Any) -> Array:
        """The point of an observation, (n,)."""
        point = np.empty(self._ends[-1])
        for part, start, end in zip(self.parts, self._ends, self._ends[1:], strict=False):
            value = observation
            try:
                for key in part.path:
                    value = value[key]
                numbers = part.numbers(value)
            except (KeyError, IndexError, TypeError, ValueError) as error:
                raise self._refusal(part, f"{type(error).__name__}: {error}") from error
            if len(numbers) != end - start:
                raise self._refusal(part, f"it has {len(numbers)} coordinates, not {end - start}")
            point[start:end] = numbers
        return point

    def _refusal(self, part: Part, why: str) -> ProblemError:
        where = f"the part {'.'.join(map(str, part.path))!r} of an observation" if part.path else "an observation"
        return ProblemError(f"{where} of {self.name} is not in its space ({why})")


def _numbers(x: Any) -> Array:
    return np.asarray(x, dtype=np.float64).ravel()


def _indicators(x: Any, first: NDArray[np.int64], counts: NDArray[np.int64]) -> Array:
    """Indicators of the values of discrete numbers, which take ``counts`` values from ``first`` on."""
    place = np.asarray(x, dtype=np.int64).ravel() - first
    if not ((place >= 0) & (place < counts)).all():
        raise ValueError(f"it is {shown(x)}")
    out = np.zeros(int(counts.sum()))
    out[place + np.cumsum(counts) - counts] = 1.0
    return out


# ------------------------------------------------------------------------------------------ parts of spaces


def _parts(space: Any, path: tuple[Any, ...], label: str, rule: Flattening) -> Iterator[Part | Missing]:
    """The parts of a space, in the order of Gymnasium's ``flatten``; ``label`` is empty for the whole observation."""
    if isinstance(space, spaces.Dict):
        inner = replace(rule, onehot=rule.onehot_in_dict)
        for key, part in space.spaces.items():
            yield from _parts(part, (*path, key), f"{label}.{key}" if label else str(key), inner)
    elif isinstance(space, spaces.Tuple):
        for i, part in enumerate(space.spaces):
            yield from _parts(part, (*path, i), f"{label}[{i}]" if label else f"x{i}", rule)
    elif isinstance(space, spaces.Discrete):
        yield _discrete(path, [label or "x0"], int(space.start), [space.n], rule.onehot)
    elif isinstance(space, spaces.MultiDiscrete):
        yield _discrete(path, _entries(label, space.shape), getattr(space, "start", 0), space.nvec, rule.onehot)
    elif isinstance(space, spaces.MultiBinary):
        names = _entries(label, space.shape)
        yield Part(path, _numbers, (0.0,) * len(names), (1.0,) * len(names), tuple(names), True)
    elif isinstance(space, spaces.Box):
        yield _box(space, path, label, rule)
    else:
        yield Missing(label)


def _discrete(path: tuple[Any, ...], names: list[str], start: Any, sizes: Any, onehot: bool) -> Part:
    counts = np.ravel(sizes).astype(np.int64)
    first = np.broadcast_to(np.ravel(start).astype(np.int64), counts.shape)
    if not onehot:
        return Part(path, _numbers, floats(first), floats(first + counts - 1), tuple(names), True)
    rows = zip(names, first.tolist(), counts.tolist(), strict=True)
    values = tuple(f"{name}={a + i}" for name, a, n in rows for i in range(n))
    numbers = partial(_indicators, first=first, counts=counts)
    return Part(path, numbers, (0.0,) * len(values), (1.0,) * len(values), values, True)


def _box(space: spaces.Box, path: tuple[Any, ...], label: str, rule: Flattening) -> Part:
    if rule.averaged(space):
        grid = ImageGrid(space)
        names = grid.names(label)
        return Part(path, grid, (0.0,) * len(names), (1.0,) * len(names), names, False)
    whole = np.issubdtype(space.dtype, np.integer) or space.dtype == np.bool_
    return Part(path, _numbers, floats(space.low), floats(space.high), tuple(_entries(label, space.shape)), bool(whole))


def _entries(label: str, shape: tuple[int, ...]) -> list[str]:
    """Names of the entries of an array: ``image[3,4,0]``, or ``x0``, ``x1``, ... for the whole observation."""
    if not label:
        return [f"x{i}" for i in range(math.prod(shape))]
    if shape == ():
        return [label]
    return [f"{label}[{','.join(map(str, index))}]" for index in np.ndindex(*shape)]


def _warn_of_missing(labels: list[str], name: str) -> None:
    if labels:
        some = f"a part that is not numeric, {labels[0]!r}"
        if len(labels) > 1:
            some = f"parts that are not numeric, {', '.join(map(repr, labels))}"
        warnings.warn(
            f"the observation of {name} has {some}: features do not see it, while states include it; "
            "observation=f, a function of the observation, can make numbers of it",
            stacklevel=5,
        )


def _nbytes(space: Any) -> int:
    """The bytes of the numbers of an observation."""
    if isinstance(space, spaces.Dict):
        return sum(map(_nbytes, space.spaces.values()))
    if isinstance(space, spaces.Tuple):
        return sum(map(_nbytes, space.spaces))
    if space.shape is None or space.dtype is None:
        return 0
    size: int = math.prod(space.shape) * np.dtype(space.dtype).itemsize
    return size
