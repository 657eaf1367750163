"""Simulators that return the wrong things: one sentence that names what and where, whoever calls them."""

import math
import re

import numpy as np
import pytest

import tensorplan as tp
from tensorplan.testing import check_problem

LONGEST = 450
"""Characters of a message: a sentence, with what a simulator contributes to it cut short."""


class Good:
    """A walk with a coin: states are numbers, so that many can be stepped at once."""

    horizon, actions = 3, 2

    def start(self, rng):
        return 0

    def step(self, state, action, rng):
        return float(rng.random() < 0.5), state + 1 + action


class Single(Good):
    """``step`` returns what it is told to."""

    def __init__(self, result, deterministic=False):
        self.result = result
        self.deterministic_transitions = self.deterministic_rewards = deterministic

    def step(self, state, action, rng):
        return self.result


class Batch(Good):
    """``step_batch`` returns what it is told to; functions are called with n."""

    def __init__(self, result):
        self.result = result

    def step_batch(self, state, action, n, rng):
        return self.result(n) if callable(self.result) else self.result


class Many(Good):
    """``step_many`` returns what it is told to; functions are called with the states."""

    def __init__(self, result):
        self.result = result

    def draw_noise(self, n, rng):
        return rng.random(n)

    def step_many(self, states, actions, noise):
        return self.result(states) if callable(self.result) else self.result


class Drawn(Many):
    """``draw_noise`` returns what it is told to; functions are called with n."""

    def draw_noise(self, n, rng):
        return self.result(n) if callable(self.result) else self.result

    def step_many(self, states, actions, noise):
        return noise, states + 1 + actions, np.zeros(len(states), dtype=bool)


class Started(Good):
    """``start`` returns or raises what it is told to."""

    def __init__(self, result):
        self.result = result

    def start(self, rng):
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def problem(mdp):
    return tp.Problem(mdp, lambda s, h: np.array([3.0 - h, math.cos(s)]) / 4, bound=4.0, name="bad")


STEPS = {
    "None": (None, "must return (reward, next_state), got None"),
    "a number": (1.0, "must return (reward, next_state), got 1.0"),
    "the old API of Gym": ((1, 0.5, False, {}), "must return (reward, next_state), got 4 values"),
    "the API of Gymnasium": ((1, 0.5, False, False, {}), "got 5 values"),
    "three values": ((0.5, 1, True), "got 3 values"),
    "an empty tuple": ((), "got 0 values"),
    "a dict": ({"reward": 0.5, "state": 1}, "got {'reward'"),
    "a string": ("ab", "got 'ab'"),
    "no reward": ((None, 1), "gave the reward None, which is not a number"),
    "an array as reward": ((np.array([0.5, 0.5]), 1), "gave the reward array([0.5, 0.5]), which is not a number"),
    "no entries": ((np.array([]), 1), "gave the reward array([], dtype=float64), which is not a number"),
    "a list as reward": (([0.5], 1), "gave the reward [0.5], which is not a number"),
    "a word as reward": (("0.5", 1), "gave the reward '0.5', which is not a number"),
    "a complex reward": ((0.5j, 1), "gave the reward 0.5j, which is not a number"),
    "swapped": (((0, 1), 0.5), "gave the reward (0, 1), which is not a number"),
    "nan": ((math.nan, 1), "gave the reward nan, which is not a number"),
    "too much": ((2.0, 1), "outside of the declared range [0, 1]"),
    "infinite": ((math.inf, 1), "outside of the declared range"),
}

ONES = np.ones


BATCHES = {
    "None": (None, "must return (rewards, successors, which), got None"),
    "two values": (lambda n: (ONES(n), [1]), "must return (rewards, successors, which)"),
    "a column of rewards": (lambda n: (ONES((n, 1)), [1], np.zeros(n, int)), "gave rewards of shape"),
    "one reward": (lambda n: (1.0, [1], np.zeros(n, int)), "gave rewards of shape ()"),
    "too few rewards": (lambda n: (ONES(n - 1), [1], np.zeros(n, int)), "gave rewards of shape"),
    "too many indices": (lambda n: (ONES(n), [1], np.zeros(n + 1, int)), "indices of shape"),
    "an index out of range": (lambda n: (ONES(n), [1], np.full(n, 1)), "indices that are not among 0 .. 0"),
    "a negative index": (lambda n: (ONES(n), [1], np.full(n, -1)), "indices that are not among 0 .. 0"),
    "indices that are floats": (lambda n: (ONES(n), [1], np.zeros(n)), "indices of the type float64"),
    "no successors": (lambda n: (ONES(n), [], np.zeros(n, int)), "gave no successors"),
    "None as successors": (lambda n: (ONES(n), None, np.zeros(n, int)), "must return (rewards, successors, which)"),
    "a set of successors": (lambda n: (ONES(n), {1}, np.zeros(n, int)), "gave successors that are not a list: {1}"),
    "no rewards": (lambda n: (None, [1], np.zeros(n, int)), "gave rewards of shape ()"),
    "rewards None": (lambda n: ([None] * n, [1], np.zeros(n, int)), "gave the reward nan, which is not a number"),
    "words": (lambda n: (["x"] * n, [1], np.zeros(n, int)), "must return (rewards, successors, which)"),
    "rewards out of range": (lambda n: (2 * ONES(n), [1], np.zeros(n, int)), "outside of the declared range"),
}


def over(states, value=False):
    return np.full(len(states), value)


MANY = {
    "None": (None, "must return (rewards, next states, ended), got None"),
    "two values": (lambda s: (ONES(len(s)), s), "must return (rewards, next states, ended), got 2 values"),
    "an array": (lambda s: ONES(len(s)), "must return (rewards, next states, ended)"),
    "a column of rewards": (lambda s: (ONES((len(s), 1)), s, over(s)), "of the shapes"),
    "one reward": (lambda s: (1.0, s, over(s)), "of the shapes ()"),
    "too few states": (lambda s: (ONES(len(s)), s[:-1], over(s)), "of the shapes"),
    "states in a column": (lambda s: (ONES(len(s)), s[:, None], over(s)), "of the shapes"),
    "ended as numbers": (lambda s: (ONES(len(s)), s, over(s, 0)), "and bool"),
    "ended is one": (lambda s: (ONES(len(s)), s, False), "of the shapes"),
    "no rewards": (lambda s: (None, s, over(s)), "of the shapes ()"),
    "rewards None": (lambda s: ([None] * len(s), s, over(s)), "of the types object"),
    "no states": (lambda s: (ONES(len(s)), None, over(s)), "of the shapes"),
    "words as states": (lambda s: (ONES(len(s)), ["x"] * len(s), over(s)), "not numbers and bool"),
    "ragged": (lambda s: ([[1.0], [1.0, 2.0]], s, over(s)), "must return (rewards, next states, ended)"),
    "nan as rewards": (lambda s: (ONES(len(s)) * math.nan, s, over(s)), "gave the reward nan"),
    "nan as states": (lambda s: (ONES(len(s)), s * math.nan, over(s)), "gave the next state nan"),
    "too much": (lambda s: (2 * ONES(len(s)), s, over(s)), "outside of the declared range"),
}

NOISE = {
    "None": (None, "draw_noise("),
    "a number": (0.5, "gave noise of shape ()"),
    "one row less": (lambda n: np.zeros(n - 1), "gave noise of shape"),
    "rows as columns": (lambda n: np.zeros((1, n)) if n > 1 else np.zeros((2, 1)), "gave noise of shape"),
    "ragged": ([[1.0], [1.0, 2.0]], "draw_noise("),
}

STARTS = {
    "END": (tp.END, "gave END"),
    "an error": (KeyError("nothing"), "start() of problem 'bad' raised KeyError"),
}

CALLERS = {
    "uct": lambda p: tp.run(p, "uct:simulations=20"),
    "tensorplan": lambda p: tp.run(p, tp.TensorPlan(budget=3000)),
    "hindsight": lambda p: tp.run(p, tp.Hindsight(budget=3000)),
    "audit": lambda p: tp.audit(p, "random", budget=3000),
    "diagnose": lambda p: tp.diagnose(p, budget=3000),
    "check_problem": lambda p: check_problem(p, episodes=2),
}

TABLES = {
    Single: (STEPS, CALLERS),
    Batch: (BATCHES, ("tensorplan", "diagnose", "check_problem")),
    Many: (MANY, ("hindsight", "audit", "check_problem")),
    Drawn: (NOISE, ("hindsight", "audit", "check_problem")),
    Started: (STARTS, CALLERS),
}

ROWS = [
    pytest.param(mdp, result, sentence, caller, id=f"{mdp.__name__}-{name}-{caller}")
    for mdp, (table, callers) in TABLES.items()
    for name, (result, sentence) in table.items()
    for caller in callers
]


@pytest.mark.parametrize(("mdp", "result", "sentence", "caller"), ROWS)
def test_one_sentence_names_what_and_where(mdp, result, sentence, caller):
    with pytest.raises(tp.ProblemError, match=re.escape(sentence)) as error:
        CALLERS[caller](problem(mdp(result)))
    said = str(error.value)
    assert "\n" not in said
    assert len(said) < LONGEST
    assert re.search(r"(step|step_batch|step_many|draw_noise|start)\(", said)


@pytest.mark.parametrize("caller", CALLERS)
@pytest.mark.parametrize("name", ["no reward", "an array as reward", "the old API of Gym"])
def test_where_steps_are_declared_deterministic(caller, name):
    result, sentence = STEPS[name]
    with pytest.raises(tp.ProblemError, match=re.escape(sentence)):
        CALLERS[caller](problem(Single(result, deterministic=True)))


def test_the_good_simulator_is_good():
    for mdp in (Good(), Single((0.5, 1)), Single((np.float32(0.5), 1)), Single((np.array(0.5), 1)), Single((True, 1))):
        for call in CALLERS.values():
            call(problem(mdp))


def test_the_command_says_it_in_one_line(cli, tmp_path):
    (tmp_path / "old.py").write_text(
        "import tensorplan as tp\n"
        "class Old:\n"
        "    horizon, actions = 3, 2\n"
        "    def start(self, rng): return 0\n"
        "    def step(self, state, action, rng): return state + 1, 0.5, False, {}\n"
        "def make(): return tp.Problem(Old(), lambda s, h: [0.5], bound=4.0, name='old')\n"
    )
    for command in (["plan", "--planner", "uct"], ["audit", "--planner", "random"], ["diagnose"]):
        code, _, err = cli(command[0], f"{tmp_path}/old.py:make", *command[1:])
        assert code == 2
        assert "must return (reward, next_state), got 4 values" in err
        assert "Traceback" not in err
