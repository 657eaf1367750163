import math

import numpy as np
import pytest
from helpers import Walk, problem

import tensorplan as tp
from tensorplan.access import batches
from tensorplan.access.batches import ENDED, BatchAccess
from tensorplan.access.meter import Meter
from tensorplan.hindsight.values import Values, value_function


def values(function, band=None, mdp=None):
    return Values(BatchAccess(problem(mdp), Meter(), 0), function, band)


def test_values_by_number_are_zero_at_the_end_and_clipped_to_the_range_of_returns():
    v = values(lambda state, stage: 2.5 * state - 1)
    ids = np.array([[v.access.number(state), ENDED] for state in (0, 1, 9)])
    assert v(ids, 0).tolist() == [[0.0, 0.0], [1.5, 0.0], [6.0, 0.0]]
    assert v(ids, 5).tolist() == [[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]]
    assert v(ids, 6).tolist() == [[0.0, 0.0]] * 3


def test_a_band_is_narrower():
    v = values(lambda state, stage: float(state), {0: (1.0, 2.0)})
    ids = np.array([v.access.number(state) for state in range(4)])
    assert v(ids, 0).tolist() == [1.0, 1.0, 2.0, 2.0]
    assert v(ids, 1).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert v.within({0: (0.0, 0.5)})(ids, 0).tolist() == [0.0, 0.5, 0.5, 0.5]
    assert v.seen() == {0: (1.0, 2.0), 1: (0.0, 3.0)}


def test_each_value_is_computed_once():
    calls = []
    v = values(lambda state, stage: calls.append((state, stage)) or 0.5)
    for count in (1, 100, 300):
        ids = np.array([v.access.number(state) for state in range(count)])
        v(np.repeat(ids, 3), 0)
    assert len(calls) == len(set(calls)) == 300


def test_values_are_forgotten_with_the_numbers(monkeypatch):
    monkeypatch.setattr(batches, "REMEMBERED", 1)
    v = values(lambda state, stage: float(state))
    assert v(np.array([v.access.number(4), v.access.number(5)]), 0).tolist() == [4.0, 5.0]
    v.access.forget()
    assert v(np.array([v.access.number(1)]), 0).tolist() == [1.0]


@pytest.mark.parametrize("infinite", [math.inf, -math.inf])
def test_infinite_values_are_clipped(infinite):
    v = values(lambda state, stage: infinite)
    assert v(np.array([v.access.number(0)]), 0)[0] == (6.0 if infinite > 0 else 0.0)


def no_idea(state, stage):
    raise KeyError("no idea")


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda state, stage: math.nan, r"the value function at state 0, stage 0 gave NaN"),
        (no_idea, r"the value function at state 0, stage 0 raised KeyError: 'no idea'"),
        (lambda state, stage: "high", r"the value function at state 0, stage 0 raised ValueError: could not convert"),
        (lambda state, stage: None, r"the value function at state 0, stage 0 raised TypeError"),
        (lambda state, stage: np.zeros(2), r"the value function at state 0, stage 0 raised TypeError"),
        (lambda state: 0.0, r"the value function at state 0, stage 0 raised TypeError"),
    ],
)
def test_value_functions_that_do_not_give_a_number(function, words):
    v = values(function)
    with pytest.raises(tp.ProblemError, match=words):
        v(np.array([v.access.number(0)]), 0)


def test_theta_is_a_value_function():
    task = problem(phi_v=lambda state, stage: np.array([0.5, state / 10]))
    assert value_function(task, [2.0, 4.0])(5, 0) == 3.0
    assert value_function(task, np.array([2, 4]))(0, 3) == 1.0


@pytest.mark.parametrize("theta", [[1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]], [1.0, math.nan], 3.0, "high", {}, ["a", "b"]])
def test_theta_of_the_wrong_shape(theta):
    with pytest.raises(tp.BadInput, match=r"value must be a function of state and stage, or theta \(2 finite numbers"):
        value_function(problem(), theta)


def test_theta_needs_features_of_states():
    task = tp.Problem(Walk(), None, lambda state, stage: np.zeros((2, 2)), bound=1.0)
    with pytest.raises(tp.BadInput, match="value must be a function of state and stage"):
        value_function(task, [1.0, 2.0])


class Sums:
    """A value function of arrays, and how often it was called."""

    def __init__(self, reply=None):
        self.reply, self.calls = reply, []

    def __call__(self, state, stage):
        raise AssertionError("one state at a time")

    def many(self, states, stage):
        self.calls.append(len(states))
        return states.sum(axis=1) / 10 if self.reply is None else self.reply(states)


def test_functions_of_arrays_are_called_once_for_all_new_states():
    function = Sums()
    v = Values(BatchAccess(tp.make("lost-sales/2"), Meter(), 0), function)
    first, more = (np.array([v.access.number((a, 0, 0)) for a in states]) for states in (range(3), range(5)))
    assert v(first, 0).tolist() == pytest.approx([0.0, 0.1, 0.2])
    assert v(np.append(more, ENDED), 0).tolist() == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4, 0.0])
    assert function.calls == [3, 2]


def test_values_of_points_are_computed_anew():
    function = Sums()
    v = Values(BatchAccess(tp.make("put/36-20-1"), Meter(), 0), function)
    ids = np.array([v.access.number((30.0,)), ENDED, v.access.number((500.0,))])
    for _ in range(2):
        assert v(ids, 0).tolist() == [3.0, 0.0, 40.0]
    assert function.calls == [2, 2]
    assert v.seen() == {0: (3.0, 40.0)}
    assert v(ids, 51).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (lambda states: states[:, 0] * np.nan, "must give as many numbers"),
        (lambda states: np.zeros(1), "must give as many numbers"),
        (lambda states: no_idea(0, 0), "at 2 states, stage 0 raised KeyError"),
    ],
)
def test_bad_functions_of_arrays(reply, message):
    v = Values(BatchAccess(tp.make("put/36-20-1"), Meter(), 0), Sums(reply))
    with pytest.raises(tp.ProblemError, match=message):
        v.of(np.array([[30.0], [31.0]]), 0)
