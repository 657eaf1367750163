"""Feature maps from specs such as ``poly2``, ``tiles8x4@stage`` or ``rbf5:width=0.3+poly1@time``.

A spec is one or more parts joined by ``+``; a part is NAME[SIZE][:option=value,...][@stage | @time].
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from inspect import signature
from string import ascii_letters

from tensorplan.core.errors import BadInput
from tensorplan.core.specs import call, lookup, parse, whole
from tensorplan.features.combine import Staged, Timed, join
from tensorplan.features.families.cells import Aggregate, OneHot
from tensorplan.features.families.fourier import Fourier
from tensorplan.features.families.polynomial import Polynomial
from tensorplan.features.families.random_fourier import RandomFourier
from tensorplan.features.families.rbf import RadialBasis
from tensorplan.features.families.tiles import Tiles
from tensorplan.features.frame import Frame
from tensorplan.features.maps import FeatureMap, FrameMap, affordable


@dataclass(frozen=True)
class FeatureFamily:
    """A family of maps: its constructor from a frame and sizes, an example, and the least value of each size."""

    make: Callable[..., FrameMap]
    example: str
    least: tuple[int, ...] = ()
    random: bool = False
    """Whether its constructor takes a seed after the sizes."""
    cells: bool = False
    """Whether it has indicators of the values of a whole frame."""


def _linear(frame: Frame) -> Polynomial:
    return Polynomial(frame, 1)


FAMILIES: dict[str, FeatureFamily] = {
    "onehot": FeatureFamily(OneHot, "onehot", cells=True),
    "poly": FeatureFamily(Polynomial, "poly2", (0,)),
    "linear": FeatureFamily(_linear, "linear"),
    "fourier": FeatureFamily(Fourier, "fourier3", (1,)),
    "tiles": FeatureFamily(Tiles, "tiles8x4", (1, 1)),
    "rbf": FeatureFamily(RadialBasis, "rbf5", (1,)),
    "rff": FeatureFamily(RandomFourier, "rff100", (1,), random=True),
    "aggregate": FeatureFamily(Aggregate, "aggregate4", (1,), cells=True),
}
"""The only registry of built-in maps."""


def build(spec: str, frame: Frame, *, seed: int = 0) -> FeatureMap:
    """The feature map of a spec on a frame; random parts are drawn with the seed."""
    return join(parts(spec, frame, seed))


def parts(spec: str, frame: Frame, seed: int, first: int = 0) -> list[FeatureMap]:
    """The maps of a spec; random ones are seeded by their position, counted from ``first``, so that they differ."""
    seed = whole("seed", seed, 0)
    if not isinstance(spec, str):
        raise BadInput(f"a feature spec is a string such as 'poly2', got {spec!r}")
    terms = [term.strip() for term in re.split(r"\+(?!\d)", spec)]  # not the plus of 1e+3
    if not all(terms):
        raise BadInput(f"{spec!r} has an empty part: join maps with '+' as in 'poly2+tiles8x4'")
    maps = [_part(term, frame, (seed, first + i)) for i, term in enumerate(terms)]
    affordable(spec, sum(part.dimension for part in maps))
    return maps


def _part(term: str, frame: Frame, seed: tuple[int, int]) -> FeatureMap:
    text, at, over = (piece.strip() for piece in term.partition("@"))
    if not at:
        return _plain(text, frame, seed)
    if over not in ("stage", "time"):
        raise BadInput(f"{term!r}: '@stage' or '@time' comes last in a map, got {at + over!r}")
    if frame.horizon is None:
        raise BadInput(f"{term!r} needs a problem with a horizon")
    if over == "stage":
        return Staged(_plain(text, frame, seed), frame.horizon)
    return Timed(_plain(text, frame, seed, timed=True))


def _plain(text: str, frame: Frame, seed: tuple[int, int], *, timed: bool = False) -> FrameMap:
    """A part without ``@``, on the frame or on the frame with time."""
    head = text.partition(":")[0].strip()
    size = head.lstrip(ascii_letters + "_")
    name = head.removesuffix(size)
    if name in ("stage", "time"):
        raise BadInput(f"{name!r} is not a feature map: append it to one, as in 'poly2@{name}'")
    family = lookup("feature map", name, FAMILIES)
    sizes = _sizes(head, size, family)
    _, _, options = parse(text.replace(",", ":"))
    if timed:
        assert frame.horizon is not None
        # indicators need the values 0 .. H-1; other families take h/H
        frame = frame.timed(frame.horizon - 1 if frame.whole and family.cells else frame.horizon)
    make = partial(family.make, frame, *sizes, *([seed] if family.random else []))
    if options and not signature(make).parameters:
        raise BadInput(f"{head!r} takes no options, got {next(iter(options))!r}")
    return call(head, make, options)


def _sizes(head: str, size: str, family: FeatureFamily) -> list[int]:
    numbers = size.split("x") if size else []
    if len(numbers) != len(family.least) or not all(re.fullmatch(r"\d{1,9}", n, re.ASCII) for n in numbers):
        raise BadInput(f"{head!r} has the wrong size: write it as in {family.example!r}")
    return [whole(f"the size of {head!r}", int(n), least) for n, least in zip(numbers, family.least, strict=True)]
