"""Tables that cannot be: one clear sentence for each."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from tensorplan.core.errors import BadInput
from tensorplan.problems.puzzles import grid
from tensorplan.problems.tables.tabular import TabularMDP, evaluate_tabular, solve_tabular

HALF = np.full((2, 2, 2), 0.5)
FLAT = np.zeros((2, 2))


def changed(array: np.ndarray, place: tuple, value: float) -> np.ndarray:
    array = array.copy()
    array[place] = value
    return array


def stages(*parts):
    return list(parts)


BAD = {
    "row sum": (
        lambda: TabularMDP(changed(HALF, (1, 0, 1), 0.25), FLAT, horizon=2),
        "transitions: the probabilities at state 1, action 0 sum to 0.75, not to 1",
    ),
    "row sum, sparse": (
        lambda: TabularMDP(sparse.csr_array(changed(HALF, (1, 0, 1), 0.25).reshape(4, 2)), FLAT, horizon=2),
        "transitions: the probabilities at state 1, action 0 sum to 0.75, not to 1",
    ),
    "row sum, layered": (
        lambda: TabularMDP(stages(HALF, changed(HALF, (0, 1, 0), 1), None), [FLAT] * 3, horizon=3),
        "transitions of stage 1: the probabilities at state 2, action 1 sum to 1.5, not to 1",
    ),
    "row sum, last stage": (
        lambda: TabularMDP(stages(HALF, changed(HALF, (0, 1, 0), 1)), [FLAT] * 2, horizon=2),
        "transitions of stage 1: the probabilities at state 2, action 1 sum to 1.5, not to 1",
    ),
    "empty sparse row": (
        lambda: TabularMDP(sparse.csr_array((4, 2)), FLAT, horizon=2),
        "transitions: the probabilities at state 0, action 0 sum to 0.0, not to 1",
    ),
    "infinite probability": (
        lambda: TabularMDP(changed(HALF, (0, 0, 0), np.inf), FLAT, horizon=2),
        "transitions: the probabilities at state 0, action 0 sum to inf, not to 1",
    ),
    "negative probability": (
        lambda: TabularMDP(changed(changed(HALF, (0, 0, 0), -0.5), (0, 0, 1), 1.5), FLAT, horizon=2),
        "transitions contain the probability -0.5",
    ),
    "negative probability, sparse": (
        lambda: TabularMDP(sparse.csr_array([[-0.5, 1.5], [1, 0], [1, 0], [1, 0]]), FLAT, horizon=2),
        "transitions contain the probability -0.5",
    ),
    "not a number": (
        lambda: TabularMDP(changed(HALF, (1, 1, 1), np.nan), FLAT, horizon=2),
        "transitions contain the probability nan",
    ),
    "reward too large": (
        lambda: TabularMDP(HALF, changed(FLAT, (1, 0), 1.5), horizon=2),
        "the reward at state 1, stage 0, action 0 is 1.5, outside of [0, 1]",
    ),
    "reward too small, layered": (
        lambda: TabularMDP(
            stages(HALF, HALF, None), [FLAT, changed(FLAT, (0, 1), -3), FLAT], horizon=3, reward_range=(-2, 2)
        ),
        "the reward at state 2, stage 1, action 1 is -3.0, outside of [-2, 2]",
    ),
    "reward not a number": (
        lambda: TabularMDP(HALF, changed(FLAT, (0, 0), np.nan), horizon=2),
        "the reward at state 0, stage 0, action 0 is nan, outside of [0, 1]",
    ),
    "one action missing": (
        lambda: TabularMDP(HALF[:, :1], FLAT, horizon=2),
        "transitions have shape (2, 1, 2), rewards (2, 2)",
    ),
    "transitions of one dimension": (
        lambda: TabularMDP(np.full(4, 0.25), FLAT, horizon=2),
        "transitions have shape (4,), expected 4 rows",
    ),
    "transitions of four dimensions": (
        lambda: TabularMDP(HALF[None], FLAT, horizon=2),
        "transitions have shape (1, 2, 2, 2), expected 4 rows",
    ),
    "too few rows": (
        lambda: TabularMDP(sparse.csr_array(np.eye(2)), FLAT, horizon=2),
        "transitions have shape (2, 2), expected 4 rows",
    ),
    "too many columns": (
        lambda: TabularMDP(np.full((2, 2, 4), 0.25), FLAT, horizon=2),
        "transitions have 4 columns, expected 2 (or 3 with END)",
    ),
    "columns of the next stage": (
        lambda: TabularMDP(stages(HALF, None), [FLAT, np.zeros((4, 2))], horizon=2),
        "transitions of stage 0 have 2 columns, expected 4 (or 5 with END)",
    ),
    "rewards of one dimension": (
        lambda: TabularMDP(HALF, np.zeros(4), horizon=2),
        "rewards must have shape (S, A), one such array per stage in a layered MDP",
    ),
    "rewards of three dimensions": (
        lambda: TabularMDP(stages(HALF, None), [FLAT, FLAT[None]], horizon=2),
        "rewards must have shape (S, A), one such array per stage in a layered MDP",
    ),
    "no actions": (
        lambda: TabularMDP(np.zeros((2, 0, 2)), np.zeros((2, 0)), horizon=2),
        "rewards must have shape (S, A), one such array per stage in a layered MDP",
    ),
    "no states": (
        lambda: TabularMDP(np.zeros((0, 2, 0)), np.zeros((0, 2)), horizon=2),
        "rewards must have shape (S, A), one such array per stage in a layered MDP",
    ),
    "other actions later": (
        lambda: TabularMDP(stages(HALF, np.full((2, 3, 2), 0.5)), [FLAT, np.zeros((2, 3))], horizon=2),
        "rewards of stage 1 have 3 actions, not 2",
    ),
    "stages and horizon": (
        lambda: TabularMDP(stages(HALF, None), [FLAT] * 2, horizon=3),
        "a layered MDP needs one transition matrix and one reward array per stage: horizon 3, got 2 and 2",
    ),
    "no stages": (
        lambda: TabularMDP([], [], horizon=1),
        "a layered MDP needs one transition matrix and one reward array per stage: horizon 1, got 0 and 0",
    ),
    "layered without horizon": (
        lambda: TabularMDP(stages(HALF, None), [FLAT] * 2, horizon=None),
        "a layered MDP needs one transition matrix and one reward array per stage: horizon None, got 2 and 2",
    ),
    "transitions left out": (
        lambda: TabularMDP(stages(None, HALF), [FLAT] * 2, horizon=2),
        "transitions of stage 0: only the last stage may omit them",
    ),
    "stationary transitions left out": (
        lambda: TabularMDP(None, FLAT, horizon=2),
        "transitions: only the last stage may omit them",
    ),
    "horizon zero": (
        lambda: TabularMDP(HALF, FLAT, horizon=0),
        "horizon must be a whole number >= 1, got 0",
    ),
    "start beyond": (
        lambda: TabularMDP(HALF, FLAT, horizon=2, start=2),
        "start must be a whole number from 0 to 1, got 2",
    ),
    "start beyond stage 0": (
        lambda: TabularMDP(stages(HALF, None), [FLAT] * 2, horizon=2, start=2),
        "start must be a whole number from 0 to 1, got 2",
    ),
    "start sum": (
        lambda: TabularMDP(HALF, FLAT, horizon=2, start=[0.5, 0.6]),
        "start must be a state or 2 probabilities that sum to 1",
    ),
    "start negative": (
        lambda: TabularMDP(HALF, FLAT, horizon=2, start=[-0.5, 1.5]),
        "start must be a state or 2 probabilities that sum to 1",
    ),
    "start not a number": (
        lambda: TabularMDP(HALF, FLAT, horizon=2, start=[np.nan, 1.0]),
        "start must be a state or 2 probabilities that sum to 1",
    ),
    "start too long": (
        lambda: TabularMDP(HALF, FLAT, horizon=2, start=[0.5, 0.5, 0.0]),
        "start must be a state or 2 probabilities that sum to 1",
    ),
    "step from an unknown state": (
        lambda: TabularMDP(HALF, FLAT, horizon=2).step(2, 0, np.random.default_rng(0)),
        "there is no state 2: states are 0 .. 1",
    ),
    "batch from an unknown state": (
        lambda: TabularMDP(stages(HALF, None), [FLAT] * 2, horizon=2).step_batch(-1, 0, 3, np.random.default_rng(0)),
        "there is no state -1: states are 0 .. 3",
    ),
    "value of an unknown state": (
        lambda: solve_tabular(TabularMDP(HALF, FLAT, horizon=2)).value(2, 1),
        "there is no state 2 at stage 1: states are 0 .. 1",
    ),
    "value of a state of another stage": (
        lambda: solve_tabular(TabularMDP(stages(HALF, None), [FLAT] * 2, horizon=2)).action_value(1, 0, 1),
        "there is no state 1 at stage 1: states are 2 .. 3",
    ),
    "policy too short": (
        lambda: evaluate_tabular(TabularMDP(HALF, FLAT, horizon=2), [[0, 0]]),
        "the policy has 1 stages, the MDP 2",
    ),
    "policy with an unknown action": (
        lambda: evaluate_tabular(TabularMDP(HALF, FLAT, horizon=2), [[0, 0], [0, 2]]),
        "the policy of stage 1 has actions outside of 0 .. 1",
    ),
    "policy with a negative action": (
        lambda: evaluate_tabular(TabularMDP(HALF, FLAT, horizon=2), [[-1, 0], [0, 0]]),
        "the policy of stage 0 has actions outside of 0 .. 1",
    ),
    "policy with half an action": (
        lambda: evaluate_tabular(TabularMDP(HALF, FLAT, horizon=2), [[0.5, 0], [0, 0]]),
        "the policy of stage 0 has actions outside of 0 .. 1",
    ),
    "policy weights": (
        lambda: evaluate_tabular(TabularMDP(HALF, FLAT, horizon=2), [[0, 0], [[0.5, 0.6], [1, 0]]]),
        "the policy of stage 1 must be (2,) actions or (2, 2) probabilities",
    ),
    "policy weight negative": (
        lambda: evaluate_tabular(TabularMDP(HALF, FLAT, horizon=2), [[0, 0], [[-0.5, 1.5], [1, 0]]]),
        "the policy of stage 1 must be (2,) actions or (2, 2) probabilities",
    ),
    "policy shape": (
        lambda: evaluate_tabular(TabularMDP(HALF, FLAT, horizon=2), [[0, 0, 0], [0, 0]]),
        "the policy of stage 0 must be (2,) actions or (2, 2) probabilities",
    ),
    "not a table": (lambda: solve_tabular(grid([2])), "expected a tabular MDP, got Grid"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_sentence(case):
    wrong, sentence = BAD[case]
    with pytest.raises(BadInput) as info:
        wrong()
    assert str(info.value) == sentence


def test_rows_may_miss_one_by_rounding_only():
    near, far = changed(HALF, (0, 0, 0), 0.5 + 5e-10), changed(HALF, (0, 0, 0), 0.5 + 5e-9)
    TabularMDP(near, FLAT, horizon=1)
    with pytest.raises(BadInput):
        TabularMDP(far, FLAT, horizon=1)
