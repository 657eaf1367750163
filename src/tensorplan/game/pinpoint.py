"""The end of a play: from a close weight to w*, or 8 final guesses.

Finding w* makes a search a sound planner: its payoff is f(()), the best possible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tensorplan.core.specs import whole
from tensorplan.game.game import OUTPUT, Asking
from tensorplan.problems.hard.hypercube import distance, is_close


@dataclass(frozen=True, kw_only=True)
class Limited:
    """A player that gives up after ``limit`` queries without a close weight and outputs 8 guesses."""

    limit: int | None = None

    def __post_init__(self) -> None:
        if self.limit is not None:
            whole("limit", self.limit, 0)


def check(game: Asking, w: int) -> bool:
    """Whether w is close to w*, by one query: (w), or, if w is close to the vector of ones, (-w, w), for K >= 2."""
    return bool(game.query([w ^ ((1 << game.p) - 1), w] if is_close(w.bit_count(), game.p) else [w]).V)


def pinpoint(game: Asking, w: int) -> int:
    """w*, from a weight w close to it, by at most p - 1 + ⌈log2 p⌉ queries; w must be a legal first weight if K = 1.

    Components of w are set to -1 one by one.  The last weight of that path is far from w*, so bisection finds a weight
    v on it at a distance of exactly ⌈p/4⌉, next to a close one.  Flipping a component of v makes it close if and only
    if it was wrong.  No weight in a query has more components 1 than w.
    """
    free = [1 << j for j in range(game.p) if not w >> j & 1]
    path = [w]
    for bit in free:
        path.append(path[-1] | bit)
    close, far = 0, len(free)
    while far - close > 1:
        middle = (close + far) // 2
        close, far = (middle, far) if check(game, path[middle]) else (close, middle)
    v, known = path[far], free[close]
    return v ^ known ^ sum(1 << j for j in range(game.p) if 1 << j != known and check(game, v ^ 1 << j))


def output_found(game: Asking, w: int) -> list[int]:
    """The optimal output, given a close weight w."""
    secret = pinpoint(game, w)
    return [secret, secret ^ ((1 << game.p) - 1)] * (OUTPUT // 2)


def output_guesses(game: Asking, rng: np.random.Generator) -> list[int]:
    """The output of a player that gives up: four random weights and their negatives."""
    ones = (1 << game.p) - 1
    output = [0]
    while len(output) <= OUTPUT:
        w = int.from_bytes(rng.bytes(game.p // 8 + 1), "little") & ones
        first = w if 2 * distance(w, output[-1]) >= game.p else w ^ ones
        output += [first, first ^ ones]
    return output[1:]
