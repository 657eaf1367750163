"""Many states as one array, and back."""

import numpy as np
import pytest

import tensorplan as tp
from tensorplan.core import END
from tensorplan.problems.states import pack, unpack


@pytest.mark.parametrize(
    ("states", "shape", "kind"),
    [
        ([3, 0, -7], (3,), "i"),
        ([0.5, 2, -1.0], (3,), "f"),
        ([(1, 2), (0, 5)], (2, 2), "i"),
        ([(1, 2.5, 0)], (1, 3), "f"),
        ([(4,), (5,)], (2, 1), "i"),
        ([np.int64(3), np.int32(4)], (2,), "i"),
        ([(np.float32(0.5), 1)], (1, 2), "f"),
    ],
)
def test_states_return_as_they_were(states, shape, kind):
    array = pack(states)
    assert (array.shape, array.dtype.kind) == (shape, kind)
    back = unpack(array)
    assert back == states
    assert [hash(state) for state in back] == [hash(state) for state in states]
    numbers = [x for state in back for x in (state if isinstance(state, tuple) else (state,))]
    assert {type(x) for x in numbers} <= {int, float}


@pytest.mark.parametrize("mdp", ["american-put/6", "queue-admission/4", "layered-stochastic/2x3"])
def test_unpacked_states_are_those_of_step(mdp):
    task, rng = tp.make(mdp), np.random.default_rng(0)
    state = task.mdp.start(rng)
    _, following = task.mdp.step(state, 0, rng)
    assert unpack(pack([state, following])) == [state, following]
    assert {following} == {unpack(pack([following]))[0]}


@pytest.mark.parametrize(
    "states",
    [["a", "b"], [(1, 2), (3,)], [(1, 2), 3], [[1, 2], [3, 4]], [END], [None], [((1, 2), (3, 4))], [2**70], [1j]],
    ids=str,
)
def test_other_states_are_refused(states):
    with pytest.raises(
        tp.ProblemError, match="many states at once must be numbers, or tuples of numbers of one length"
    ):
        pack(states)
