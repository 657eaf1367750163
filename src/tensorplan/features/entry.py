"""Conversion of specs, functions, transformers, networks, maps, and lists of these to one feature map."""

from __future__ import annotations

from typing import Any

from tensorplan.core.errors import BadInput
from tensorplan.features.adapters import from_callable, from_transformer
from tensorplan.features.combine import Concatenated, join
from tensorplan.features.frame import Frame
from tensorplan.features.maps import BaseMap, FeatureMap
from tensorplan.features.network import from_network, is_network
from tensorplan.features.spec import parts


def resolve(features: Any, frame: Frame, *, seed: int = 0, scale: float = 1.0) -> FeatureMap:
    """The feature map that ``features`` stands for.

    It is a spec such as ``"poly2"``, a function of (x) or (x, stage), a fitted transformer, a trained network (a module
    of PyTorch), a feature map, or a list of these.  ``seed`` is used by random specs; the values of functions,
    transformers and networks are divided by ``scale``, which is estimated for networks if it is 1.
    """
    maps = features if isinstance(features, list | tuple) else [features]
    return compose(*maps, frame=frame, seed=seed, scale=scale)


def compose(*maps: Any, frame: Frame | None = None, seed: int = 0, scale: float = 1.0) -> FeatureMap:
    """The concatenation of maps, specs (which need a frame), functions, transformers and networks.

    Nested concatenations are flattened.
    """
    found: list[FeatureMap] = []
    custom = 0
    for part in maps:
        if isinstance(part, str):
            if frame is None:
                raise BadInput(f"the feature map {part!r} needs frame=")
            found.extend(parts(part, frame, seed, len(found)))
        elif isinstance(part, BaseMap | FeatureMap):
            found.extend(part.parts if isinstance(part, Concatenated) else [part])
        else:
            found.append(_user_map(part, frame, scale))
            custom += 1
    if not found:
        raise BadInput("the list of features is empty")
    if scale != 1 and not custom:
        raise BadInput(
            f"scale={scale!r} is for functions, transformers and networks, and there are none among the features"
        )
    return join(found)


def _user_map(part: Any, frame: Frame | None, scale: float) -> FeatureMap:
    if isinstance(part, type):
        raise BadInput(f"features cannot be the class {part.__name__}: pass an instance, fitted if necessary")
    if is_network(part):
        return from_network(part, scale=None if scale == 1 else scale, frame=frame)
    if callable(getattr(part, "transform", None)):
        return from_transformer(part, scale=scale, frame=frame)
    if callable(part):
        return from_callable(part, scale=scale, frame=frame)
    raise BadInput(
        f"features are a spec such as 'poly2', a function, a transformer, a network, or a list of these, got {part!r}"
    )
