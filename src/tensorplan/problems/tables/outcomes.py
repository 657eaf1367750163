"""Outcomes of many pairs of a table at once, by inverting their distribution functions.

The outcomes of all pairs are stored one after another, with the cumulative probabilities of each pair, and a uniform
number picks one of them by a binary search within the pair.  This takes memory for the entries of the table only.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import Array

ENDED = -1
"""The number that stands for END among next states."""


CERTAIN = 2.0
"""Stands for the cumulative probability of the last outcome of a pair, above every uniform number."""


class Outcomes:
    """The outcomes of all pairs: those of pair i are at ``ends[i]`` .. ``ends[i+1] - 1``.

    ``cumulative`` is the probability of each outcome and of those of the same pair before it, ``successors`` are the
    next states, or ENDED.
    """

    def __init__(self, ends: NDArray[np.int64], cumulative: Array, successors: NDArray[np.int64]) -> None:
        self.first, self.last = ends[:-1], ends[1:] - 1
        self.cumulative = cumulative.copy()
        self.cumulative[self.last] = CERTAIN
        self.successors = successors
        most = int((self.last - self.first).max(initial=0))
        self.strides = [1 << k for k in reversed(range(1, most.bit_length()))]

    def pick(self, pairs: NDArray[Any], uniform: NDArray[Any]) -> NDArray[np.int64]:
        """The position of the outcome of each pair for a number in [0, 1): the first with cumulative > uniform.

        A binary search without branches, which would be mispredicted: it advances by a stride if all outcomes that it
        passes have cumulative <= uniform.
        """
        at: NDArray[np.int64] = self.first.take(pairs)
        last = self.last.take(pairs) if self.strides else at
        for stride in self.strides:
            passed = np.minimum(at + (stride - 1), last)
            at += (self.cumulative.take(passed) <= uniform) * stride
        at += self.cumulative.take(at) <= uniform  # a stride of 1
        return at


def cumulative_rows(matrix: Any) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
    """(ends, columns, cumulative probabilities) of the nonzero entries of a dense or CSR matrix, row by row."""
    if hasattr(matrix, "indptr"):
        ends, columns = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
        return ends, columns, _running_sums(ends, matrix.data)
    rows, columns = np.nonzero(matrix)
    ends = np.searchsorted(rows, np.arange(len(matrix) + 1))
    return ends, columns, _running_sums(ends, matrix[rows, columns])


def _running_sums(ends: NDArray[np.int64], weights: Array) -> Array:
    """Cumulative sums within each row, added in the order of ``np.cumsum``."""
    sums, at = weights.copy(), ends[:-1]
    last = ends[1:] - 1
    while True:
        at, last = at[at < last] + 1, last[at < last]
        if not at.size:
            return sums
        sums[at] += sums[at - 1]
