"""Feature maps for users who bring a simulator: points of a box, and stages, to R^d with norms at most 1.

    spec        features                                                           dimension       scaled by
    onehot      one for each point of a frame of whole numbers                     their number    1
    aggregateK  which of K cells a side x is in                                    K^n             1
    tilesKxM    which tile x is in, for M shifted tilings with K tiles a side      M K^n           1/√M
    linear      the coordinates and a constant: poly1                              n + 1           1/√d
    polyK       monomials of degree <= K in coordinates scaled to [-1, 1]          (n+K choose K)  1/√d
    fourierK    cos(π <c, x>), c in {0..K}^n                                       (K+1)^n         1/√d
                with coupled=false at most one entry of c is not 0                 1 + nK          1/√d
    rbfK        Gaussian bumps of a width on K centres a side                      K^n             1/√(largest sum)
    rffD        random Fourier features of a Gaussian kernel of a width            D               1/√⌈D/2⌉

``A+B`` puts maps side by side, each scaled by 1/√(number of maps); ``A@stage`` gives every stage its own block of A;
``A@time`` lets A see the stage as one more coordinate, scaled to h/H.  Options stand behind a colon, as in
``rbf5:width=0.3``; widths are those of coordinates scaled to [0, 1].

Each map is scaled by one constant that is proven for its family, never point by point: what was linear in the features
stays linear.  Points outside of the frame are an error, but for rbf and rff where the frame was guessed: their norms
are at most 1 everywhere.  (So are those of fourier, which repeats itself outside.)  Coordinates that never vary are
left out (n is the number of the others).

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
    "from_transformer",
    "resolve",
]
