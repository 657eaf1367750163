"""Steps of many states at once against single steps."""

from __future__ import annotations

import numpy as np
import pytest
from test_hard import random_state

from tensorplan.core import END
from tensorplan.core.errors import BadInput
from tensorplan.problems.hard.batch import HardBatch
from tensorplan.problems.hard.mdp import HardMDP


@pytest.mark.parametrize("noise", [True, False])
@pytest.mark.parametrize("kind", ["v", "q"])
@pytest.mark.parametrize("p", [2, 5, 16, 64, 65, 128])
def test_many_states_move_as_one_does(p, kind, noise):
    mdp, rng = HardMDP(p, 4, kind=kind, noise=noise), np.random.default_rng(p)
    states = [random_state(mdp, rng) for _ in range(50)]
    batch = HardBatch(mdp, states)
    assert batch.states() == states
    assert any(not mdp.reachable(s) for s in states)
    one, many = np.random.default_rng(7), np.random.default_rng(7)  # both draw where chance has a say, in order
    rewarded = 0
    for _ in range(2 * p):
        greedy = rng.random(len(states)) < 0.8
        actions = [mdp.policy(s) if g else int(rng.integers(p)) for s, g in zip(states, greedy, strict=True)]
        steps = [(0.0, END) if s is END else mdp.step(s, a, one) for s, a in zip(states, actions, strict=True)]
        rewards = batch.step(actions, many)
        states = [following for _, following in steps]
        assert rewards == pytest.approx([reward for reward, _ in steps], rel=1e-12)
        assert batch.states() == states
        assert batch.ended.tolist() == [s is END for s in states]
        rewarded += np.count_nonzero(rewards)
    assert rewarded > 5
    assert one.random() == many.random()


def test_an_empty_batch_and_bad_actions():
    mdp, rng = HardMDP(4, 2), np.random.default_rng(0)
    assert HardBatch(mdp, []).step(np.zeros(0, dtype=int), rng).shape == (0,)
    batch = HardBatch(mdp, [mdp.root] * 3)
    for actions, sentence in [
        ([0, 1], "actions must be 3 whole numbers, got shape (2,) of int64"),
        ([0.0, 1.0, 2.0], "actions must be 3 whole numbers, got shape (3,) of float64"),
        ([0, 4, 1], "actions must be from 0 to 3, got 0 to 4"),
        ([0, -1, 1], "actions must be from 0 to 3, got -1 to 1"),
    ]:
        with pytest.raises(BadInput) as info:
            batch.step(actions, rng)
        assert str(info.value) == sentence
    assert batch.states() == [mdp.root] * 3
