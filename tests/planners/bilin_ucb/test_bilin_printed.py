"""BiLin-UCB as printed, and its constants."""

import math

import numpy as np
import pytest
from bilin_runs import everywhere, holds, plan, small, value

import tensorplan as tp
from tensorplan.planners.bilin_ucb.constants import bilin_constants, critical_gain
from tensorplan.planners.bilin_ucb.planner import BiLinUCB


def test_the_printed_algorithm_with_other_constants():
    for seed in range(6):
        task = small(seed, few=True, branching=3, noise=True)
        access, policy = plan(task, BiLinUCB(mode="paper", T=8, m=1000, R=0.3), seed)
        hypotheses = policy.hypotheses
        assert access.spent == 8 * 1000 * task.horizon
        assert hypotheses.policies == 8
        assert policy.certificate is None
        assert hypotheses.discrepancies(task.theta).max() <= 0.3  # R is far larger than the errors
        assert holds(hypotheses, task.theta)
        assert task.optimal_value(0) - value(task, access, policy) <= 0.3
        # the best of them by their returns
        assert policy.mean == pytest.approx(value(task, access, policy), abs=5 * task.horizon / math.sqrt(1000))


def test_the_printed_algorithm_where_nothing_is_random():
    for seed in range(6):
        task = small(seed, few=True)
        access, policy = plan(task, BiLinUCB(mode="paper", R=0.1))
        assert value(task, access, policy) >= task.optimal_value(0) - 0.101 * task.horizon
        assert access.spent <= task.horizon * policy.hypotheses.policies


def test_too_small_a_radius_is_refuted():
    task = small(2, branching=3, noise=True)
    _, policy = plan(task, BiLinUCB(mode="paper", T=2, m=10, R=100.0))
    assert policy.certificate is None
    with pytest.raises(tp.NotRealizable, match=r"if T, m, R are right\): no parameter .*agrees with the rollouts"):
        plan(task, BiLinUCB(mode="paper", T=5, m=10, R=0.0))


def test_the_published_constants_by_hand():
    """d = 2, H = 3, B = 1.5, ε = 0.5, δ = 0.1, every quantity written out once more."""
    c = bilin_constants(2, 3, 1.5, 0.5, 0.1)

    def gain(stages, scale):
        k = 1
        while k < stages * 2 * math.log(1 + k * scale / 2):
            k += 1
        return k

    def at(m):
        gamma = gain(1, 4 * 8 * 1.5**2 * m)
        d_phi = gamma * math.log(1 + 3 * 2 * 1.5 * math.sqrt(m * gamma))
        epsilon_gen = 12 * 3 * math.sqrt(d_phi / m)
        d_x = gain(3, 4 * 1.5**2 / epsilon_gen**2)
        radius = 12 * 3 / math.sqrt(m) * math.sqrt(d_x * d_phi) * math.sqrt(math.log(d_x * 3 / 0.1))
        loss = 3 * 3 * epsilon_gen * (1 + math.sqrt(d_x) * math.sqrt(math.log(d_x * 3 / 0.1)))
        return d_x, radius, loss

    d_x, radius, loss = at(c.m)
    assert (d_x, loss <= 0.5) == (c.T, True)
    assert pytest.approx(radius, rel=1e-9) == c.R
    assert at(c.m - 1)[2] > 0.5
    assert c.trajectories == c.m * c.T
    assert c.queries == 3 * c.m * c.T
    # some t has a loss of at most 2H sqrt((λ B_W² + T ε_gen²)(e - 1)): the bound that was used is not below
    epsilon_gen = radius / math.sqrt(d_x * math.log(d_x * 3 / 0.1))
    assert 2 * 3 * math.sqrt((epsilon_gen**2 + radius**2) * (math.e - 1)) <= loss
    assert (c.T, f"{c.m:.2e}", f"{c.R:.3f}") == (114, "5.18e+11", "0.054")
    # with pencil and paper: d = H = B = m = 1, δ = 0.1.  6 >= ln(1 + 32·6) = 5.26 and 5 < ln(1 + 32·5) = 5.08;
    # d_Φ = 6 ln(1 + 6 sqrt 6) = 16.52; ε_gen = 12 sqrt 16.52 = 48.78; 1 >= ln(1 + 4/48.78²): T = 1; R = 48.78 · 1.5174
    c = bilin_constants(1, 1, 1.0, 0.5, 0.1, m=1)
    assert (c.T, round(c.R, 2)) == (1, 74.01)


def test_the_critical_information_gain():
    for d, scale in [(1, 3.0), (3, 4e6), (10, 1e9)]:
        k = critical_gain(d, 1, scale)
        assert k >= d * math.log(1 + k * scale / d)
        assert k == 1 or k - 1 < d * math.log(1 + (k - 1) * scale / d)
        assert k <= math.ceil(3 * d * math.log(1 + 3 * scale))  # Lemma F.3
    assert critical_gain(1, 1, 1e-3) == 1


def test_given_constants_replace_the_printed_ones():
    c = bilin_constants(2, 3, 1.5, 0.5, 0.1, T=7, m=100)
    assert (c.T, c.m, c.overridden) == (7, 100, ("T", "m"))
    assert bilin_constants(2, 3, 1.5, 0.5, 0.1, R=0.25).R == 0.25
    for options, sentence in [
        ({"epsilon": 3}, "epsilon must lie strictly between 0 and H = 3, got 3"),
        ({"failure": 0.5}, "failure must lie strictly between 0 and 1/3, got 0.5"),
        ({"B": 0}, "B must be positive, got 0"),
        ({"d": 0}, "d must be a whole number >= 1, got 0"),
        ({"T": 0}, "T must be a whole number >= 1, got 0"),
    ]:
        with pytest.raises(tp.BadInput) as error:
            bilin_constants(**{"d": 2, "H": 3, "B": 1.5, "epsilon": 0.5, "failure": 0.1, **options})
        assert str(error.value) == sentence


def test_the_printed_constants_are_refused_with_their_number():
    task = small(1, branching=3, noise=True)
    c = bilin_constants(task.dimension, task.horizon, task.bound, 0.1, 0.2 / (2 * task.horizon))
    access = everywhere(task)
    with pytest.raises(tp.Refused) as error:
        BiLinUCB(mode="paper", delta=0.2).begin(access, np.random.default_rng(0))
    assert str(error.value).startswith(f"BiLin-UCB as printed needs {c.trajectories:.2e} trajectories, up to ")
    assert "more than 1,000,000,000 when no budget is given; override T, m and R" in str(error.value)
    assert access.spent == 0
    with pytest.raises(tp.Refused, match=r"needs 80 trajectories, up to \d+ queries, more than the budget of 50;"):
        plan(task, BiLinUCB(mode="paper", T=8, m=10, R=1.0, budget=50))
