"""Exploration against closed forms, tables, and a recursion over action sequences."""

from __future__ import annotations

import gc
import itertools
import time
import weakref
from dataclasses import replace

import numpy as np
import pytest

from tensorplan.core import END, Problem
from tensorplan.core.errors import ProblemError, Refused
from tensorplan.problems.puzzles import chinese_rings, grid, hanoi
from tensorplan.problems.random.layered import layered
from tensorplan.problems.tables import reachable as module
from tensorplan.problems.tables.reachable import WHOLE, explore, places
from tensorplan.problems.tables.solution import exact_solution
from tensorplan.problems.tables.tabular import TabularMDP, solve_tabular


def featureless(mdp, **options) -> Problem:
    return Problem(mdp, lambda state, stage: np.ones(1), bound=1.0, **options)


@pytest.mark.parametrize(
    ("problem", "size"),
    [
        (hanoi(1), 3),
        (hanoi(4), 3**4),
        (chinese_rings(1), 2),
        (chinese_rings(6), 2**6),
        (grid([7]), 7),
        (grid([3, 4]), 12),
    ],
    ids=lambda p: getattr(p, "name", ""),
)
def test_puzzles_against_their_closed_forms(problem, size):
    explored = explore(problem)
    states = {state for _, state in explored.places}
    assert len(states) == len(explored.places) == size - 1  # all but the goal, which is END
    for state in states:
        assert explored.value(state, 0) == problem.optimal_value(state)
        for a in range(problem.actions):
            assert explored.action_value(state, a, 0) == problem.optimal_action_value(state, a)


def deterministic_table(seed: int, horizon: int) -> tuple[TabularMDP, np.ndarray, np.ndarray]:
    """A stationary table of 6 states, two actions, with its successors (6 is END) and rewards."""
    rng = np.random.default_rng(seed)
    target, rewards = rng.integers(7, size=(6, 2)), rng.uniform(-1, 1, size=(6, 2))
    return TabularMDP(np.eye(7)[target], rewards, horizon=horizon, reward_range=(-1, 1)), target, rewards


@pytest.mark.parametrize("seed", range(8))
def test_a_horizon_against_all_action_sequences(seed):
    horizon = 5
    mdp, target, rewards = deterministic_table(seed, horizon)
    explored, solution = explore(featureless(mdp)), solve_tabular(mdp)

    def play(state: int, actions: tuple[int, ...]) -> float:
        total = 0.0
        for a in actions:
            if state == 6:
                break
            total += rewards[state, a]
            state = target[state, a]
        return total

    # the states of a stage: those that some sequence leads to
    reached = {0: {0}}
    for h in range(1, horizon):
        reached[h] = {int(t) for s in reached[h - 1] for t in target[s] if t != 6}
    assert set(explored.places) == {(h, s) for h, states in reached.items() for s in states}
    for h, s in explored.places:
        returns = {seq: play(s, seq) for seq in itertools.product(range(2), repeat=horizon - h)}
        assert explored.value(s, h) == pytest.approx(max(returns.values()), abs=1e-12)
        assert explored.value(s, h) == pytest.approx(solution.value(s, h), abs=1e-12)
        for a in range(2):
            best = max(value for seq, value in returns.items() if seq[0] == a)
            assert explored.action_value(s, a, h) == pytest.approx(best, abs=1e-12)
            assert explored.action_value(s, a, h) == pytest.approx(solution.action_value(s, a, h), abs=1e-12)


@pytest.mark.parametrize("procedural", [False, True])
def test_layered_problems_against_their_solution(procedural):
    problem = layered(3, 4, states=50, horizon=6, procedural=procedural, seed=1)
    explored = explore(problem)
    assert len(explored.places) > 50
    for h, s in explored.places:
        assert s // 50 == h
        assert explored.value(s, h) == pytest.approx(problem.optimal_value(s, h), abs=1e-12)


def test_what_cannot_be_reached_is_refused():
    mdp = TabularMDP(np.eye(3)[[1, 1, 0]][:, None], np.zeros((3, 1)), horizon=3)
    explored = explore(featureless(mdp))
    assert explored.value(0, 0) == 0.0
    for state, stage in [(2, 0), (0, 1), (1, 0), (1, 3), ("x", 0)]:
        with pytest.raises(Refused, match=rf"^state {state!r} at stage {stage} cannot be reached from the start"):
            explored.value(state, stage)


class Lists:
    """Counts to ``last``, then END; the state is a list, at first or from the second state on."""

    horizon = None
    actions = 1
    deterministic_transitions = True
    deterministic_rewards = True

    def __init__(self, first):
        self.first = first

    def start(self, rng):
        return self.first

    def step(self, state, action, rng):
        return 0.5, ([1] if state in ([0], (0,)) else END)


@pytest.mark.parametrize(("first", "named"), [([0], r"\[0\]"), ((0,), r"\[1\]")])
def test_unhashable_states_are_refused(first, named):
    with pytest.raises(Refused, match=rf"^state {named} cannot be hashed, so the states cannot be enumerated$"):
        explore(featureless(Lists(first)))


def test_random_problems_are_refused():
    for options in ({"noise": True}, {"branching": 2}):
        with pytest.raises(Refused, match="is not deterministic"):
            explore(layered(2, 3, states=5, horizon=2, **options))


def test_too_many_states_are_refused(monkeypatch):
    monkeypatch.setattr(module, "LIMIT", 26)
    assert explore(hanoi(3)).value((0, 0, 0), 0) == -7  # 26 states, the goal left out
    monkeypatch.setattr(module, "LIMIT", 25)
    with pytest.raises(Refused, match=r"^problem 'hanoi/3' has more than 25 states that can be reached$"):
        explore(hanoi(3))


def test_stages_count_apart(monkeypatch):
    mdp, _, _ = deterministic_table(0, horizon=5)
    size = len(explore(featureless(mdp)).places)
    assert size > 6
    monkeypatch.setattr(module, "LIMIT", size - 1)
    with pytest.raises(Refused):
        explore(featureless(mdp))


# --------------------------------------------------------------------------------- what it takes of a simulator


class Counter:
    """Counts up to ``last``, by ones or twos, and counts its own steps."""

    horizon, actions = None, 2
    reward_range = (-1.0, 0.0)
    deterministic_transitions = deterministic_rewards = True

    def __init__(self, last, pause=0.0):
        self.last, self.pause, self.steps = last, pause, 0

    def start(self, rng):
        return 0

    def step(self, state, action, rng):
        if self.pause:
            time.sleep(self.pause)
        self.steps += 1
        following = state + action + 1
        return -1.0, END if following >= self.last else following


def test_a_search_is_brief_unless_somebody_asked_for_v_star():
    mdp = Counter(12_000)
    problem = featureless(mdp, name="long")
    for _ in range(3):  # refused once and for all
        with pytest.raises(Refused) as refusal:
            exact_solution(problem)
        assert str(refusal.value) == (
            "v* of problem 'long' is not known: its states could not be listed within 20,000 steps and 2 s"
        )
        assert mdp.steps == problem.unmetered == 20_000
    assert exact_solution(problem, WHOLE).value(0, 0) == -6000
    assert mdp.steps == problem.unmetered == 20_000 + 24_000
    assert exact_solution(problem).value(0, 0) == -6000  # known by now
    assert len(places(problem, 12_000)) == 12_000
    with pytest.raises(Refused, match="more than 11,999 states"):
        places(problem, 11_999)
    assert mdp.steps == problem.unmetered == 20_000 + 24_000


def test_places_that_were_listed_are_not_listed_again():
    mdp = Counter(100)
    problem = featureless(mdp)
    assert list(places(problem, 1000)) == [(0, state) for state in range(100)]
    assert explore(problem).value(0, 0) == -50
    assert explore(problem) is explore(problem)
    assert mdp.steps == 200
    other = replace(problem, name="other")  # another problem, which the steps so far were made for as well
    assert (mdp.steps, other.unmetered) == (200, 200)
    assert explore(other) is not explore(problem)
    assert (mdp.steps, other.unmetered, problem.unmetered) == (400, 400, 200)


def test_memory_of_a_search_ends_with_its_problem():
    problem = featureless(Counter(10))
    values = weakref.ref(explore(problem))
    assert values() is not None
    del problem
    gc.collect()
    assert values() is None


def test_slow_simulators_are_left_alone():
    mdp = Counter(10_000, pause=0.02)
    with pytest.raises(Refused, match=r"its states are not listed, since a step takes 0\.\d+ s$"):
        exact_solution(featureless(mdp))
    assert mdp.steps == module.PACED


def test_a_search_has_a_time_limit():
    mdp = Counter(10_000, pause=0.005)
    with pytest.raises(Refused, match=r"could not be listed within 500 steps and 0\.1 s$"):
        explore(featureless(mdp), module.Effort(500, 0.1))
    assert 1 <= mdp.steps <= 21


def test_a_long_search_tells_how_far_it_is(monkeypatch, caplog):
    monkeypatch.setattr(module, "PULSE", 0.0)
    told = []
    explore(featureless(Counter(5), name="short"), progress=told.append)
    assert "listing the states of problem 'short': 5 in 9 steps so far" in told
    assert told[-1] == "optimal values of problem 'short': 3 sweeps so far"
    assert not caplog.records
    monkeypatch.setattr(module, "SILENCE", 0.0)
    explore(featureless(Counter(5)))
    assert caplog.records


def test_a_search_that_is_interrupted_was_counted():
    class Stopped(Counter):
        def step(self, state, action, rng):
            if self.steps == 7:
                raise KeyboardInterrupt
            return super().step(state, action, rng)

    problem = featureless(Stopped(100))
    with pytest.raises(KeyboardInterrupt):
        explore(problem)
    assert problem.unmetered == 8


def test_a_reward_out_of_range_is_the_fault_of_the_problem():
    class Rich(Lists):
        def step(self, state, action, rng):
            return 2.0, END

    with pytest.raises(ProblemError, match=r"gave the reward 2.0"):
        explore(featureless(Rich((0,))))
