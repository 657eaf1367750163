"""The cosine basis of Konidaris, Osentoski and Thomas (2011): ``fourierK`` is cos(π <c, x>) for c in {0..K}^k.

Every entry is in [-1, 1] and equals 1 at x = 0: divided by √d, the norm is at most 1, with equality at x = 0.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from tensorplan.core import Array
from tensorplan.core.specs import truth
from tensorplan.features.frame import Frame
from tensorplan.features.maps import FrameMap, affordable

LIMIT = 100_000
"""The largest dimension of a coupled basis, whose frequencies are stored as a dense matrix."""


class Fourier(FrameMap):
    """cos(π <c, x>), c in {0..K}^k: d = (K+1)^k; uncoupled, c has at most one nonzero entry: d = 1 + kK."""

    def __init__(self, frame: Frame, order: int, *, coupled: bool = True) -> None:
        self.order, self.coupled = order, truth("coupled", coupled)
        name, k = f"fourier{order}" + ("" if self.coupled else ":coupled=false"), len(frame.varying)
        alone = 1 + k * order
        if self.coupled:
            hint = f": coupled=false has {alone:,}" if alone <= LIMIT else ""
            super().__init__(name, frame, affordable(name, (order + 1) ** k, LIMIT, hint))
            steps = np.pi * np.arange(order + 1)
            self._angles = np.array(np.meshgrid(*[steps] * k, indexing="ij")).reshape(k, self.dimension)
        else:
            super().__init__(name, frame, affordable(name, alone))
            self._angles = np.pi * np.arange(1, order + 1)
        self._scale = 1 / math.sqrt(self.dimension)

    def rows(self, unit: Array) -> Array:
        """The cosines at scaled points (m, k) divided by √d, (m, d)."""
        if self.coupled:
            out: Array = np.cos(unit @ self._angles)
        else:
            out = np.ones((len(unit), self.dimension))
            np.cos((unit[:, :, None] * self._angles).reshape(len(unit), self.dimension - 1), out=out[:, 1:])
        out *= self._scale
        return out

    def describe(self) -> tuple[str, ...]:
        """``1``, ``cos(pi*x0)``, ``cos(pi*(x0+2*x1))``, ... in scaled coordinates."""
        names, orders = self.frame.varying_names, range(self.order + 1)
        if self.coupled:
            return tuple(_cosine(dict(zip(names, c, strict=True))) for c in product(orders, repeat=len(names)))
        return ("1", *(_cosine({name: c}) for name in names for c in orders[1:]))


def _cosine(factors: dict[str, int]) -> str:
    terms = [name if c == 1 else f"{c}*{name}" for name, c in factors.items() if c]
    inside = f"({'+'.join(terms)})" if len(terms) > 1 else "".join(terms)
    return f"cos(pi*{inside})" if terms else "1"
