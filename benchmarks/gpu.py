"""Uniform guesses per second in the abstract game on a GPU, and on one core of the CPU in the same run.

The roofline is a bare loop of XOR and popcount.  The search makes its guesses, which the roofline does not, and takes
two popcounts per word, for the rule of the distance from the vector of ones and for the secret.  Last comes what a
whole search takes, launches and copies included.  ``python -m benchmarks.gpu``
"""

from __future__ import annotations

import time
from statistics import mean

import numpy as np

from benchmarks.game import against_roofline, duel, warm_race
from benchmarks.gpu_guessing import EACH, THREADS, Device, kernel, load, search_on_gpu
from tensorplan.game import AbstractGame, Blind
from tensorplan.game.packed import pack, word_count

SIZES = (64, 96, 128)

LAUNCH = 1 << 34
"""Guesses of a launch that is timed."""

WORK = 1 << 24
"""Guesses of a measurement on the CPU."""

WHOLE = {64: 200, 96: 20, 128: 20, 160: 5}
"""Whole searches, how many for each p."""

ON_CPU = 96
"""The largest p of whole searches on the CPU."""

ROOFLINE = r"""
typedef unsigned long long u64;

extern "C" __global__ void roofline(const u64 *secret, u64 *never) {
    u64 hidden[WORDS];
    for (int k = 0; k < WORDS; k++) hidden[k] = secret[k];
    u64 word = ((u64)blockIdx.x * THREADS + threadIdx.x) * 0x9E3779B97F4A7C15ULL;
    unsigned apart = 0;
    for (int j = 0; j < EACH; j++) {
        #pragma unroll
        for (int k = 0; k < WORDS; k++) apart += __popcll((word += 0xBF58476D1CE4E5B9ULL) ^ hidden[k]);
    }
    if (apart == ~0u) *never = apart;  // it never is, but the compiler cannot know that and leave the loop out
}
"""


def throughput(p: int) -> None:
    """Guesses per second of launches in which nothing is found."""
    cupy = load()
    device = Device(p, AbstractGame(p, 1).secret)
    device.far = 1  # nothing is close, and all guesses of a launch are looked at
    hidden = cupy.asarray(pack([device.secret], p)[:, 0])
    never, bare = cupy.zeros(1, dtype=np.uint64), kernel(ROOFLINE, "roofline", word_count(p))

    def roofline() -> float:
        bare((LAUNCH // (THREADS * EACH),), (THREADS,), (hidden, never))
        cupy.cuda.runtime.deviceSynchronize()
        return float(LAUNCH)

    def search() -> float:
        assert device(0, LAUNCH) == (None, 0)
        return float(LAUNCH)

    title = f"p = {p}, {LAUNCH:,} guesses at a time"
    against_roofline(title, {"roofline": roofline, "search": search}, 1e9, "billion")


def plays(p: int) -> None:
    """Guesses per second of ``Blind`` on one core, with the guesses drawn."""

    def play() -> float:
        guesses = seed = 0
        while guesses < WORK:
            guesses += AbstractGame(p, 1, seed=seed).play(Blind(limit=WORK), seed=seed).cost
            seed += 1
        return float(guesses)

    (each,) = warm_race({"play": play}, rounds=5).values()
    print(f"  {'whole plays':<12}{1e-6 / each:>9,.0f} million guesses per second, with the guesses drawn")


def whole_searches() -> None:
    print("whole searches, mean over secrets")
    for p, searches in WHOLE.items():
        search_on_gpu(p, None, limit=1)
        costs, began = [], time.perf_counter()
        for seed in range(searches):
            costs.append(search_on_gpu(p, AbstractGame(p, 1, seed=seed).secret, seed).cost)
        seconds = (time.perf_counter() - began) / searches
        line = (
            f"  p = {p:<4}{searches:>4} searches, {mean(costs):>16,.0f} guesses: {1e3 * seconds:>10.3f} ms on the GPU"
        )
        if p <= ON_CPU:
            began = time.perf_counter()
            for seed in range(searches):
                AbstractGame(p, 1, seed=seed).play(Blind(), seed=seed)
            line += f", {1e3 * (time.perf_counter() - began) / searches:>10.3f} ms on one core"
        print(line)


def main() -> None:
    cuda = load().cuda.runtime
    print(f"on {cuda.getDeviceProperties(cuda.getDevice())['name'].decode()}")
    for p in SIZES:
        throughput(p)
    print("on one core of the CPU")
    for p in SIZES:
        duel(p, 1, 1 << 18)
        plays(p)
    whole_searches()


if __name__ == "__main__":
    main()
