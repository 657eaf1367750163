"""Gymnasium's spaces: numbered actions, and observations as points of R^n."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium import spaces

from tensorplan.core import Array
from tensorplan.core.errors import BadInput, shown
from tensorplan.features.frame import SLACK, Frame

MOST_ACTIONS = 100_000
"""Most combinations of actions, which are enumerated in a list."""

ENDLESS = 1e9
"""Bounds beyond this count as infinite: Gymnasium also writes unbounded spaces with huge floats."""

MARGIN = 1.0
"""The margin of an estimated frame on either side, relative to the range in random play: planners go further."""

NARROWEST = 1e-6
"""The least width of an estimated range, so that a coordinate that was constant in random play has a margin."""


def numbered_actions(space: Any, name: str) -> list[Any]:
    """The actions of the environment, in the order of the numbers 0 .. A-1."""
    if isinstance(space, spaces.Discrete):
        return [int(space.start) + i for i in range(int(space.n))]
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        sizes = np.ravel(space.nvec if isinstance(space, spaces.MultiDiscrete) else [2] * int(np.prod(space.shape)))
        if float(np.prod(sizes.astype(float))) > MOST_ACTIONS:
            raise BadInput(f"{name} has {np.prod(sizes.astype(float)):.3g} actions ({space}): too many to enumerate")
        return [np.array(one, dtype=space.dtype).reshape(space.shape) for one in itertools.product(*map(range, sizes))]
    kind = "continuous actions" if isinstance(space, spaces.Box) else "actions that cannot be numbered"
    raise BadInput(
        f"{name} has {kind} ({space}), and planners choose among finitely many: wrap it with some of them, as "
        "gymnasium.wrappers.TransformAction(env, lambda i: ACTIONS[i], gymnasium.spaces.Discrete(len(ACTIONS)))"
    )


@dataclass(frozen=True)
class ObservationPoints:
    """Observations as points: a function to R^n, and the ranges of its coordinates."""

    point: Callable[[Any], Array]
    low: tuple[float, ...]
    high: tuple[float, ...]
    """Infinite where the space is unbounded."""
    whole: bool
    names: tuple[str, ...] = ()
    guessed: tuple[int, ...] = ()
    """Coordinates whose ends are estimates (:class:`Frame`)."""

    def frame(self, horizon: int | None) -> Frame:
        """The frame for feature maps; all coordinates must be bounded."""
        return Frame(self.low, self.high, self.whole, self.names, horizon, self.guessed)


class Clipping:
    """Points clipped to a frame; ``clipped`` counts those that were outside."""

    def __init__(self, seen: ObservationPoints) -> None:
        self.inner = seen.point
        self.low, self.high = np.array(seen.low), np.array(seen.high)
        self.slack = SLACK * (self.high - self.low)
        self.clipped = 0

    def __call__(self, observation: Any) -> Array:
        """The nearest point of the frame."""
        point = self.inner(observation)
        moved: Array = np.minimum(np.maximum(point, self.low), self.high)
        self.clipped += bool((abs(moved - point) > self.slack).any())  # beyond rounding
        return moved


class Viewed:
    """The part of an MDP that feature maps use: the frame of its view, and the count of clipped points."""

    view: ObservationPoints
    horizon: int | None

    @property
    def clipped(self) -> int:
        """How many points were moved into the frame, with ``outside="clip"``."""
        return int(getattr(self.view.point, "clipped", 0))

    @property
    def frame(self) -> Frame:
        """The frame of the points."""
        return self.view.frame(self.horizon)


def view(space: Any, name: str) -> ObservationPoints:
    """The view of a space: boxes are flattened, tuples and dictionaries concatenated."""
    if isinstance(space, spaces.Discrete):
        ends = (float(space.start),), (float(space.start + space.n - 1),)
        return ObservationPoints(lambda x: np.array([x], dtype=np.float64), *ends, True)
    if isinstance(space, spaces.MultiDiscrete | spaces.MultiBinary):
        size = int(np.prod(space.shape))
        last: Any = np.ravel(space.nvec) - 1 if isinstance(space, spaces.MultiDiscrete) else np.ones(size)
        first = np.ravel(getattr(space, "start", np.zeros(size)))
        return ObservationPoints(_flat, _floats(first), _floats(first + last), True)
    if isinstance(space, spaces.Box):
        low, high = np.ravel(space.low), np.ravel(space.high)
        whole = np.issubdtype(space.dtype, np.integer)
        return ObservationPoints(_flat, _floats(low), _floats(high), bool(whole))
    if isinstance(space, spaces.Tuple | spaces.Dict):
        inner: Any = space.spaces
        keys: list[Any] = list(inner) if isinstance(space, spaces.Dict) else list(range(len(inner)))
        parts = [view(inner[key], name) for key in keys]
        return ObservationPoints(
            lambda x: np.concatenate([part.point(x[key]) for key, part in zip(keys, parts, strict=True)]),
            tuple(itertools.chain(*(part.low for part in parts))),
            tuple(itertools.chain(*(part.high for part in parts))),
            all(part.whole for part in parts),
        )
    raise BadInput(f"{name} has observations that are not points of R^n: {space}")


def _floats(x: Any) -> tuple[float, ...]:
    return tuple(float(y) for y in x)


def _flat(x: Any) -> Array:
    return np.asarray(x, dtype=np.float64).ravel()


def bounded(seen: ObservationPoints, points: Sequence[Array]) -> ObservationPoints:
    """The view with unbounded coordinates bounded by the range of the points plus a margin."""
    low, high = np.array(seen.low), np.array(seen.high)
    open_low, open_high = ~(low > -ENDLESS), ~(high < ENDLESS)
    least, most = np.min(points, axis=0), np.max(points, axis=0)
    width = np.maximum(most - least, NARROWEST)
    low = np.where(open_low, least - MARGIN * width, low)
    high = np.where(open_high, most + MARGIN * width, high)
    if seen.whole:
        low, high = np.floor(low), np.ceil(high)
    guessed = tuple(np.flatnonzero(open_low | open_high).tolist())
    return replace(seen, low=_floats(low), high=_floats(high), guessed=guessed)


def framed(seen: ObservationPoints, frame: Any, name: str) -> ObservationPoints:
    """The view with the user's frame, given as a Frame or as (low, high)."""
    if not isinstance(frame, Frame):
        try:
            low, high = (_floats(np.ravel(end)) for end in frame)
        except (TypeError, ValueError):
            raise BadInput(f"frame must be (low, high) or a Frame, got {shown(frame)}") from None
        names = seen.names if len(seen.names) == len(low) else ()
        frame = Frame(low, high, seen.whole, names)
    if frame.size != len(seen.low):
        raise BadInput(f"the observations of {name} have {len(seen.low)} coordinates, and frame has {frame.size}")
    return ObservationPoints(seen.point, frame.low, frame.high, frame.whole, frame.names)


def table_view(env: Any, states: int) -> ObservationPoints:
    """The view of numbered states: rows and columns in the toy-text environments, otherwise the number itself."""
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
