"""Bets and boxes: inequalities that hold at all sample sizes at once, as often as stated."""

import math

import numpy as np
import pytest
from certified_runs import too_many

from tensorplan.planners.certified.bets import LARGEST, PRIOR, WIDE, Bet, Tally, Term, planned_bet
from tensorplan.planners.certified.box import Box

LOOKS = [4, 4, 8, 16, 32, 64, 128, 256]
"""Samples of each pair between two looks."""


class Pair:
    """A state and action where R is 0 and φ(S') is 1 or 0: with θ* = 1, l is a coin around its mean, and W is 1."""

    def __init__(self, p, weight, rng):
        self.p, self.rng, self.tally = p, rng, Tally(1)
        self.n, self.heads = 4, int(rng.binomial(4, p))  # earlier samples, for the predictions
        self.term = Term(self.tally, 0, np.array([p]), 1.0, weight)

    def draw(self, n):
        """A batch; the prediction is the mean of all samples before it."""
        heads, mean = int(self.rng.binomial(n, self.p)), self.heads / self.n
        scatter = np.zeros((2, 2))
        scatter[1, 1] = heads * (1 - mean) ** 2 + (n - heads) * mean**2
        self.tally.add(n, np.array([0.0, heads]), scatter)
        self.n, self.heads = self.n + n, self.heads + heads


@pytest.mark.parametrize(
    ("chances", "weights"), [((0.5,), (1.0,)), ((0.02,), (-1.0,)), ((0.3, 0.05, 0.9), (1.0, -0.5, 2.0))]
)
def test_a_bet_holds_at_all_looks_together_as_often_as_stated(chances, weights):
    """Claim: Σ u l_i exceeds the radius at any of the looks with probability <= 0.1.

    A third of the radius would be exceeded in more than 30% of the 1,000 runs, which would be noticed.
    """
    share, runs, box = 0.1, 1_000, Box(np.array([1.0]), np.eye(1), np.zeros(1), 1.0)
    exceeded = exceeded_third = 0
    for run in range(runs):
        rng = np.random.default_rng([run, len(chances)])
        pairs = [Pair(p, w, rng) for p, w in zip(chances, weights, strict=True)]
        variance = sum(100 * w**2 * p * (1 - p) for p, w in zip(chances, weights, strict=True))
        bet, worst = Bet([pair.term for pair in pairs], share, planned_bet(share, variance)), -math.inf
        for n in LOOKS:
            for pair in pairs:
                pair.draw(n)
            worst = max(worst, float(bet.total @ [1.0, 1.0]) / bet.radius(box))
        exceeded += worst > 1
        exceeded_third += worst > 1 / 3
    assert exceeded < too_many(runs, share)
    assert exceeded_third >= too_many(runs, share)


def test_the_radius_is_the_stated_formula():
    rng = np.random.default_rng(0)
    pair = Pair(0.3, -2.0, rng)
    pair.draw(100)
    bet, box = Bet([pair.term], 0.01, 0.05), Box(np.array([1.0]), np.eye(1), np.zeros(1), 1.0)
    best = math.inf
    for k, p in PRIOR.items():
        stake = 0.05 * 2.0**-k
        price = -math.log(1 - 2 * stake) - 2 * stake
        best = min(best, (math.log(1 / (p * 0.01)) + price * float(pair.tally.scatter[1, 1])) / stake)
    assert bet.radius(box) == pytest.approx(best, rel=1e-5)
    assert bet.total == pytest.approx([0.0, -2.0 * (pair.tally.sums[1] - 100 * 0.3)])
    assert bet.size == 200
    assert sum(PRIOR.values()) < 1


def test_no_bet_stakes_more_than_there_is():
    pair = Pair(0.5, 4.0, np.random.default_rng(0))
    bet = Bet([pair.term], 0.01, 1e9)
    assert bet.planned * 4.0 <= 0.5
    assert bet.largest * 4.0 == pytest.approx(LARGEST)
    pair.draw(10)
    assert math.isfinite(bet.radius(Box.ball(1.0, 1)))


def test_a_smaller_box_makes_a_smaller_radius_without_more_samples():
    pair = Pair(0.5, 1.0, np.random.default_rng(0))
    pair.draw(400)
    bet = Bet([pair.term], 0.01, planned_bet(0.01, 100))
    radii = [bet.radius(Box.within(np.eye(1), np.array([1 - r]), np.array([1.0]), 1.0)) for r in (2.0, 0.5, 0.0)]
    assert radii[0] >= radii[1] >= radii[2]
    # θ may be 0 in none of them, and the squares are those of the largest θ: 1
    assert radii[2] == pytest.approx(bet.radius(Box(np.array([1.0]), np.eye(1), np.zeros(1), 1.0)), rel=1e-4)


def test_where_nothing_is_random_there_is_nothing_to_bet_on():
    tally = Tally(1)
    tally.add(1, np.array([0.5, 0.2]), np.zeros((2, 2)))
    bet = Bet([Term(tally, 0, np.array([0.7]), 0.0)], 0.01, 1.0)
    assert bet.radius(Box.ball(1.0, 1)) == 0.0
    assert bet.total == pytest.approx([0.5, -0.5])


def test_in_high_dimension_squares_are_bounded_by_their_range():
    tally = Tally(WIDE)
    assert tally.scatter is None
    tally.add(50, np.zeros(WIDE + 1), None)
    bet = Bet([Term(tally, 0, np.zeros(WIDE), 2.0)], 0.01, 0.1)
    narrow = Tally(1)
    narrow.add(50, np.zeros(2), np.diag([200.0, 0.0]))  # every square is W²
    same = Bet([Term(narrow, 0, np.zeros(1), 2.0)], 0.01, 0.1)
    assert bet.radius(Box.ball(1.0, WIDE)) == pytest.approx(same.radius(Box.ball(1.0, 1)), rel=1e-5)
    assert tally.copy().n == 50


# ------------------------------------------------------------------------------------------ boxes


@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_form_is_nowhere_in_the_box_larger_than_stated(d):
    tight = []
    for seed in range(60):
        rng = np.random.default_rng([seed, d])
        radius, k = float(rng.uniform(0.5, 3)), int(rng.integers(0, d + 1))
        directions = np.linalg.qr(rng.standard_normal((d, d)))[0][:, :k]
        low = rng.uniform(-radius, radius / 2, k)
        high = low + rng.uniform(0, radius / 2, k)
        box = Box.within(directions, low, high, radius)
        factor = rng.standard_normal((d + 1, d + 1)) * rng.random(d + 1) ** 3
        form = factor @ factor.T
        bound, largest = box.largest(form), 0.0
        for _ in range(300):
            inner = directions @ rng.uniform(low, high, k) if k else np.zeros(d)
            outer = rng.standard_normal(d)
            outer -= directions @ (directions.T @ outer)
            room = radius**2 - float(inner @ inner)
            if room < 0:
                continue
            if k < d:
                inner = inner + outer / np.linalg.norm(outer) * math.sqrt(room) * rng.random() ** (1 / d)
            one = np.concatenate([[1.0], inner])
            largest = max(largest, float(one @ form @ one))
        assert largest <= bound
        tight.append(largest / bound)
    assert np.median(tight) > 0.3


def test_the_ball_is_the_box_without_directions():
    form = np.diag([1.0, 4.0, 0.0])
    assert Box.ball(3.0, 2).largest(form) == pytest.approx((1 + 3 * 2) ** 2, rel=1e-5)
    assert Box.ball(3.0, 2).largest(np.diag([2.0, 0.0, 0.0])) == pytest.approx(2.0, rel=1e-5)
