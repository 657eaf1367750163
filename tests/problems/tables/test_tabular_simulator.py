"""Tables as simulators: draws against their laws, and what a table declares of itself."""

from __future__ import annotations

import itertools
from collections import defaultdict
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse, stats
from stored_tables import FORMS, stored

from tensorplan.core import END, Problem
from tensorplan.problems.tables.tabular import TabularMDP, evaluate_tabular, solve_tabular

# --------------------------------------------------------------------------------------- as a simulator

DRAWS = 20_000
ALARM = 1e-6
# False alarm 1e-6 per test, and seeds are fixed; a table in which 0.05 moved between two of at most eight
# cells has noncentrality >= DRAWS * 0.05^2 * 4 = 200 and slips through with probability below 1e-9.


def test_the_chi_square_test_has_the_stated_power():
    assert stats.ncx2.cdf(stats.chi2.isf(ALARM, 7), 7, DRAWS * 0.05**2 * 4) < 1e-9


def assert_drawn_from(law: dict, outcomes: list) -> None:
    """Chi-square of outcomes against {outcome: probability}; what has no probability must not occur."""
    counts: dict = defaultdict(int)
    for outcome in outcomes:
        counts[outcome] += 1
    assert set(counts) <= {x for x, p in law.items() if p > 0}
    cells = [x for x, p in law.items() if p > 0]
    if len(cells) > 1:
        expected = np.array([law[x] for x in cells]) * len(outcomes)
        assert stats.chisquare([counts[x] for x in cells], expected).pvalue > ALARM


def sampled_mdp(form: str, noise: bool, layered: bool) -> tuple[TabularMDP, dict]:
    """An MDP, and {(state, action): {(reward, next): probability}} written down by hand."""
    first = np.array([[[0.2, 0.0, 0.5, 0.3], [0.0, 1.0, 0.0, 0.0]], [[0.6, 0.4, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4]]])
    rewards = np.array([[0.25, -1.0], [2.0, 0.5]])
    if layered:
        last = np.zeros((3, 2))
        arrays = [stored(first, form), None], [rewards, last]
        names: list = [2, 3, 4, END]
        options = {"horizon": 2}
    else:
        square = np.concatenate([first, [[[0, 0, 1, 0], [0.5, 0.25, 0.125, 0.125]]]])
        rewards = np.concatenate([rewards, [[0.0, 1.5]]])
        first = square
        arrays = stored(square, form), rewards
        names = [0, 1, 2, END]
        options = {"horizon": 5}
    mdp = TabularMDP(*arrays, noise=noise, reward_range=(-1.0, 2.0), **options)
    laws = {}
    for s, a in itertools.product(range(len(first)), range(2)):
        high = (rewards[s, a] + 1.0) / 3.0
        ends = {2.0: high, -1.0: 1 - high} if noise else {rewards[s, a]: 1.0}
        laws[s, a] = {(r, n): w * p for r, w in ends.items() for n, p in zip(names, first[s, a], strict=True)}
    return mdp, laws


@pytest.mark.parametrize("layered", [False, True])
@pytest.mark.parametrize("noise", [False, True])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_steps_follow_the_table(form, noise, layered):
    mdp, laws = sampled_mdp(form, noise, layered)
    rng = np.random.default_rng(1)
    for (state, action), law in laws.items():
        assert_drawn_from(law, [mdp.step(state, action, rng) for _ in range(DRAWS)])
        rewards, successors, which = mdp.step_batch(state, action, DRAWS, rng)
        assert rewards.shape == which.shape == (DRAWS,)
        # a state that cannot follow must not even be listed: under local access it would be given away
        assert sorted(map(str, successors)) == sorted({str(n) for (_, n), p in law.items() if p > 0})
        assert_drawn_from(law, [(r, successors[i]) for r, i in zip(rewards.tolist(), which.tolist(), strict=True)])


def test_noise_has_the_declared_mean():
    low, high, mean = -1.0, 3.0, 0.2
    mdp = TabularMDP(np.ones((1, 1, 1)), [[mean]], horizon=1, noise=True, reward_range=(low, high))
    rng = np.random.default_rng(2)
    singles = np.array([mdp.step(0, 0, rng)[0] for _ in range(DRAWS)])
    for rewards in (singles, mdp.step_batch(0, 0, DRAWS, rng)[0]):
        assert set(rewards) == {low, high}
        hits = int((rewards == high).sum())
        assert stats.binomtest(hits, DRAWS, (mean - low) / (high - low)).pvalue > ALARM
    assert solve_tabular(mdp).v[0][0] == mean


@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_noise_at_the_ends_is_certain(mean):
    mdp = TabularMDP(np.ones((1, 1, 1)), [[mean]], horizon=1, noise=True)
    assert set(mdp.step_batch(0, 0, 1000, np.random.default_rng(0))[0]) == {mean}


def test_start_states_follow_their_distribution():
    weights = np.array([0.0, 0.5, 0.2, 0.0, 0.3, 0.0])
    mdp = TabularMDP(np.full((6, 1, 6), 1 / 6), np.zeros((6, 1)), horizon=2, start=weights)
    rng = np.random.default_rng(3)
    assert_drawn_from(dict(enumerate(weights)), [mdp.start(rng) for _ in range(DRAWS)])
    assert mdp.start(SimpleNamespace(random=lambda: 0.0)) == 1  # the rarest draw, too, is a possible state
    listed = mdp.start_weights()
    assert [s for s, _ in listed] == [1, 2, 4]
    assert [w for _, w in listed] == pytest.approx([0.5, 0.2, 0.3], abs=1e-12)
    fixed = TabularMDP(np.full((6, 1, 6), 1 / 6), np.zeros((6, 1)), horizon=2, start=4)
    assert fixed.start(rng) == 4
    assert fixed.start_weights() == [(4, 1.0)]


def test_draws_depend_on_the_generator_alone():
    mdp, _ = sampled_mdp("csr", True, False)
    np.random.seed(1)
    first = [mdp.step(1, 1, np.random.default_rng(5)) for _ in range(5)]
    np.random.seed(2)
    again = [mdp.step(1, 1, np.random.default_rng(5)) for _ in range(5)]
    assert first == again


# ---------------------------------------------------------------------------------- what it declares


def one_hot(*columns: int, width: int) -> np.ndarray:
    return np.eye(width)[list(columns)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (one_hot(1, 0, 2, 2, width=3), True),  # END included
        (np.array([[0, 1, 0], [0.5, 0, 0.5], [0, 0, 1], [1, 0, 0]]), False),  # a coin between a state and END
        (np.array([[0, 1, 0], [1, 0, 0], [0, 0, 1], [0.25, 0.75, 0]]), False),  # only the last row is random
        (np.array([[1e-12, 1 - 1e-12, 0], [1, 0, 0], [0, 0, 1], [1, 0, 0]]), False),  # rare is not never
    ],
)
def test_deterministic_transitions_are_recognised(rows, expected, form):
    mdp = TabularMDP(stored(rows.reshape(2, 2, 3), form), np.zeros((2, 2)), horizon=3)
    assert mdp.deterministic_transitions is expected
    assert mdp.deterministic_rewards is True


def test_split_entries_of_one_successor_are_one():
    halves = sparse.csr_array((np.full(4, 0.5), [1, 1, 0, 0], [0, 2, 4]), shape=(2, 2))
    mdp = TabularMDP(halves, np.zeros((2, 1)), horizon=2)
    assert mdp.deterministic_transitions
    assert mdp.step(0, 0, np.random.default_rng(0)) == (0.0, 1)
    assert halves.nnz == 4  # the caller's matrix is left as it was


def test_what_follows_the_last_stage_is_never_random():
    coin = np.full((2, 1, 2), 0.5)
    layered = TabularMDP([one_hot(0, 1, width=2)[:, None], coin], [np.zeros((2, 1))] * 2, horizon=2)
    assert layered.deterministic_transitions
    assert layered.step(2, 0, np.random.default_rng(0)) == (0.0, END)
    assert not TabularMDP([coin, coin], [np.zeros((2, 1))] * 2, horizon=2).deterministic_transitions


def test_noise_is_declared():
    mdp = TabularMDP(np.ones((1, 1, 1)), [[0.5]], horizon=1, noise=True)
    assert (mdp.deterministic_transitions, mdp.deterministic_rewards) == (True, False)


def test_layered_states_are_numbered_through_the_stages():
    rng, sizes = np.random.default_rng(4), [2, 3, 1, 4]
    matrices = [rng.dirichlet(np.ones(m + 1), (n, 2)) for n, m in itertools.pairwise(sizes)]
    mdp = TabularMDP([*matrices, None], [rng.random((n, 2)) for n in sizes], horizon=4)
    assert [list(mdp.states(h)) for h in range(4)] == [[0, 1], [2, 3, 4], [5], [6, 7, 8, 9]]
    for h in range(4):
        after = {*mdp.states(h + 1), END} if h < 3 else {END}
        for place, state in enumerate(mdp.states(h)):
            assert (mdp.stage_of(state), mdp.index(state, h)) == (h, place)
            seen = {mdp.step(state, a, rng)[1] for a in range(2) for _ in range(300)}
            assert seen == after
            assert mdp.step(state, 1, rng)[0] == mdp.rewards(h)[place, 1]


def test_stationary_states_are_the_same_in_every_stage():
    mdp = TabularMDP(np.full((3, 2, 3), 1 / 3), np.zeros((3, 2)), horizon=4)
    assert [list(mdp.states(h)) for h in range(4)] == [[0, 1, 2]] * 4
    assert {mdp.step(2, 0, np.random.default_rng(i))[1] for i in range(100)} == {0, 1, 2}


def test_a_problem_is_solved_through_its_table():
    mdp = TabularMDP(np.ones((1, 1, 1)), [[0.5]], horizon=3)
    problem = Problem(mdp, lambda state, stage: np.ones(1), bound=2.0)
    assert solve_tabular(problem).value(0, 0) == 1.5
    assert evaluate_tabular(problem, [[0]] * 3).value(0, 1) == 1.0
