"""Feature maps for simulators: from the points of a box, and stages, to R^d, with norms at most 1.

    spec        features                                                           dimension       scaled by
    onehot      indicators of the points of a frame of whole numbers               their number    1
    aggregateK  indicators of cells, K per side                                    K^n             1
    tilesKxM    indicators of tiles, M shifted tilings with K tiles per side       M K^n           1/√M
    linear      the coordinates and a constant: poly1                              n + 1           1/√d
    polyK       monomials of degree <= K in coordinates scaled to [-1, 1]          (n+K choose K)  1/√d
    fourierK    cos(π <c, x>), c in {0..K}^n                                       (K+1)^n         1/√d
                with coupled=false at most one entry of c is not 0                 1 + nK          1/√d
    rbfK        Gaussian radial basis functions, K centres per side                K^n             1/√(largest sum)
    rffD        random Fourier features of a Gaussian kernel                       D               1/√⌈D/2⌉

``A+B`` concatenates maps, each scaled by 1/√(number of maps); ``A@stage`` has a block of A for every stage;
``A@time`` adds the stage to the coordinates of A, scaled to h/H.  Options follow a colon, as in ``rbf5:width=0.3``;
widths refer to coordinates scaled to [0, 1].

Each family is scaled by one constant, for which the norm bound is proved, and never per point: what is linear in the
features stays linear.  Points outside of the frame are an error, except for rbf and rff if the frame was estimated:
their norms are at most 1 everywhere.  (So are those of fourier, which is periodic.)  Constant coordinates are ignored;
n counts the others.

Functions, fitted transformers and trained networks are feature maps as well (:func:`from_callable`,
:func:`from_transformer`, :func:`from_network`).

>>> import numpy as np
>>> from tensorplan.features import Frame, build
>>> phi = build("poly2", Frame(low=(-1.2, -0.07), high=(0.6, 0.07), names=("position", "velocity")))
>>> phi
<features poly2: dimension 6>
>>> phi.names
('1', 'position', 'velocity', 'position^2', 'position*velocity', 'velocity^2')
>>> phi(np.array([0.6, 0.0]), 0).round(3).tolist()
[0.408, 0.408, 0.0, 0.408, 0.0, 0.0]
"""

from tensorplan.features.adapters import from_callable, from_transformer
from tensorplan.features.entry import compose, resolve
from tensorplan.features.frame import Frame
from tensorplan.features.maps import FeatureMap
from tensorplan.features.network import from_network
from tensorplan.features.points import PointFeatures
from tensorplan.features.spec import FAMILIES, build

__all__ = [
    "FAMILIES",
    "FeatureMap",
    "Frame",
    "PointFeatures",
    "build",
    "compose",
    "from_callable",
    "from_network",
    "from_transformer",
    "resolve",
]
