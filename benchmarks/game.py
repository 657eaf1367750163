"""Guesses per second in the abstract game against the popcount roofline, in the same run.

The roofline is a bare loop of XOR and popcount over the same packed words.  A search reads them too, but checks the
distance rule, which takes a second popcount per weight, and stops at a hit; a batch of queries also returns its
replies.  ``python -m benchmarks.game``
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np

from benchmarks.timing import race
from tensorplan.core.compiled import compiled, popcount
from tensorplan.game import AbstractGame, Blind, Local
from tensorplan.game.balls import least_far
from tensorplan.game.kernels import weights
from tensorplan.game.packed import Words, antipodal, draw, legal, pack

SIZES = (1 << 18, 1 << 20)
"""Queries in a batch: what the strategies ask at a time, and a million."""

WORK = 1 << 23
"""Guesses per measurement."""


@compiled
def roofline(words: Any, secret: Any) -> int:
    """The sum of all distances to the secret; words (rows, n), one word of the secret per row."""
    total = 0
    for k in range(len(words)):
        for i in range(words.shape[1]):
            total += popcount(words[k, i] ^ secret[k])
    return total


def misses(game: AbstractGame, length: int, size: int) -> Words:
    """A batch of legal queries of one or two weights, none of them close to w*."""
    words = legal(draw(game.p, size, np.random.default_rng(0)), least_far(game.p))
    apart = weights(words ^ pack([game.secret], game.p))
    words = np.ascontiguousarray(words[:, 4 * np.minimum(apart, game.p - apart) >= game.p])
    return words[None] if length == 1 else antipodal(words, game.p)


def duel(p: int, length: int, size: int) -> None:
    game = AbstractGame(p, 3)
    words = misses(game, length, size)
    rows = words.reshape(-1, words.shape[2])
    secret = np.tile(pack([game.secret], p)[:, 0], length)
    repeats = WORK // words[:, 0].size
    guesses = float(repeats * words[:, 0].size)

    def bare() -> float:
        for _ in range(repeats):
            roofline(rows, secret)
        return guesses

    def search() -> float:
        for _ in range(repeats):
            assert game.search(words) is None
        return guesses

    def batch() -> float:
        game.query_batch(words)
        return guesses / repeats

    title = f"p = {p}, queries of length {length}, {words.shape[2]:,} at a time ({rows.nbytes / 2**20:.1f} MiB)"
    against_roofline(title, {"roofline": bare, "search": search, "query_batch": batch})


def against_roofline(
    title: str, contestants: Mapping[str, Callable[[], float]], unit: float = 1e6, called: str = "million"
) -> None:
    """Guesses per second of each, and as a share of the roofline's."""
    seconds = warm_race(contestants, rounds=11)
    print(title)
    for name, each in seconds.items():
        rate = f"{1 / (unit * each):>9,.{0 if unit == 1e6 else 1}f} {called} guesses per second"
        print(f"  {name:<12}{rate}   {seconds['roofline'] / each:.2f}")


def warm_race(contestants: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """A race in which all have done their work once before."""
    for work in contestants.values():
        work()
    return race(contestants, rounds)


def whole_plays() -> None:
    """Strategies from end to end, guesses drawn and plays finished: queries per second."""
    players = {"uniform": Blind(), "pairs": Blind(pairs=True), "covering-pairs": Blind(code=True, pairs=True)}

    def plays(player: Blind | Local, p: int, K: int) -> Callable[[], float]:
        return lambda: sum(AbstractGame(p, K, seed=s).play(player, seed=s).queries for s in range(3))

    contestants = {f"{name} (p = 96)": plays(player, 96, 20) for name, player in players.items()}
    contestants["local (p = 64, K = 4)"] = plays(Local(), 64, 4)
    seconds = warm_race(contestants, rounds=3)
    print("whole plays")
    for name, each in seconds.items():
        print(f"  {name:<24}{1e-6 / each:>9,.2f} million queries per second")


def main() -> None:
    for p, length, size in product((64, 128), (1, 2), SIZES):
        duel(p, length, size)
    whole_plays()


if __name__ == "__main__":
    main()
