"""Wrappers lose nothing that an MDP declares."""

import numpy as np
import pytest
from helpers import Walk

import tensorplan as tp
from tensorplan.core import DECLARATIONS
from tensorplan.parallel.replicas import ReplicatedMDP
from tensorplan.problems.transforms.forwarding import Forwarding
from tensorplan.problems.transforms.tail import tail


class Prize(Walk):
    """Everything that can be declared, nothing at its default."""

    horizon = 5
    actions = 4
    reward_range = (-1.0, 2.0)
    return_range = (-1.5, 2.5)
    deterministic_transitions = True
    deterministic_rewards = True


def prize(**options):
    phi_q = lambda state, stage: np.full((4, 2), 0.5)  # noqa: E731
    return tp.Problem(Prize(), phi_q=phi_q, bound=3.0, name="prize", retries=2, **options)


def test_everything_is_forwarded():
    for mdp in (Prize(), ReplicatedMDP(Prize, workers=1)):
        wrapped = Forwarding(mdp)
        assert {name: getattr(wrapped, name) for name in DECLARATIONS} == {n: getattr(Prize, n) for n in DECLARATIONS}
    bare = Forwarding(Walk())
    assert (bare.reward_range, bare.return_range, bare.deterministic_rewards) == ((0.0, 1.0), None, False)


@pytest.mark.parametrize(
    ("made", "horizon"), [(tp.delayed, 6), (tp.binarize, 10), (lambda problem: tail(problem, 0, 2), 3)]
)
def test_problems_made_of_problems_keep_what_was_declared(made, horizon):
    problem = made(prize())
    assert problem.horizon == horizon
    assert problem.declared_returns == (-1.5, 2.5)
    assert problem.return_range() == (-1.5, 2.5)
    assert problem.deterministic
    assert problem.retries == 2


def test_delayed_access_knows_the_range_of_returns():
    problem = prize()
    access = tp.DelayedAccess(tp.LocalAccess(problem, 0, np.random.default_rng(0)))
    assert [access.return_range(h) for h in (0, 1, 5)] == [(-1.5, 2.5), (-1.5, 2.5), (-1.0, 2.0)]
    plain = tp.delayed(problem)
    assert all(access.return_range(h) == plain.return_range(h) for h in range(1, 6))
