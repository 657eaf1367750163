import numpy as np
import pytest
from helpers import problem

import tensorplan as tp


def everywhere(task):
    rng = np.random.default_rng(0)
    return tp.GlobalAccess(task, task.mdp.start(rng), rng)


def test_any_state_may_be_asked_and_features_are_free():
    task = tp.make("layered/2x3:states=5:horizon=3")
    access = everywhere(task)
    nodes = [node for stage in range(3) for node in access.states(stage)]
    assert [node.key for node in nodes] == list(range(15))
    values = [node.phi_v @ task.theta for node in nodes]
    assert np.allclose(values, [task.optimal_value(s, s // 5) for s in range(15)])
    assert access.spent == 0
    access.query(nodes[12], 1)
    assert access.spent == 1


def test_a_problem_that_cannot_list_its_states_says_so():
    with pytest.raises(tp.Refused, match="problem 'walk' cannot list its states"):
        everywhere(problem()).states(0)


@pytest.mark.parametrize(("state", "stage"), [(tp.END, 0), (0, 6), (0, -1)])
def test_there_is_no_node_beyond_the_horizon(state, stage):
    with pytest.raises(tp.BadInput, match=r"there is no node for state .*: stages are 0 \.\. 5"):
        everywhere(problem()).node(state, stage)
