"""The last hidden layer of a trained network as a feature map.

With h(x) the input of the head, the last linear layer, the map is

    φ(x) = (1, h(x)) / max(scale, ‖(1, h(x))‖),

so that the head, which has a bias, is linear in φ wherever ‖(1, h(x))‖ <= scale, and norms are at most 1 everywhere.
PyTorch is not imported here: a module of it comes from a program that has imported it.
"""

from __future__ import annotations

import copy
import inspect
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tensorplan.core import Array
from tensorplan.core.errors import BadInput, ProblemError, raised, shown
from tensorplan.core.specs import suggestion
from tensorplan.features.adapters import UserMap
from tensorplan.features.frame import Frame, show
from tensorplan.features.maps import spread

SAMPLED = 512
"""Corners of the frame, and as many points inside, at which norms are sampled to choose a scale."""

SAMPLED_NUMBERS = 2**21
"""Most coordinates of these, so that whole images take no more than some 16 MB."""

NORM_MARGIN = 1.5
"""The scale relative to the largest norm in the sample: norms may be larger at other points."""

VALUE_HEAD = "value_net"
"""The head for values in the actor-critic policies of Stable-Baselines3; it is not the last layer that they reach."""


def is_network(thing: object) -> bool:
    """Whether this is a module of PyTorch; it is not imported for that."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.nn.Module)


class HiddenFeatures(UserMap):
    """φ(x) = (1, h(x)) / max(scale, ‖(1, h(x))‖) for a function h of many points, (m, n) -> (m, k)."""

    what = "network"

    def __init__(self, hidden: Callable[[Array], Any], name: str, scale: float | None, frame: Frame | None) -> None:
        if scale is None and frame is None:
            raise BadInput(f"the scale of the network {name!r} is not known: give scale= or frame=")
        super().__init__(name, None, 1.0 if scale is None else scale, frame)
        self.hidden = hidden
        self._warned = False
        if frame is not None:
            self._raw(frame.middle, 0)  # fail early if it takes points of another size
        if scale is None and frame is not None:
            self.scale = NORM_MARGIN * self._largest_norm(_sample(frame))

    def describe(self) -> tuple[str, ...]:
        """``1``, ``NAME[0]``, ..."""
        return ("1", *(f"{self.name}[{i}]" for i in range(self.dimension - 1)))

    def evaluate(self, x: Array, stage: int) -> Any:
        """(1, h(x)), (1, d)."""
        return _with_constant(self.hidden(x[None]))

    def many(self, points: Array, stages: ArrayLike) -> Array:
        """The features of points (m, n), by one evaluation of the network, (m, d)."""
        points = np.array(points, dtype=np.float64)
        if not len(points):
            return np.zeros((0, self.dimension))
        at = spread(stages, len(points))
        rows = self._rows(points, at[0])
        return np.array([self._scaled(*row) for row in zip(rows, points, at, strict=True)])

    def _rows(self, points: Array, stage: int) -> Array:
        """(1, h(x)) for points (m, n), (m, d)."""
        rows = self._numbers(lambda: _with_constant(self.hidden(points.copy())), points[0], stage)
        self._dimension = self._dimension or rows.shape[1]
        if rows.shape != (len(points), self.dimension):
            expected = f"expected {(len(points), self.dimension - 1)}"
            raise ProblemError(
                f"{self.label} gave an array {(len(rows), rows.shape[1] - 1)} for {len(points)} points, {expected}"
            )
        return rows

    def _largest_norm(self, points: Array) -> float:
        """The largest norm of (1, h(x)) at these points, which must be finite."""
        rows = self._rows(points, 0)
        norms = np.linalg.norm(rows, axis=1)
        worst = int(norms.argmax())  # the first NaN, if there is one
        if not np.isfinite(norms[worst]):
            raise self._too_large(rows[worst], points[worst], 0)
        return float(norms[worst])

    def _scaled(self, raw: Array, x: Array, stage: int) -> Array:
        """The vector divided by the scale, or by its norm where that is larger, (d,)."""
        norm = float(np.sqrt(raw.dot(raw)))
        if not np.isfinite(norm):
            raise self._too_large(raw, x, stage)
        if norm > self.scale:
            self._warn(norm, x)
        scaled: Array = raw / max(self.scale, norm)
        return scaled

    def _warn(self, norm: float, x: Array) -> None:
        """Say once that a point was scaled by itself."""
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{self.label} has features of norm {norm:.6g} at x={show(x)}, above scale={self.scale:.6g}: divided "
                "by their norm, they are not linear in its outputs there; give a larger scale",
                stacklevel=2,
            )


class HiddenLayer:
    """h(points): the input of the head of a PyTorch module, in evaluation mode and without gradients.

    The module is copied, so that its training may go on, and the copy computes in double precision: a point has the
    same features alone and among others.
    """

    def __init__(self, module: Any, layer: str | None, name: str) -> None:
        self.name = name
        self.module = _copied(module, name).double().eval()
        takes = inspect.signature(module.forward).parameters
        self._options = {"deterministic": True} if "deterministic" in takes else {}  # policies of Stable-Baselines3
        self._input: Any = None
        for part in self.module.modules():
            if next(part.parameters(recurse=False), None) is not None:
                part.register_forward_pre_hook(_in_double)
        for head in self._heads(layer):
            head.register_forward_pre_hook(self._note, with_kwargs=True)

    def __call__(self, points: Array) -> Array:
        """The last input of the head for points (m, n), (m, k)."""
        torch: Any = sys.modules["torch"]
        device = next((p.device for p in self.module.parameters()), None)
        self._input = None
        with torch.no_grad():
            self.module(torch.as_tensor(points, dtype=torch.float64, device=device), **self._options)
            if self._input is None:
                raise BadInput(f"the network {self.name!r} does not reach the layer that is to be its last one")
            found: Array = self._input.detach().double().cpu().numpy()
        self._input = None
        return found

    def _heads(self, layer: str | None) -> list[Any]:
        """The layers of which the one reached last is the head."""
        parts = dict(self.module.named_modules())
        linear = sys.modules["torch"].nn.Linear
        if layer is not None:
            if layer not in parts or not layer:
                raise BadInput(
                    f"the network {self.name!r} has no layer {layer!r}; {suggestion(layer, filter(None, parts))}"
                )
            return [parts[layer]]
        if isinstance(parts.get(VALUE_HEAD), linear):
            return [parts[VALUE_HEAD]]
        heads = [part for part in parts.values() if isinstance(part, linear)]
        if not heads:
            raise BadInput(
                f"the network {self.name!r} has no Linear layer: name its last layer, from_network(.., layer=)"
            )
        return heads

    def _note(self, part: Any, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        self._input = args[0] if args else next(iter(options.values()))


def from_network(
    module: Any, *, layer: str | None = None, scale: float | None = None, name: str = "", frame: Frame | None = None
) -> HiddenFeatures:
    """The last hidden layer of a PyTorch module and a constant as a feature map, with norms at most 1.

    It is the input of ``layer``, a name as in ``module.named_modules()``; by default of the last ``Linear`` layer that
    is reached, or of ``value_net`` in the policies of Stable-Baselines3.  The module takes points (m, n) in double
    precision, or converts them.  ``scale``: a bound on the norm of (1, h); by default 1.5 times the largest at sampled
    points of the frame.  Points with a larger norm are divided by it instead, with a warning.
    """
    if not is_network(module):
        raise BadInput(f"a network is a module of PyTorch (torch.nn.Module), got {shown(module)}")
    name = name or type(module).__name__
    return HiddenFeatures(HiddenLayer(module, layer, name), name, scale, frame)


def _with_constant(hidden: Any) -> Array:
    """A column of ones before the rows, (m, 1 + k)."""
    rows = np.asarray(hidden, dtype=np.float64)
    rows = rows.reshape(len(rows), -1)
    return np.column_stack((np.ones(len(rows)), rows))


def _sample(frame: Frame) -> Array:
    """Corners and inner points of the frame, the same ones every time."""
    dice = np.random.default_rng(0)
    inside = dice.random((min(SAMPLED, SAMPLED_NUMBERS // frame.size + 1), frame.size))
    low, high = np.array(frame.low), np.array(frame.high)
    unit = np.concatenate((inside.round(), inside))
    points: Array = low + unit * (high - low)
    return np.floor(points) if frame.whole else points


def _in_double(part: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The inputs of a layer in double precision, which a module may have left."""
    return tuple(x.double() if _is_floating(x) else x for x in args)


def _is_floating(x: Any) -> bool:
    """Whether this is a tensor of floating-point numbers."""
    torch: Any = sys.modules["torch"]
    return isinstance(x, torch.Tensor) and bool(x.is_floating_point())


def _copied(module: Any, name: str) -> Any:
    try:
        return copy.deepcopy(module)
    except Exception as error:
        raise BadInput(f"the network {name!r} cannot be copied ({raised(error)})") from error
