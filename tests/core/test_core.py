import copy
import math
import pickle

import numpy as np
import pytest
from helpers import Walk, problem

import tensorplan as tp


def test_end_is_one_object_for_ever():
    assert copy.copy(tp.END) is tp.END
    assert copy.deepcopy([tp.END])[0] is tp.END
    assert pickle.loads(pickle.dumps(tp.END)) is tp.END
    assert repr(tp.END) == "END"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"phi_v": None}, "neither feature map was given"),
        ({"bound": 0.0}, "the bound B must be a positive number, got 0.0"),
        ({"bound": -1}, "got -1"),
        ({"bound": math.nan}, "got nan"),
        ({"bound": "2"}, "got '2'"),
        ({"mdp": Walk(horizon=0)}, "the horizon must be a positive whole number or None, got 0"),
        ({"mdp": Walk(horizon=-3)}, "got -3"),
        ({"mdp": Walk(horizon=2.5)}, "got 2.5"),
        ({"mdp": Walk(actions=0)}, "the number of actions must be a positive whole number, got 0"),
        ({"mdp": Walk(reward_range=(1, 0))}, "reward_range must be two finite numbers"),
        ({"mdp": Walk(reward_range=None)}, "reward_range must be two finite numbers"),
        ({"mdp": object()}, "the MDP has no 'horizon'"),
    ],
)
def test_a_problem_that_makes_no_sense_is_refused(options, sentence):
    with pytest.raises(tp.ProblemError, match="problem 'walk'") as error:
        problem(**options)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_the_bound_has_no_default():
    with pytest.raises(tp.ProblemError, match="bound"):
        tp.Problem(Walk(), phi_v=lambda s, h: np.ones(1))


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ([1.0, 0.0, 0.0], r"phi_v(state=3, stage=2) has shape (3,), expected (2,)"),
        ([math.nan, 0.0], "phi_v(state=3, stage=2) contains nan"),
        ([0.0, math.inf], "phi_v(state=3, stage=2) contains inf"),
        ([1.0, 1e-4], "phi_v(state=3, stage=2) has norm 1.000000005, which is above 1"),
        (["a", "b"], "phi_v(state=3, stage=2) did not give an array of numbers"),
    ],
)
def test_a_bad_state_feature_is_named(value, sentence):
    task = problem(phi_v=lambda state, stage: value if state == 3 else [1.0, 0.0])
    with pytest.raises(tp.ProblemError) as error:
        task.state_features(3, 2)
    assert sentence in str(error.value)


def test_a_norm_within_rounding_of_one_is_accepted():
    task = problem(phi_v=lambda state, stage: [1.0 + 9e-10, 0.0])
    assert task.state_features(0, 0).shape == (2,)


def test_a_bad_action_feature_is_named_with_its_action():
    def phi_q(state, stage):
        features = np.zeros((2, 3))
        features[1, 0] = 2.0 if state == 3 else 0.0
        return features

    task = problem(phi_v=None, phi_q=phi_q)
    assert task.action_features(0, 0).shape == (2, 3)
    with pytest.raises(tp.ProblemError, match=r"phi_q\(state=3, stage=1\) for action 1 has norm 2, which is above 1"):
        task.action_features(3, 1)


def test_a_feature_map_that_raises_is_named():
    task = problem(phi_v=lambda state, stage: [1.0, 0.0] if state != 3 else 1 / 0)
    with pytest.raises(tp.ProblemError, match=r"phi_v\(state=3, stage=0\) raised ZeroDivisionError"):
        task.state_features(3, 0)


def test_both_maps_must_have_one_dimension():
    task = problem(phi_q=lambda state, stage: np.zeros((2, 5)))
    with pytest.raises(tp.ProblemError, match=r"phi_q.* has shape \(2, 5\), expected \(2, 2\)"):
        task.action_features(0, 0)


def test_features_at_end_are_zero_and_never_asked_for():
    def phi_v(state, stage):
        assert state is not tp.END
        return [1.0, 0.0]

    task = problem(phi_v=phi_v, phi_q=lambda state, stage: np.zeros((2, 2)))
    assert (task.state_features(tp.END, 6) == 0).all()
    assert (task.action_features(tp.END, 6) == np.zeros((2, 2))).all()


def test_features_handed_out_cannot_be_written_to():
    with pytest.raises(ValueError, match="read-only"):
        problem().state_features(0, 0)[0] = 5.0


def test_return_range_counts_early_end():
    assert problem(Walk(reward_range=(0.25, 1.0))).return_range() == (0.0, 6.0)
    assert problem(Walk(reward_range=(-2.0, -1.0))).return_range(2) == (-8.0, 0.0)
    assert problem(Walk(reward_range=(-1.0, 0.0), horizon=None)).return_range() == (-math.inf, 0.0)


def test_public_names_are_all_there():
    for name in tp.__all__:
        assert getattr(tp, name) is not None
    assert set(tp.__all__) <= set(dir(tp))
    with pytest.raises(AttributeError, match="has no attribute 'TensorPlam'"):
        _ = tp.TensorPlam
