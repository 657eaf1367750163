"""What users bring: functions of points and fitted transformers, as feature maps.

The norms of such features cannot be known: values are divided by ``scale``, and a norm above 1 is an error that says
which scale would do.  Points are handed over as they are, not clipped to a frame.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tensorplan.core import NORM_SLACK, Array
from tensorplan.core.errors import BadInput, ProblemError
from tensorplan.core.specs import whole
from tensorplan.features.frame import Frame, show
from tensorplan.features.maps import BaseMap, positive, spread


class Brought(BaseMap):
    """A map from outside, checked at every point: as many features as before, finite, norm at most ``scale``."""

    what: str
    """The kind of thing it is, for messages."""

    def __init__(self, name: str, dimension: int | None, scale: float, frame: Frame | None) -> None:
        super().__init__(name, 0 if dimension is None else whole("dimension", dimension, 1))
        self.scale = positive("scale", scale)
        self.frame = frame

    @property
    def dimension(self) -> int:
        """The dimension d: as given, or that of the first call, or of one at the middle of the frame."""
        if not self._dimension:
            if self.frame is None:
                raise BadInput(
                    f"{self.label} has an unknown dimension before its first call: give dimension= or frame="
                )
            self._raw(self.frame.middle, 0)
        return self._dimension

    def ask(self, x: Array, stage: int) -> Any:
        """What came from outside for one point."""
        raise NotImplementedError

    def __call__(self, x: Array, stage: int) -> Array:
        """The features of x, (d,)."""
        return self._scaled(self._raw(x, stage), x, stage)

    def _raw(self, x: Array, stage: int) -> Array:
        """What came from outside as a vector, (d,)."""
        point = np.array(x, dtype=np.float64)  # a copy: what is not ours may write into it
        raw = self._numbers(lambda: self.ask(point, stage), x, stage).ravel()
        self._dimension = self._dimension or len(raw)
        if len(raw) != self._dimension or not len(raw):
            expected = f", not {self._dimension}," if self._dimension else ""
            raise ProblemError(f"{self.label} gave {len(raw)} features{expected} at {_place(x, stage)}")
        return raw

    def _numbers(self, ask: Callable[[], Any], x: Array, stage: int) -> Array:
        """The answer as an array of floats, or one sentence on why there is none."""
        try:
            answer = ask()
        except Exception as error:
            if any(kind.__name__ == "NotFittedError" for kind in type(error).__mro__):
                raise BadInput(f"{self.label} is not fitted yet: call its fit() first") from error
            first = str(error).strip().partition("\n")[0]
            raise ProblemError(f"{self.label} raised {type(error).__name__} at {_place(x, stage)}: {first}") from error
        try:
            if answer is None:
                raise TypeError
            return np.asarray(answer.toarray() if hasattr(answer, "toarray") else answer, dtype=np.float64)
        except (TypeError, ValueError) as error:
            kind = type(answer).__name__
            raise ProblemError(f"{self.label} gave no array of numbers at {_place(x, stage)}, but {kind}") from error

    def _scaled(self, raw: Array, x: Array, stage: int) -> Array:
        """The vector divided by the scale, (d,)."""
        value: Array = raw / self.scale
        if not value.dot(value) <= (1 + NORM_SLACK) ** 2:
            raise self._too_large(raw, x, stage)
        return value

    def _too_large(self, raw: Array, x: Array, stage: int) -> ProblemError:
        norm = float(np.linalg.norm(raw))
        if not math.isfinite(norm):
            bad = [*raw[~np.isfinite(raw)], norm][0]
            return ProblemError(f"{self.label} gave {bad} at {_place(x, stage)}")
        above = "1" if self.scale == 1 else f"scale={self.scale:g}"
        return ProblemError(
            f"{self.label} gave features of norm {norm:.6g} at {_place(x, stage)}, which is above {above}: "
            f"give scale={_rounded_up(norm)} or more"
        )

    @property
    def label(self) -> str:
        """What it is called in messages."""
        return f"the {self.what} {self.name!r}"


class Custom(Brought):
    """A function of (x) or (x, stage) with any array of numbers as its value, flattened to (d,)."""

    what = "feature function"

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        dimension: int | None = None,
        scale: float = 1.0,
        name: str = "",
        frame: Frame | None = None,
    ) -> None:
        own = getattr(function, "__name__", type(function).__name__)
        super().__init__(name or own.strip("<>"), dimension, scale, frame)
        self.function = function
        self._sees_stage = _sees_stage(function, self.label)

    def ask(self, x: Array, stage: int) -> Any:
        """The value of the function."""
        return self.function(x, stage) if self._sees_stage else self.function(x)


class Transformed(Brought):
    """What ``transformer.transform`` makes of (x), given to it as an array (1, n); sparse results are fine."""

    what = "transformer"

    def __init__(
        self,
        transformer: Any,
        *,
        dimension: int | None = None,
        scale: float = 1.0,
        name: str = "",
        frame: Frame | None = None,
    ) -> None:
        super().__init__(name or type(transformer).__name__, dimension, scale, frame)
        self.transformer = transformer
        if frame is not None:
            self._raw(frame.middle, 0)  # one that is not fitted, or to other points, is better refused now

    def ask(self, x: Array, stage: int) -> Any:
        """The transformed row."""
        return self.transformer.transform(x[None])

    def many(self, points: Array, stages: ArrayLike) -> Array:
        """The transformed rows of points (m, n), in one call, (m, d)."""
        points = np.array(points, dtype=np.float64)
        if not len(points):
            return np.zeros((0, self.dimension))
        places = spread(stages, len(points))
        first = self._raw(points[0], places[0])
        rows = self._numbers(lambda: self.transformer.transform(points.copy()), points[0], places[0])
        if rows.shape != (len(points), len(first)):
            expected = (len(points), len(first))
            raise ProblemError(f"{self.label} gave an array {rows.shape} for {len(points)} points, expected {expected}")
        return np.array([self._scaled(*row) for row in zip(rows, points, places, strict=True)])

    def describe(self) -> tuple[str, ...]:
        """The transformer's own names of what comes out, where it has them."""
        try:
            names = tuple(str(name) for name in self.transformer.get_feature_names_out())
        except Exception:  # scikit-learn has it on some transformers, and on some of those it works
            names = ()
        return names if len(names) == self.dimension else super().describe()


def from_callable(
    function: Callable[..., Any],
    *,
    dimension: int | None = None,
    scale: float = 1.0,
    name: str = "",
    frame: Frame | None = None,
) -> Custom:
    """The feature map x -> function(x)/scale, or function(x, stage)/scale where it takes two arguments.

    The dimension is that of the first value unless given; with a frame it is known before the first call.
    """
    return Custom(function, dimension=dimension, scale=scale, name=name, frame=frame)


def from_transformer(
    transformer: Any, *, dimension: int | None = None, scale: float = 1.0, name: str = "", frame: Frame | None = None
) -> Transformed:
    """The feature map x -> transform(x)/scale of a fitted transformer, scikit-learn's or of the same shape.

    With a frame it is tried at once.
    """
    return Transformed(transformer, dimension=dimension, scale=scale, name=name, frame=frame)


def _sees_stage(function: Callable[..., Any], what: str) -> bool:
    """Whether the function takes (x, stage), not (x): a second argument with a default is its own business
    unless it is called stage.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some built-in functions do not tell
        return False
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return True
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    if not places or len(needed) > 2 or not {p.name for p in needed} <= {p.name for p in places}:
        raise BadInput(f"{what} must take (x) or (x, stage), not ({', '.join(p.name for p in parameters)})")
    return len(needed) == 2 or (len(places) > 1 and places[1].name == "stage")


def _place(x: Array, stage: int) -> str:
    return f"x={show(np.asarray(x))}, stage {stage}"


def _rounded_up(x: float) -> str:
    """The number with six digits, not below it."""
    unit = 10.0 ** (math.floor(math.log10(x)) - 5)
    text = f"{x:.6g}"
    return text if float(text) >= x else f"{x + unit:.6g}"
