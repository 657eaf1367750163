"""The registry of strategies, and the measurement of their cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tensorplan.core.intervals import Interval
from tensorplan.core.specs import lookup, whole
from tensorplan.game.blind import Blind
from tensorplan.game.bound import Bound, lower_bound
from tensorplan.game.game import AbstractGame, Asking
from tensorplan.game.local import Local
from tensorplan.game.pinpoint import Limited

WORTH = 0.6
"""Local search is chosen if its expected cost is below this share of uniform guessing; a code saves up to the rest."""


@dataclass(frozen=True, kw_only=True)
class Best(Limited):
    """A player that guesses pairs from a code, or uses local search if K is so small that it costs less."""

    def __call__(self, game: Asking, rng: np.random.Generator) -> list[int]:
        """The output of the chosen strategy."""
        return self.choice(game.p, game.K)(game, rng)

    def choice(self, p: int, K: int) -> Blind | Local:
        """The strategy for these parameters; without pairs if K = 1."""
        blind, local = Blind(code=True, pairs=K > 1, limit=self.limit), Local(limit=self.limit)
        uniform = Blind(pairs=K > 1).expected(p)
        return local if uniform is not None and local.expected(p, K) < WORTH * uniform else blind


STRATEGIES: Mapping[str, Blind | Local | Best] = {
    "uniform": Blind(),
    "covering": Blind(code=True),
    "pairs": Blind(pairs=True),
    "covering-pairs": Blind(code=True, pairs=True),
    "local": Local(),
    "best": Best(),
}


@dataclass(frozen=True)
class Cost:
    """The measured cost of a strategy: queries up to the first reply with U or V = 1."""

    strategy: str
    p: int
    K: int
    costs: tuple[int, ...]
    found: int
    """The number of plays that found a close weight; the others gave up."""
    mean: Interval
    """Queries per success with a 95% interval (:func:`interval`)."""
    expected: float | None
    """The theoretical expected cost, if known."""
    bound: Bound

    @property
    def ratio(self) -> float:
        """The cost relative to 2^p/|W_close|, that of uniform guessing."""
        return self.mean.mean / float(self.bound.guesses)


def cost(strategy: str, p: int, K: int, seeds: int | Iterable[int] = 20, *, limit: int | None = None) -> Cost:
    """The cost of a strategy in one game per seed, each with its own secret."""
    player = replace(lookup("strategy", strategy, STRATEGIES), limit=limit)
    numbers = range(whole("seeds", seeds, 1)) if isinstance(seeds, int | np.integer | float) else list(seeds)
    plays = [AbstractGame(p, K, seed=seed).play(player, seed=seed) for seed in numbers]
    return cost_of(strategy, p, K, tuple(play.cost for play in plays), sum(play.found for play in plays))


def cost_of(strategy: str, p: int, K: int, costs: tuple[int, ...], found: int) -> Cost:
    """What the costs of plays, of which so many found a close weight, say of a strategy."""
    player = lookup("strategy", strategy, STRATEGIES)
    chosen = player.choice(p, K) if isinstance(player, Best) else player
    theory = chosen.expected(p, K) if isinstance(chosen, Local) else chosen.expected(p)
    expected = None if theory is None else float(theory)
    return Cost(strategy, p, K, costs, found, interval(sum(costs), found), expected, lower_bound(p, K))


def interval(queries: int, found: int, confidence: float = 0.95) -> Interval:
    """Queries per success, with an interval that holds if successes have a constant rate per query.

    This is the case for independent guesses; for strategies that do not repeat guesses, whose cost varies less, the
    interval is conservative.  It is exact for a Poisson number of successes; plays that gave up contribute queries.
    """
    from scipy.special import gammaincinv

    tail = (1 - confidence) / 2
    low = queries / float(gammaincinv(found + 1, 1 - tail))
    if not found:
        return Interval(np.inf, low, np.inf)
    return Interval(queries / found, low, queries / float(gammaincinv(found, tail)))
