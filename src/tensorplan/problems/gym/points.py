"""Observations as points of R^n, with the ranges of their coordinates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tensorplan.core import Array
from tensorplan.core.errors import BadInput, shown
from tensorplan.features.frame import SLACK, Frame

ENDLESS = 1e9
"""Bounds beyond this count as infinite: Gymnasium also writes unbounded spaces with huge floats."""

MARGIN = 1.0
"""The margin of an estimated frame on either side, relative to the range in random play: planners go further."""

NARROWEST = 1e-6
"""The least width of an estimated range, so that a coordinate that was constant in random play has a margin."""

LARGE = 16 * 1024
"""Observations of more bytes are large: thousands of them, one for each state, would fill the memory."""


@dataclass(frozen=True)
class ObservationPoints:
    """Observations as points: a function to R^n, and the ranges of its coordinates.

    ``point`` depends on the observation alone, and its values share no memory with it.
    """

    point: Callable[[Any], Array]
    low: tuple[float, ...]
    high: tuple[float, ...]
    """Infinite where the space is unbounded; both are empty if the size is not known before the first point."""
    whole: bool
    names: tuple[str, ...] = ()
    guessed: tuple[int, ...] = ()
    """Coordinates whose ends are estimates (:class:`Frame`)."""
    nbytes: int = 0
    """The size of an observation in memory."""

    @property
    def large(self) -> bool:
        """Whether observations are too large to be kept with every state."""
        return self.nbytes > LARGE

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


def bounded(seen: ObservationPoints, points: Sequence[Array]) -> ObservationPoints:
    """The view with unbounded coordinates bounded by the range of the points plus a margin."""
    least, most = np.min(points, axis=0), np.max(points, axis=0)
    low, high = np.array(seen.low or [-np.inf] * len(least)), np.array(seen.high or [np.inf] * len(least))
    open_low, open_high = ~(low > -ENDLESS), ~(high < ENDLESS)
    width = np.maximum(most - least, NARROWEST)
    low = np.where(open_low, least - MARGIN * width, low)
    high = np.where(open_high, most + MARGIN * width, high)
    if seen.whole:
        low, high = np.floor(low), np.ceil(high)
    guessed = tuple(np.flatnonzero(open_low | open_high).tolist())
    return replace(seen, low=floats(low), high=floats(high), guessed=guessed)


def framed(seen: ObservationPoints, frame: Any, name: str) -> ObservationPoints:
    """The view with the user's frame, given as a Frame or as (low, high)."""
    if not isinstance(frame, Frame):
        try:
            low, high = (floats(np.ravel(end)) for end in frame)
        except (TypeError, ValueError):
            raise BadInput(f"frame must be (low, high) or a Frame, got {shown(frame)}") from None
        names = seen.names if len(seen.names) == len(low) else ()
        frame = Frame(low, high, seen.whole, names)
    if frame.size != len(seen.low):
        raise BadInput(f"the observations of {name} have {len(seen.low)} coordinates, and frame has {frame.size}")
    return replace(seen, low=frame.low, high=frame.high, whole=frame.whole, names=frame.names, guessed=())


def floats(x: Any) -> tuple[float, ...]:
    """The numbers as a tuple."""
    return tuple(np.ravel(x).astype(np.float64).tolist())
