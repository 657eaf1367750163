"""Weights packed into 64-bit words: component 64 k + j is bit j of word k, set if the component is -1.

A batch of n weights is an array (W, n) with W = ⌈p/64⌉, a batch of sequences (L, W, n): the batch comes last, so that
the same word of all weights is contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import Array
from tensorplan.game.kernels import antipodes, weights
from tensorplan.problems.hard.hypercube import decay

Words: TypeAlias = NDArray[np.uint64]


def word_count(p: int) -> int:
    """W = ⌈p/64⌉, the number of words of a weight."""
    return -(-p // 64)


def pack(numbers: Sequence[int], p: int) -> Words:
    """Weights given as numbers, packed, (W, n)."""
    size = 8 * word_count(p)
    data = b"".join(number.to_bytes(size, "little") for number in numbers)
    return np.ascontiguousarray(np.frombuffer(data, dtype="<u8").reshape(-1, size // 8).T, dtype=np.uint64)


def unpack(words: Words) -> int:
    """One packed weight (W,) as a number."""
    return int.from_bytes(words.astype("<u8").tobytes(), "little")


def pack_bits(bits: NDArray[np.bool_]) -> Words:
    """Weights given as bits (n, p), set where the component is -1, packed, (W, n)."""
    n, p = bits.shape
    padded = np.zeros((n, 8 * word_count(p)), dtype=np.uint8)
    packed = np.packbits(bits, axis=1, bitorder="little")
    padded[:, : packed.shape[1]] = packed
    return np.ascontiguousarray(padded.view("<u8").T, dtype=np.uint64)


@cache
def decays(p: int) -> Array:
    """g(0), .., g(p), (p + 1,)."""
    table = np.array([float(decay(x, p)) for x in range(p + 1)])
    table.flags.writeable = False
    return table


def draw(p: int, n: int, rng: np.random.Generator) -> Words:
    """n uniform weights, (W, n)."""
    return rng.integers(0, 1 << 64, size=(word_count(p), n), dtype=np.uint64) & pack([(1 << p) - 1], p)


def legal(words: Words, far: int) -> Words:
    """The weights that are legal as the first of a query, diff(1, w) >= far, (W, m)."""
    keep = weights(words) >= far
    return words if keep.all() else np.ascontiguousarray(words[:, keep])


def antipodal(words: Words, p: int) -> Words:
    """The queries (w, -w), or (-w, w) if w is closer to the vector of ones, (2, W, n): legal for all w."""
    pairs: Words = antipodes(words, pack([(1 << p) - 1], p)[:, 0], p)
    return pairs
