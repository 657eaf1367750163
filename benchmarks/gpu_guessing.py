"""Uniform guessing on a GPU, the counterpart of :class:`tensorplan.game.blind.Blind`: the same law of the cost.

Guesses are made where they are tested, so that no memory is read.  Word k of guess i is the output of splitmix64
(Steele, Lea and Flood 2014) at place i W + k of a stream that the seed chooses, W = ⌈p/64⌉: any thread can make any
guess, and so can the host (:func:`guesses`), which makes the close one again and checks it.  As the guesses never leave
the device, the secret has to be there: this plays both sides of the game, with queries of length 1, up to the first
reply with V = 1.  It needs CuPy, the extra ``gpu``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from tensorplan.core.errors import BadInput, TensorplanError
from tensorplan.core.specs import whole
from tensorplan.game.balls import least_far
from tensorplan.game.packed import Words, pack, unpack, word_count
from tensorplan.problems.hard.hypercube import distance, from_secret, is_close

FIRST, LARGEST = 1 << 20, 1 << 34
"""Guesses of the first and of the largest launch."""

THREADS, EACH = 256, 64
"""Threads of a block, and guesses of a thread."""

NONE = (1 << 64) - 1
"""Where no close guess was found."""

GOLDEN, FACTOR_1, FACTOR_2 = (np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))

SOURCE = r"""
typedef unsigned long long u64;

#define GOLDEN 0x9E3779B97F4A7C15ULL

__device__ __forceinline__ u64 mix(u64 z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}

// Guesses start .. start + n - 1: found[0] becomes the first that is legal and close to the secret, and found[1] the
// number of illegal ones, which is of use only where none is close.  Blocks behind a close guess leave at once.
extern "C" __global__ void scan(const u64 *secret, u64 top, int far, u64 key, u64 start, u64 n, u64 *found) {
    const u64 base = (u64)blockIdx.x * (THREADS * EACH) + threadIdx.x;
    if (*(volatile u64 *)found < start + base - threadIdx.x) return;
    u64 hidden[WORDS];
    #pragma unroll
    for (int k = 0; k < WORDS; k++) hidden[k] = secret[k];
    u64 place = key + ((start + base) * WORDS + 1) * GOLDEN;
    int illegal = 0;
    for (int j = 0; j < EACH; j++, place += THREADS * WORDS * GOLDEN) {
        const u64 i = base + j * THREADS;
        if (i >= n) break;
        int weight = 0, apart = 0;
        #pragma unroll
        for (int k = 0; k < WORDS; k++) {
            u64 word = mix(place + k * GOLDEN);
            if (k == WORDS - 1) word &= top;
            weight += __popcll(word);
            apart += __popcll(word ^ hidden[k]);
        }
        if (weight < far) illegal++;
        else if (apart < far) atomicMin(found, start + i);
    }
    if (illegal) atomicAdd(found + 1, (u64)illegal);
}
"""

Scan = Callable[[int, int], tuple[int | None, int]]
"""(start, n) -> the first of n guesses that is legal and close, or None; and how many are illegal if none is close."""


class Guessed(NamedTuple):
    """What a search found."""

    cost: int
    """Legal guesses up to the close one, with it; all of them where there was none."""
    weight: int | None
    """The close guess, as a number."""


def search_on_gpu(p: int, secret: Any, seed: int = 0, limit: int | None = None) -> Guessed:
    """Guess uniformly among the weights that may come first until one is close to the secret, at most ``limit`` times.

    None as the secret draws one.  The expected cost is ``Blind().expected(p)``, about 2^p/|W_close|; without a limit
    the search goes on until it has found a close weight.
    """
    limit = None if limit is None else whole("limit", limit, 0)
    device = Device(p, secret, seed)
    cost, found = first_close(device, limit)
    if found is None:
        return Guessed(cost, None)
    weight = unpack(guesses(device.p, device.seed, found, 1)[:, 0])
    if is_close(weight.bit_count(), device.p) or not is_close(distance(weight, device.secret), device.p):
        raise TensorplanError(f"the GPU reported guess {found:,} of seed {device.seed}, which is not legal and close")
    return Guessed(cost, weight)


def guesses(p: int, seed: int, start: int, n: int) -> Words:
    """Guesses start .. start + n - 1, (W, n), legal or not: what the kernel makes, by NumPy."""
    W = word_count(p)
    counters = np.arange(n, dtype=np.uint64) * np.uint64(W) + np.arange(W, dtype=np.uint64)[:, None]
    words = _mix(stream(seed) + (counters + np.uint64(start * W + 1)) * GOLDEN)
    words[-1] &= pack([(1 << p) - 1], p)[-1]
    return words


def stream(seed: int) -> Words:
    """Where the stream of a seed starts, (1,)."""
    return _mix(np.array([seed], dtype=np.uint64))


def first_close(scan: Scan, limit: int | None) -> tuple[int, int | None]:
    """The cost of a search, and which guess was close: launches that double, and at last what was illegal before it."""
    start = asked = 0
    size = FIRST
    while limit is None or asked < limit:
        n = size if limit is None else min(size, limit - asked)
        found, illegal = scan(start, n)
        if found is not None:
            before = found - start
            illegal = scan(start, before)[1] if before else 0
            return asked + before - illegal + 1, found
        start, asked = start + n, asked + n - illegal
        size = min(2 * size, LARGEST)
    return asked, None


class Device:
    """A :data:`Scan` that runs on the GPU."""

    def __init__(self, p: int, secret: Any, seed: int = 0) -> None:
        self.p, self.seed = whole("p", p, 2), whole("seed", seed, 0, (1 << 64) - 1)
        self.secret = from_secret(secret, self.p, np.random.default_rng(self.seed))
        self.far = least_far(self.p)
        self._top = pack([(1 << self.p) - 1], self.p)[-1, 0]
        cupy = load()
        self._kernel = kernel(SOURCE, "scan", word_count(self.p))
        self._hidden = cupy.asarray(pack([self.secret], self.p)[:, 0])
        self._found = cupy.empty(2, dtype=np.uint64)

    def __call__(self, start: int, n: int) -> tuple[int | None, int]:
        """Look at guesses start .. start + n - 1."""
        self._found.set(np.array([NONE, 0], dtype=np.uint64))
        numbers = (np.uint64(x) for x in (stream(self.seed)[0], start, n))
        blocks = -(-n // (THREADS * EACH))
        arguments = (self._hidden, self._top, np.int32(self.far), *numbers, self._found)
        self._kernel((blocks,), (THREADS,), arguments)
        found, illegal = self._found.get().tolist()
        return None if found == NONE else found, illegal


@cache
def kernel(source: str, name: str, W: int) -> Any:
    """A kernel for guesses of W words, compiled when first launched."""
    options = (f"-DWORDS={W}", f"-DTHREADS={THREADS}", f"-DEACH={EACH}")
    return load().RawKernel(source, name, options=options)


def load() -> Any:
    """CuPy, where there is a GPU for it."""
    try:
        cupy = import_module("cupy")
    except ImportError:
        raise BadInput(
            "a search on a GPU needs CuPy: install the extra 'gpu', as in pip install 'tensorplan[gpu]'"
        ) from None
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise BadInput(f"a search on a GPU needs one, and CuPy finds none: {error}") from None
    return cupy


def _mix(z: Words) -> Words:
    """The finaliser of splitmix64."""
    z = (z ^ (z >> np.uint64(30))) * FACTOR_1
    z = (z ^ (z >> np.uint64(27))) * FACTOR_2
    return z ^ (z >> np.uint64(31))
