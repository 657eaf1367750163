"""The Numba decorator of all compiled loops, and a compiled popcount."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

# Masks of the SWAR popcount, in the form that LLVM recognises as the processor's instruction.
_PAIRS, _FOURS = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_BYTES, _SUM = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)
_1, _2, _4, _56 = (np.uint64(k) for k in (1, 2, 4, 56))


def compiled(function: F) -> F:
    """The function, compiled at its first call; the machine code is cached on disk where a cache folder is writable."""
    try:
        return cast(F, numba.njit(cache=True)(function))
    except RuntimeError:  # no writable cache folder: compile in every process
        return cast(F, numba.njit(function))


@compiled
def popcount(x: Any) -> Any:
    """The number of set bits of a 64-bit word."""
    x = x - ((x >> _1) & _PAIRS)
    x = (x & _FOURS) + ((x >> _2) & _FOURS)
    x = (x + (x >> _4)) & _BYTES
    return np.int64((x * _SUM) >> _56)
