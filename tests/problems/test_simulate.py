"""Checked calls of step_many: what is wrong with a result is said, with the pair to blame."""

import numpy as np
import pytest
from helpers import Walk, problem

import tensorplan as tp
from tensorplan.problems.simulate import draw_many

STATES, ACTIONS, NOISE = np.arange(4), np.array([0, 1, 0, 1]), np.zeros((4, 1))
GOOD = (np.full(4, 0.5), np.arange(4) + 1, np.array([False, True, False, False]))


class Many(Walk):
    """A simulator whose step_many answers with what it is given, or calls it."""

    def __init__(self, answer, horizon=5):
        super().__init__(horizon=horizon)
        self.answer = answer

    def draw_noise(self, n, rng):
        return rng.random((n, 1))

    def step_many(self, states, actions, noise):
        return self.answer() if callable(self.answer) else self.answer


def drawn(answer, stage=0, **options):
    return draw_many(problem(Many(answer), **options), STATES, stage, ACTIONS, NOISE)


def test_a_good_result_is_passed_on():
    assert isinstance(Many(GOOD), tp.Batched)
    assert not isinstance(Walk(), tp.Batched)
    for answer in (GOOD, [part.tolist() for part in GOOD]):
        for part, expected in zip(drawn(answer), GOOD, strict=True):
            assert part.dtype == expected.dtype
            assert part.tolist() == expected.tolist()


def test_all_end_at_the_last_stage():
    assert drawn(GOOD, stage=3)[2].tolist() == [False, True, False, False]
    assert drawn(GOOD, stage=4)[2].all()
    endless = problem(Many(GOOD, horizon=None))
    assert draw_many(endless, STATES, 0, ACTIONS, NOISE)[2].tolist() == [False, True, False, False]


def altered(place, part):
    return tuple(part if i == place else whole for i, whole in enumerate(GOOD))


@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (GOOD[:2], r"step_many\(4 states\) at stage 0 must return \(rewards, next states, ended\), got 2 values"),
        (None, r"step_many\(4 states\) at stage 0 must return \(rewards, next states, ended\), got None"),
        (altered(0, np.zeros(3)), r"of the shapes \(3,\), \(4,\), \(4,\), for states of shape \(4,\)"),
        (altered(0, np.zeros((4, 1))), r"of the shapes \(4, 1\), \(4,\), \(4,\)"),
        (altered(1, np.zeros((4, 1))), r"of the shapes \(4,\), \(4, 1\), \(4,\)"),
        (altered(2, np.zeros(5, dtype=bool)), r"of the shapes \(4,\), \(4,\), \(5,\)"),
        (altered(2, np.zeros(4)), "of the types float64, int64 and float64, not numbers and bool"),
        (altered(1, np.array(["a"] * 4)), "not numbers and bool"),
        (altered(0, np.array([None] * 4)), "not numbers and bool"),
        (altered(0, [0, 0, 7, 8]), r"step\(state=2, action=0\) at stage 0 gave the reward 7.0, which is outside of"),
        (altered(0, [0, 0, -1e-9, 0]), r"step\(state=2, action=0\) at stage 0 gave the reward -1e-09"),
        (
            altered(0, [0, np.nan, 7, 0]),
            r"step\(state=1, action=1\) at stage 0 gave the reward nan, which is not a num",
        ),
        (altered(0, [0, 0, 0, np.inf]), r"step\(state=3, action=1\) at stage 0 gave the reward inf"),
        (altered(1, [0, np.nan, 1, np.inf]), "gave the next state inf"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said(answer, complaint):
    with pytest.raises(tp.ProblemError, match=complaint):
        drawn(answer)


def test_what_stands_where_a_pair_ended_does_not_matter():
    assert drawn(altered(1, [0, np.nan, 1, 2]))[2].tolist() == [False, True, False, False]


def test_rounding_is_forgiven_and_put_right():
    assert drawn(altered(0, [-1e-17, 1 + 1e-15, 0.5, 1]))[0].tolist() == [0.0, 1.0, 0.5, 1.0]
    single = np.array([1 + 2e-7, 0, 0, 0], dtype=np.float32)
    assert drawn(altered(0, single))[0].tolist() == [1.0, 0.0, 0.0, 0.0]
    with pytest.raises(tp.ProblemError, match=r"gave the reward 1\.0000002"):
        drawn(altered(0, [1 + 2e-7, 0, 0, 0]))


def test_a_call_that_raises_is_retried():
    calls = []

    def unsteady():
        calls.append(1)
        if len(calls) % 3:
            raise OSError("no answer")
        return GOOD

    assert drawn(unsteady, retries=2)[0].tolist() == GOOD[0].tolist()
    with pytest.raises(tp.ProblemError, match=r"step_many\(4 states\) at stage 0 raised OSError: no answer \(tried 2"):
        drawn(unsteady, retries=1)


def test_no_pairs_are_no_error():
    none = np.zeros(0, dtype=int)
    answer = (np.zeros(0), none, np.zeros(0, dtype=bool))
    assert len(draw_many(problem(Many(answer)), none, 0, none, np.zeros((0, 1)))[0]) == 0


def test_arrays_of_jax_are_taken():
    jnp = pytest.importorskip("jax.numpy")
    rewards, following, ended = drawn(tuple(jnp.asarray(part) for part in GOOD))
    assert all(type(part) is np.ndarray for part in (rewards, following, ended))
    assert (rewards.dtype, ended.dtype) == (np.float64, np.bool_)
    assert following.tolist() == GOOD[1].tolist()
