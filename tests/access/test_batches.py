import random

import numpy as np
import pytest
from helpers import Walk, problem
from scipy import stats

import tensorplan as tp
from tensorplan.access import batches
from tensorplan.access.batches import ENDED, BatchAccess, _distinct
from tensorplan.access.meter import Meter
from tensorplan.access.noise import Purpose


class Coins(Walk):
    """Tuples (position, heads so far); 8 heads end the episode.  It counts the calls of ``step``."""

    calls = 0

    def start(self, rng):
        return (0, 0)

    def step(self, state, action, rng):
        self.calls += 1
        return self._outcome(state, action, rng.random())

    def _outcome(self, state, action, u):
        heads = state[1] + int(u < 0.5)
        return float(u), tp.END if heads == 8 else (state[0] + action, heads)


class ManyCoins(Coins):
    """The same with ``step_many``."""

    def draw_noise(self, n, rng):
        return rng.random((n, 1))

    def step_many(self, states, actions, noise):
        heads = states[:, 1] + (noise[:, 0] < 0.5)
        return noise[:, 0], np.stack([states[:, 0] + actions, heads], axis=1), heads == 8


def access(mdp, budget=None, seed=0):
    return BatchAccess(problem(mdp), Meter(budget), seed)


STATES = [(0, 0), (3, 7), (2, 2)]


@pytest.mark.parametrize("kind", [Coins, ManyCoins])
def test_all_pairs_step_with_the_same_columns(kind):
    them = access(kind())
    ids = np.array([them.number(state) for state in STATES])
    columns = them.columns(Purpose.TEST, 4, 0, 10)
    rewards, following = them.steps(ids, 0, columns)
    assert rewards.shape == following.shape == (3, 2, 10)
    assert (rewards == rewards[0, 0]).all()
    for i, state in enumerate(STATES):
        for action in range(2):
            for j in range(10):
                expected = them.problem.mdp._outcome(state, action, rewards[0, 0, j])[1]
                assert them.state(following[i, action, j]) == expected
    again, _ = them.steps(ids[1:], 0, columns, slice(4, None))
    assert np.array_equal(again, rewards[1:, :, 4:])


@pytest.mark.parametrize("kind", [Coins, ManyCoins])
def test_at_the_last_stage_everything_ends(kind):
    them = access(kind())
    _, following = them.steps(np.array([them.number((0, 0))]), 5, them.columns(Purpose.TEST, 0, 0, 4))
    assert (following == ENDED).all()
    assert them.state(ENDED) is tp.END
    assert them.number(tp.END) == ENDED


def test_the_meter_counts_the_rows_of_step_many():
    mdp, rows = ManyCoins(), []
    mdp.step_many = lambda states, actions, noise: (
        rows.append(len(states)),
        ManyCoins.step_many(mdp, states, actions, noise),
    )[1]
    them = access(mdp)
    for _ in range(2):
        them.steps(np.array([them.number((0, 0))]), 0, them.columns(Purpose.TEST, 0, 0, 25))
    assert rows == [50, 50, 50]  # the first call is repeated
    assert (them.meter.spent, them.problem.unmetered) == (100, 50)


def test_the_meter_counts_the_calls_of_step():
    mdp = Coins()
    them = access(mdp)
    them.steps(np.array([them.number((0, 0)), them.number((1, 1))]), 0, them.columns(Purpose.TEST, 0, 0, 25))
    them.step((0, 0), 0, 1, np.random.default_rng(0))
    assert them.meter.spent == 2 * 2 * 25 + 1
    assert mdp.calls == them.meter.spent + them.problem.unmetered
    assert them.problem.unmetered == batches.CHECKED


@pytest.mark.parametrize("kind", [Coins, ManyCoins])
def test_a_budget_is_never_exceeded(kind):
    them = access(kind(), budget=30)
    ids = np.array([them.number((0, 0))])
    with pytest.raises(tp.BudgetSpent):
        them.steps(ids, 0, them.columns(Purpose.TEST, 0, 0, 16))
    assert them.meter.spent == 0


def test_equal_states_have_one_number_and_unhashable_ones_do_not():
    them = access(Coins())
    assert them.number((1, 2)) == them.number((1, 2)) == 0
    assert them.number([1, 2]) != them.number([1, 2])
    assert them.count == 3
    assert them.state(1) == [1, 2]


def test_states_that_cannot_be_compared():
    class Odd:
        def __hash__(self):
            return 1

        def __eq__(self, other):
            raise RuntimeError("no idea")

    them = access(Coins())
    them.number(Odd())
    with pytest.raises(tp.ProblemError, match=r"comparing the state .* raised RuntimeError: no idea"):
        them.number(Odd())


def test_numbers_are_given_anew_where_there_are_very_many(monkeypatch):
    monkeypatch.setattr(batches, "REMEMBERED", 5)
    them = access(Coins())
    for i in range(5):
        them.number((i, 0))
    them.forget()
    assert (them.count, them.generation) == (5, 0)
    them.number((9, 9))
    them.forget()
    assert (them.count, them.generation) == (0, 1)


# ------------------------------------------------------------------------------------------ packed states


def spread(kind, rows):
    info = np.iinfo(kind)
    return np.array(
        [[info.min, info.max], [info.max, info.min], [info.min, info.min], [info.max, info.max]] * rows, kind
    )


@pytest.mark.parametrize(
    "rows",
    [
        *(spread(kind, 2) for kind in (np.int8, np.uint8, np.int16, np.int64, np.uint64)),
        np.array([[True, False], [False, False], [True, False], [True, True]]),
        np.array([True, False, True]),
        np.array([0.5, 0.25, 0.5]),
        np.array([[0.5, 1.0], [0.25, 2.0], [0.5, 1.0]]),
        np.array([-(2**62), 2**62, 0, 2**62]),
        np.array([[2**62, 1], [-(2**62), 1], [2**62, 1]]),
        np.array([3, 5, 3], dtype=np.int8),
        np.random.default_rng(0).integers(-100, 100, size=(500, 3), dtype=np.int8),
    ],
    ids=lambda rows: f"{rows.dtype}-{rows.shape}",
)
def test_distinct_rows_are_told_apart_whatever_their_type(rows):
    first, inverse = _distinct(rows)
    assert np.array_equal(rows[first][inverse], rows)
    assert len(first) == len(np.unique(rows, axis=0))


class Small(Walk):
    """States of 8 bits from -128 to 127: their differences do not fit into 8 bits."""

    def start(self, rng):
        return (-128, 0)

    def draw_noise(self, n, rng):
        return rng.integers(-128, 128, size=(n, 2), dtype=np.int8)

    def step_many(self, states, actions, noise):
        return np.full(len(states), 0.5), noise.astype(states.dtype), np.zeros(len(states), dtype=np.bool_)


def test_states_of_few_bits_are_not_mixed_up():
    them = access(Small())
    columns = them.columns(Purpose.TEST, 0, 0, 300)
    them.problem.mdp.step_many = lambda states, actions, noise: Small.step_many(
        None, states.astype(np.int8), actions, noise
    )
    _, following = them.steps(np.array([them.number((-128, 0))]), 0, columns)
    assert [them.state(number) for number in following[0, 0].tolist()] == [tuple(row) for row in columns.noise.tolist()]


@pytest.mark.parametrize("noise", [np.zeros(3), np.float64(1.0), np.zeros((2, 1))])
def test_noise_of_the_wrong_shape(noise):
    mdp = ManyCoins()
    mdp.draw_noise = lambda n, rng: noise
    with pytest.raises(tp.ProblemError, match=r"draw_noise\(4\)"):
        access(mdp).columns(Purpose.TEST, 0, 0, 4)


@pytest.mark.parametrize("samples", [1, 7, 100])
def test_uniform_noise_for_means_is_stratified_and_the_rest_is_not(samples):
    mdp = ManyCoins()
    mdp.uniforms = 1
    them = access(mdp)
    noise = np.array([them.columns(Purpose.TEST, i, 0, samples + 1, samples).noise[:, 0] for i in range(400)])
    assert (np.sort(np.floor(samples * noise[:, 1:])) == np.arange(samples)).all()
    firsts = noise[:, :2].T  # each column by itself is uniform, and those of moves and means are independent
    assert all(stats.kstest(each, "uniform").pvalue > 1e-6 for each in firsts)
    assert stats.pearsonr(*firsts).pvalue > 1e-6


def test_uniform_noise_that_is_not_what_was_declared():
    mdp = ManyCoins()
    mdp.uniforms = 2
    with pytest.raises(tp.ProblemError, match=r"gave noise of shape \(4, 1\), and the MDP declares uniforms=2"):
        access(mdp).columns(Purpose.TEST, 0, 0, 5, 4)


# -------------------------------------------------------------------------------- simulators with noise of their own


class OwnCounter(Walk):
    count = 0

    def step(self, state, action, rng):
        self.count += 1
        return 0.5, self.count


class Python(Walk):
    def step(self, state, action, rng):
        return random.random(), state


class Legacy(Walk):
    def step(self, state, action, rng):
        return 0.5, state + int(np.random.rand() < 0.5)


class OwnGenerator(Walk):
    def __init__(self):
        self.own = np.random.default_rng(0)

    def step(self, state, action, rng):
        return self.own.random(), state


class Rarely(Walk):
    """Draws from the global generator, which makes a difference once in a thousand steps."""

    def step(self, state, action, rng):
        return 0.5, state + int(np.random.rand() < 0.001)


@pytest.mark.parametrize("kind", [OwnCounter, Python, Legacy, OwnGenerator, Rarely])
def test_simulators_that_ignore_the_generator_are_detected(kind):
    them = access(kind())
    with pytest.raises(
        tp.ProblemError, match="must draw its random numbers from the generator or the noise it is given"
    ):
        them.steps(np.array([them.number(0)]), 0, them.columns(Purpose.TEST, 0, 0, 20))


class OwnMany(ManyCoins):
    def step_many(self, states, actions, noise):
        return super().step_many(states, actions, np.random.default_rng().random(noise.shape))


class GlobalMany(ManyCoins):
    def step_many(self, states, actions, noise):
        return super().step_many(states, actions, noise + 1e-9 * np.random.rand())


@pytest.mark.parametrize("kind", [OwnMany, GlobalMany])
def test_many_at_once_as_well(kind):
    them = access(kind())
    with pytest.raises(tp.ProblemError, match="must draw its random numbers from the generator or the noise it is"):
        them.steps(np.array([them.number((0, 0))]), 0, them.columns(Purpose.TEST, 0, 0, 20))


class Late(Walk):
    """Ignores the generator in states that are reached late only."""

    def step(self, state, action, rng):
        return (random.random() if state >= 3 else 0.5), state + 1


def test_they_are_detected_late_as_well():
    them = access(Late())
    for state in range(3):
        them.steps(np.array([them.number(state)]), 0, them.columns(Purpose.TEST, 0, 0, 20))
    with pytest.raises(
        tp.ProblemError, match="must draw its random numbers from the generator or the noise it is given"
    ):
        them.steps(np.array([them.number(3)]), 0, them.columns(Purpose.TEST, 0, 0, 300))


def test_batches_end_with_the_episode():
    """Like nodes: what local access gave away answers no more queries."""
    local = tp.LocalAccess(tp.make("queue-admission/5"), 0, np.random.default_rng(0))
    them = local.batches(0)
    columns = them.columns(Purpose.TEST, 0, 0, 2)
    ids = np.array([them.number(them.at(local.root))])
    them.steps(ids, 0, columns)
    assert local.spent == 4
    local.close()
    with pytest.raises(tp.NotReached, match="the episode of this access object is over"):
        them.steps(ids, 0, columns)
