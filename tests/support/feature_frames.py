"""Frames and points of them, for the tests of feature maps."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from tensorplan.features import Frame

SPECS = [
    *("poly0", "poly1", "poly3", "linear", "fourier1", "fourier3", "fourier4:coupled=false"),
    *("tiles1x1", "tiles3x1", "tiles4x3", "tiles3x8", "aggregate1", "aggregate3", "aggregate7"),
    *("rbf1", "rbf2", "rbf4", "rbf3:width=0.01", "rbf3:width=0.17", "rbf4:width=2.5", "rbf1:width=0.2"),
    *("rff1", "rff2", "rff7", "rff20:width=0.1", "rff20:width=30.0"),
    *("poly2@stage", "tiles3x2@time", "rff6@time", "poly1+aggregate2", "poly2@time+rbf2@stage+fourier1"),
]
"""One of each kind, and some made of several."""


@st.composite
def frames(draw, *, whole=None, most=3, horizon=5):
    """A frame of a few coordinates, some of them constant, of any size."""
    is_whole = draw(st.booleans()) if whole is None else whole
    n = draw(st.integers(1, most))
    if is_whole:
        low = draw(st.lists(st.integers(-10, 10), min_size=n, max_size=n))
        span = draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))
    else:
        low = draw(st.lists(st.floats(-1e6, 1e6), min_size=n, max_size=n))
        span = draw(st.lists(st.sampled_from([0.0, 1e-3, 0.3, 1.0, 7.0, 1e7]), min_size=n, max_size=n))
    return Frame(tuple(low), tuple(a + b for a, b in zip(low, span, strict=True)), is_whole, horizon=horizon)


@st.composite
def points(draw, frame):
    """A point of the frame, of its border, or outside by rounding."""
    x = []
    for low, high in zip(frame.low, frame.high, strict=True):
        kind = draw(st.sampled_from(["inside", "low", "high", "rounded"]))
        t = draw(st.floats(0, 1))
        inside = low + t * (high - low)
        inside = float(round(inside)) if frame.whole else inside
        rounded = high + 5e-7 * (t if frame.whole else t * (high - low))
        x.append({"inside": inside, "low": low, "high": high, "rounded": rounded}[kind])
    return np.array(x)


def grid(frame, count):
    """Points of the frame on a regular grid with its ends, (count^n, n)."""
    axes = [np.linspace(low, high, count) for low, high in zip(frame.low, frame.high, strict=True)]
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)


def unit(frame, x):
    """The point scaled to [0, 1], coordinate by coordinate; constant ones are left out."""
    ends = zip(x, frame.low, frame.high, strict=True)
    return np.array([(min(max(v, low), high) - low) / (high - low) for v, low, high in ends if low < high])
