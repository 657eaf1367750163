"""The forced cost, and the counts it rests on."""

import math
from fractions import Fraction

import pytest

from tensorplan.core.errors import BadInput
from tensorplan.game import lower_bound
from tensorplan.game.balls import close_count, least_far, overlaps
from tensorplan.problems.hard.hypercube import is_secret

LONG = 1000


@pytest.mark.parametrize("p", range(2, 13))
def test_counts_by_enumeration(p):
    close = {w for w in range(1 << p) if 4 * w.bit_count() < p}
    assert close_count(p) == len(close)
    assert {w.bit_count() for w in close} == set(range(least_far(p)))
    assert overlaps(p) == [sum(w ^ ((1 << m) - 1) in close for w in close) for m in range(p + 1)]
    bound = lower_bound(p, 3)
    assert bound.close == len(close)
    assert bound.secrets == sum(is_secret(w, p) for w in range(1 << p))


def test_close_count_is_below_hoeffding():
    for p in range(2, 400):
        assert close_count(p) == sum(math.comb(p, j) for j in range(p) if 4 * j < p)
        assert math.log(close_count(p)) <= p * math.log(2) - p / 8


def test_where_the_theorem_begins_to_say_something():
    """n >= 1 from p = 37 and K = 8 on, a whole query from p = 48 and K = 20 on."""
    assert [p for p in range(2, 60) if lower_bound(p, LONG).n >= 1] == list(range(37, 60))
    assert [K for K in range(1, 30) if lower_bound(LONG, K).n >= 1] == list(range(8, 30))
    assert [p for p in range(2, 60) if not lower_bound(p, LONG).vacuous] == list(range(48, 60))
    assert [K for K in range(1, 30) if not lower_bound(LONG, K).vacuous] == list(range(20, 30))
    assert lower_bound(36, LONG).forced == 0
    assert lower_bound(48, 20).forced == 1


def test_n_is_the_formula():
    for p, K in ((40, 12), (64, 40), (64, 10), (100, 30), (48, 20)):
        epsilon = (25 / 32) ** (K + 1)
        bound = lower_bound(p, K)
        assert bound.n == math.floor(min(math.exp(p / 8) / 16 - 5, (1 / epsilon - 1) / 7.5))
        assert bound.epsilon == pytest.approx(epsilon)
        assert bound.forced == Fraction(bound.n, 20)


@pytest.mark.parametrize(("p", "n"), [(16, 1), (20, 6), (24, 14), (32, 55), (48, 558), (64, 5126)])
def test_exact_count(p, n):
    bound = lower_bound(p, LONG)
    assert bound.exact_n == n
    q = Fraction(bound.close, bound.secrets)
    assert (2 * n + 8) * q <= Fraction(1, 8) < (2 * n + 10) * q
    assert bound.exact_forced == Fraction(n, 20)
    assert lower_bound(p, 1).exact_n <= 0


@pytest.mark.parametrize(("p", "K"), [(8, 5), (16, 20), (16, 3), (32, 40), (64, 60), (2, 2)])
def test_sharp_count_is_below_the_sum_that_it_bounds(p, K):
    """Σ_t max(0, (1-ε)^t (1 - (2t+8) q) - η) in plain arithmetic; with few surprises (ε small) the two agree."""
    bound = lower_bound(p, K)
    q, epsilon = bound.close / bound.secrets, (25 / 32) ** (K + 1)
    eta = 0.01 / (11 / 32 - (25 / 32) ** 9)
    total = 0.0
    for t in range(10**6):
        term = (1 - epsilon) ** t * (1 - (2 * t + 8) * q) - eta
        if term <= 0:
            break
        total += term
    assert bound.sharp <= total * (1 + 1e-9)
    assert bound.sharp >= 0.5 * total * (1 - 1e-9)
    if epsilon < 0.01 * q:
        assert bound.sharp == pytest.approx(total, rel=0.02)


def test_sharp_count_beats_the_theorem_and_stays_below_what_pairs_of_guesses_pay():
    for p in range(12, 300, 4):
        bound = lower_bound(p, p + 100)
        assert bound.forced < bound.exact_forced + 1 < bound.sharp < bound.guesses / 4
        if p >= 100:
            assert bound.sharp / bound.guesses == pytest.approx(0.229, abs=0.001)


def test_thousands():
    bound = lower_bound(8000, 9000)
    assert bound.n == math.floor(Fraction(bound.n))
    assert bound.log2_forced == pytest.approx(8000 / 8 / math.log(2) - 4 - math.log2(20))
    assert bound.epsilon == 0.0
    assert bound.log2_epsilon == pytest.approx(9001 * math.log2(25 / 32))
    entropy = 0.25 * math.log2(4) + 0.75 * math.log2(4 / 3)
    assert bound.log2_guesses == pytest.approx(8000 * (1 - entropy), rel=0.01)
    assert bound.log2_sharp == pytest.approx(bound.log2_guesses + math.log2(0.229), abs=0.01)
    assert lower_bound(2, 1).log2_forced == -math.inf


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, 1), "p must be a whole number >= 2, got 1"),
        ((2, 0), "K must be a whole number >= 1, got 0"),
        (("8", 1), "p must be a whole number >= 2, got '8'"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(BadInput) as error:
        lower_bound(*arguments)
    assert str(error.value) == message
