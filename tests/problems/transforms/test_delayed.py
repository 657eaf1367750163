"""The delayed problem against backward induction over all of its states, done here."""

import math
from functools import cache

import numpy as np
import pytest
from helpers import Walk

import tensorplan as tp
from tensorplan.core import Vectorised
from tensorplan.problems.transforms.delayed import DelayedMDP, DelayedState, delayed, simulate
from tensorplan.testing import check_problem

RNG = np.random.default_rng(0)


def table(seed, noise=False, **options):
    """A random table with deterministic transitions, some of them to END early; layered for odd seeds."""
    rng = np.random.default_rng(seed)
    actions, horizon, low = int(rng.integers(1, 4)), int(rng.integers(1, 5)), float(rng.choice([-1.0, 0.0, 0.25]))
    sizes = rng.integers(1, 5, horizon).tolist() if seed % 2 else [int(rng.integers(1, 5))]

    def matrix(size, following):
        return np.eye(following + 1)[rng.integers(following + 1, size=(size, actions))]

    matrices = [matrix(a, b) for a, b in zip(sizes, [*sizes[1:], sizes[0]], strict=True)]
    rewards = [rng.uniform(low, 1.0, (size, actions)) for size in sizes]
    layered = [*matrices[:-1], None], rewards
    options = {"horizon": horizon, "noise": noise, "reward_range": (low, 1.0)} | options
    return tp.TabularMDP(*(layered if seed % 2 else (matrices[0], rewards[0])), **options)


def linear(mdp, seed=0, **options):
    return tp.featurize(mdp, 3, kind="q", seed=seed, **options)


def steps(**attributes):
    """A walk with features of pairs, whose values nobody knows."""
    mdp = Walk(deterministic_transitions=True, **attributes)
    return tp.Problem(mdp, phi_q=lambda state, stage: np.full((2, 3), 0.1 * stage), bound=1.0, name="walk")


# ------------------------------------------------------------------------------------------ the values


@pytest.mark.parametrize("noise", [False, True], ids=["exact", "Bernoulli"])
@pytest.mark.parametrize("seed", range(30))
def test_the_value_of_a_pair_is_its_action_value(seed, noise):
    task = linear(table(seed, noise), seed)
    bar, mdp = delayed(task), task.mdp

    @cache
    def totals(pair, stage):
        """Backward induction: the mean reward and the best that follows, per action."""
        mean = 0.0
        if pair.action is not None:
            mean = mdp.rewards(stage - 1)[mdp.index(pair.state, stage - 1), pair.action]
        successors = [bar.arrive(bar.mdp.step(pair, a, RNG)[1], stage) for a in range(bar.actions)]
        return [mean + (0.0 if s is tp.END else max(totals(s, stage + 1))) for s in successors]

    start = bar.mdp.start(RNG)
    places = [(start, 0, task.optimal_value(start.state))]
    for stage in range(task.horizon):
        for state in mdp.states(stage):
            for action in range(task.actions):
                q = task.optimal_action_value(state, action, stage)
                places.append((DelayedState(state, action), stage + 1, q))
    for pair, stage, expected in places:
        assert max(totals(pair, stage)) == pytest.approx(expected, abs=1e-9)
        assert bar.optimal_value(pair, stage) == pytest.approx(expected, abs=1e-9)
        assert bar.state_features(pair, stage) @ bar.theta == pytest.approx(expected, abs=1e-9)
        for action, total in enumerate(totals(pair, stage)):
            assert bar.optimal_action_value(pair, action, stage) == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("eta", [0.0, 0.05])
@pytest.mark.parametrize("noise", [False, True])
def test_it_keeps_what_a_problem_promises(noise, eta):
    checked = 0
    for seed in range(10):
        mdp = table(seed, noise)
        if eta and (mdp.actions == 1 or mdp.rewards(0).min() < 0.1):
            continue  # too small for this eta
        bar = delayed(linear(mdp, seed, eta=eta))
        assert bar.eta == eta
        assert check_problem(bar, episodes=5) >= 5
        checked += 1
    assert checked >= 2


def test_without_a_horizon_time_stands_still():
    """A ring of five states, the way out at one of them; every step costs."""
    step = np.zeros((5, 2, 6))
    for state in range(5):
        step[state, 0, (state + 1) % 5] = step[state, 1, (state - 1) % 5] = 1.0
    step[3, 0] = np.eye(6)[5]
    costs = -np.arange(1.0, 11.0).reshape(5, 2) / 10
    task = linear(tp.TabularMDP(step, costs, horizon=None, reward_range=(-1.0, -0.1)))
    bar = delayed(task)
    assert bar.horizon is None
    assert bar.reward_range == (-1.0, 0.0)

    values = {DelayedState(s, a): 0.0 for s in range(5) for a in range(2)} | {tp.END: 0.0}
    for _ in range(20):
        for pair in [p for p in values if p is not tp.END]:
            answers = [bar.mdp.step(pair, a, RNG) for a in range(2)]
            values[pair] = max(reward + values[following] for reward, following in answers)
    for pair, value in values.items():
        assert bar.state_features(pair, 0) @ bar.theta == pytest.approx(value)
        assert bar.optimal_value(pair, 0) == pytest.approx(value)
    assert check_problem(bar, episodes=3, max_steps=30) > 3


def test_facts_and_features():
    task = tp.make("layered/4x3:states=5:horizon=3:kind=q")
    bar = delayed(task)
    assert (bar.horizon, bar.actions, bar.dimension) == (4, 4, 4)
    assert bar.bound == math.sqrt(2) * task.bound
    assert bar.name == "delayed layered/4x3"
    assert bar.phi_q is None
    assert bar.deterministic
    start = bar.mdp.start(RNG)
    assert start == DelayedState(0, None)
    assert bar.state_features(start, 0).tolist() == [1, 0, 0, 0]
    assert bar.state_features(DelayedState(7, 2), 2).tolist() == [0, *task.action_features(7, 1)[2]]
    assert bar.theta == pytest.approx(np.append(task.optimal_value(0), task.theta))


def test_the_best_action_is_that_of_the_next_state():
    task = tp.make("layered/4x3:states=5:horizon=4:kind=q")
    bar = delayed(task)
    for stage, state, action in ((0, 0, 3), (1, 6, 0), (2, 12, 1)):
        _, following = task.mdp.step(state, action, RNG)
        assert bar.optimal_policy(DelayedState(state, action), stage + 1) == task.optimal_policy(following, stage + 1)
    assert bar.optimal_policy(DelayedState(0, None)) == task.optimal_policy(0)


# ------------------------------------------------------------------------------------------ the simulator


def test_simulate_asks_at_most_once_and_about_what_waits():
    asked = []

    def ask(state, action):
        asked.append((state, action))
        return (0.5, tp.END) if state == "last" else (0.25, "last")

    assert simulate(tp.END, 1, ask) == (0.0, tp.END)
    assert simulate(DelayedState("first", None), 1, ask) == (0.0, DelayedState("first", 1))
    assert asked == []
    assert simulate(DelayedState("first", 1), 0, ask) == (0.25, DelayedState("last", 0))
    assert simulate(DelayedState("last", 0), 1, ask) == (0.5, tp.END)
    assert asked == [("first", 1), ("last", 0)]


def test_an_episode_pays_one_step_later_and_ends_one_step_later():
    bar = delayed(steps(horizon=3))
    state, stage, rewards, path = bar.mdp.start(RNG), 0, [], []
    for action in (1, 1, 0, 1):
        path.append(tuple(state))
        reward, following = bar.mdp.step(state, action, RNG)
        rewards.append(reward)
        state, stage = bar.arrive(following, stage), stage + 1
    assert path == [(0, None), (0, 1), (1, 1), (2, 0)]
    assert rewards == [0.0, 0.5, 0.5, 0.5]
    assert state is tp.END


def test_rewards_are_those_of_the_problem_to_the_bit():
    task = linear(table(1, noise=True, reward_range=(-1.0, 1.0)))
    bar, pair = delayed(task), DelayedState(0, 0)
    mine, theirs = np.random.default_rng(3), np.random.default_rng(3)
    drawn = [bar.mdp.step(pair, 0, mine)[0] for _ in range(50)]
    assert drawn == [task.mdp.step(0, 0, theirs)[0] for _ in range(50)]
    assert set(drawn) == {-1.0, 1.0}
    batch, successors, which = bar.mdp.step_batch(pair, 0, 50, mine)
    assert batch.tolist() == task.mdp.step_batch(0, 0, 50, theirs)[0].tolist()
    assert {successors[i] for i in which} == {bar.mdp.step(pair, 0, mine)[1]}


def test_batches_where_the_problem_has_them():
    bar = delayed(linear(table(0)))
    rewards, successors, which = bar.mdp.step_batch(bar.mdp.start(RNG), 0, 4, RNG)
    assert (rewards.tolist(), successors, which.tolist()) == ([0.0] * 4, [DelayedState(0, 0)], [0] * 4)
    assert not isinstance(delayed(steps()).mdp, Vectorised)
    assert type(delayed(steps()).mdp) is DelayedMDP


@pytest.mark.parametrize(
    ("given", "widened"), [((0.25, 1.0), (0.0, 1.0)), ((-2.0, -1.0), (-2.0, 0.0)), ((-1.0, 1.0), (-1.0, 1.0))]
)
def test_the_reward_range_holds_the_zero_of_the_first_step(given, widened):
    assert delayed(steps(reward_range=given)).reward_range == widened


# ------------------------------------------------------------------------------------------ what is not known


def test_what_the_problem_does_not_know_is_left_out():
    bar = delayed(steps())
    assert bar.theta is None
    assert bar.solution is None
    assert not bar.deterministic_rewards


def test_several_start_states_have_no_common_parameter():
    step = np.eye(3)[np.array([[1, 2], [0, 2]])]
    task = linear(tp.TabularMDP(step, [[0.0, 0.5], [1.0, 0.25]], horizon=2, start=[0.5, 0.5]))
    bar = delayed(task)
    assert bar.theta is None
    assert [bar.optimal_value(DelayedState(s, None)) for s in (0, 1)] == [task.optimal_value(0), task.optimal_value(1)]


def test_a_problem_without_features_of_pairs_is_refused():
    with pytest.raises(tp.Refused) as error:
        delayed(tp.make("layered/2x3:states=5:horizon=3"))
    assert str(error.value) == (
        "problem 'layered/2x3' has no phi_q, from which the features of the delayed problem are built"
    )


def test_stochastic_transitions_are_refused():
    with pytest.raises(tp.Refused) as error:
        delayed(tp.make("layered/2x3:states=5:horizon=3:kind=q:branching=2"))
    assert str(error.value) == (
        "problem 'layered-stochastic/2x3' is not declared to have deterministic transitions, and v̄*((s,a)) = q*(s,a) "
        "needs them; linear q* with stochastic transitions and few actions is an open question"
    )
