"""Functions and fitted transformers of the user as feature maps.

Their norms are not known in advance: values are divided by ``scale``, and a norm above 1 is an error that names a
sufficient scale.  Points are passed on unchanged, not clipped to a frame.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tensorplan.core import NORM_SLACK, Array
from tensorplan.core.errors import BadInput, ProblemError, TensorplanError
from tensorplan.core.specs import whole
from tensorplan.features.frame import Frame, show
from tensorplan.features.maps import BaseMap, positive, spread


class UserMap(BaseMap):
    """A map defined by the user, checked at every point: constant dimension, finite, norm at most ``scale``."""

    what: str
    """What to call it in messages."""

    def __init__(self, name: str, dimension: int | None, scale: float, frame: Frame | None) -> None:
        super().__init__(name, 0 if dimension is None else whole("dimension", dimension, 1))
        self.scale = positive("scale", scale)
        self.frame = frame

    @property
    def dimension(self) -> int:
        """The dimension d: as given, of the first call, or of a call at the middle of the frame."""
        if not self._dimension:
            if self.frame is None:
                raise BadInput(
                    f"{self.label} has an unknown dimension before its first call: give dimension= or frame="
                )
            self._raw(self.frame.middle, 0)
        return self._dimension

    def evaluate(self, x: Array, stage: int) -> Any:
        """The user's value at one point."""
        raise NotImplementedError

    def __call__(self, x: Array, stage: int) -> Array:
        """The features of x, (d,)."""
        return self._scaled(self._raw(x, stage), x, stage)

    def _raw(self, x: Array, stage: int) -> Array:
        """The user's value as a vector, (d,)."""
        point = np.array(x, dtype=np.float64)  # a copy: the user's code may modify it
        raw = self._numbers(lambda: self.evaluate(point, stage), x, stage).ravel()
        self._dimension = self._dimension or len(raw)
        if len(raw) != self._dimension or not len(raw):
            expected = f", not {self._dimension}," if self._dimension else ""
            raise ProblemError(f"{self.label} gave {len(raw)} features{expected} at {_place(x, stage)}")
        return raw

    def _numbers(self, evaluate: Callable[[], Any], x: Array, stage: int) -> Array:
        """``evaluate()`` as an array of floats; errors become ProblemError or BadInput."""
        try:
            value = evaluate()
        except TensorplanError:
            raise
        except Exception as error:
            if any(kind.__name__ == "NotFittedError" for kind in type(error).__mro__):
                raise BadInput(f"{self.label} is not fitted yet: call its fit() first") from error
            first = str(error).strip().partition("\n")[0]
            raise ProblemError(f"{self.label} raised {type(error).__name__} at {_place(x, stage)}: {first}") from error
        try:
            if value is None:
                raise TypeError
            return np.asarray(value.toarray() if hasattr(value, "toarray") else value, dtype=np.float64)
        except (TypeError, ValueError) as error:
            got = f"{self.label} returned {type(value).__name__} at {_place(x, stage)}"
            raise ProblemError(f"{got}, expected an array of numbers") from error

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
        """The map in messages, such as ``the feature function 'f'``."""
        return f"the {self.what} {self.name!r}"


class Custom(UserMap):
    """A function of (x) or (x, stage) that returns an array of numbers, flattened to (d,)."""

    what = "feature function"

    def __init__(
        self, function: Callable[..., Any], name: str, dimension: int | None, scale: float, frame: Frame | None
    ) -> None:
        own = getattr(function, "__name__", type(function).__name__)
        super().__init__(name or own.strip("<>"), dimension, scale, frame)
        self.function = function
        self._sees_stage = _sees_stage(function, self.label)

    def evaluate(self, x: Array, stage: int) -> Any:
        """The value of the function."""
        return self.function(x, stage) if self._sees_stage else self.function(x)


class Transformed(UserMap):
    """The row ``transformer.transform(x)`` of a fitted transformer, called with (1, n); it may be sparse."""

    what = "transformer"

    def __init__(self, transformer: Any, name: str, dimension: int | None, scale: float, frame: Frame | None) -> None:
        super().__init__(name or type(transformer).__name__, dimension, scale, frame)
        self.transformer = transformer
        if frame is not None:
            self._raw(frame.middle, 0)  # fail early if it is not fitted, or fitted to points of another size

    def evaluate(self, x: Array, stage: int) -> Any:
        """The transformed row, (1, d)."""
        return self.transformer.transform(x[None])

    def many(self, points: Array, stages: ArrayLike) -> Array:
        """The transformed rows of points (m, n), by one call of the transformer, (m, d)."""
        points = np.array(points, dtype=np.float64)
        if not len(points):
            return np.zeros((0, self.dimension))
        at = spread(stages, len(points))
        first = self._raw(points[0], at[0])
        rows = self._numbers(lambda: self.transformer.transform(points.copy()), points[0], at[0])
        if rows.shape != (len(points), len(first)):
            expected = (len(points), len(first))
            raise ProblemError(f"{self.label} gave an array {rows.shape} for {len(points)} points, expected {expected}")
        return np.array([self._scaled(*row) for row in zip(rows, points, at, strict=True)])

    def describe(self) -> tuple[str, ...]:
        """The names given by ``get_feature_names_out``, if the transformer has it."""
        try:
            names = tuple(str(name) for name in self.transformer.get_feature_names_out())
        except Exception:  # missing or not implemented in some transformers of scikit-learn
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
    """The feature map x -> function(x)/scale, or function(x, stage)/scale if it takes two arguments.

    Unless given, the dimension is that of the first value; with a frame it is known before the first call.
    """
    return Custom(function, name, dimension, scale, frame)


def from_transformer(
    transformer: Any, *, dimension: int | None = None, scale: float = 1.0, name: str = "", frame: Frame | None = None
) -> Transformed:
    """The feature map x -> transform(x)/scale of a fitted transformer with the interface of scikit-learn.

    With a frame it is called once at construction, to fail early.
    """
    return Transformed(transformer, name, dimension, scale, frame)


def _sees_stage(function: Callable[..., Any], what: str) -> bool:
    """Whether to call the function with (x, stage) rather than (x).

    An optional second parameter receives the stage only if it is named ``stage``.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some built-in functions have no signature
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
    """x rounded up to six significant digits."""
    unit = 10.0 ** (math.floor(math.log10(x)) - 5)
    text = f"{x:.6g}"
    return text if float(text) >= x else f"{x + unit:.6g}"
