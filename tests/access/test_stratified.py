"""Stratified columns: right on average, accurate at once, and only where noise is uniform."""

import numpy as np

import tensorplan as tp
from tensorplan.access.batches import BatchAccess
from tensorplan.access.meter import Meter
from tensorplan.access.noise import Purpose


class Coin:
    """Pays 1 with probability 0.3, by one uniform number."""

    horizon = 1
    actions = 1
    uniforms = 1

    def start(self, rng):
        return 0

    def step(self, state, action, rng):
        return float(rng.random() < 0.3), tp.END

    def draw_noise(self, n, rng):
        return rng.random((n, 1))

    def step_many(self, states, actions, noise):
        return (noise[:, 0] < 0.3).astype(float), states, np.ones(len(states), dtype=bool)


class Secretive(Coin):
    """The same, but its noise might be anything."""

    uniforms = 0


def means(mdp, count=4000):
    problem = tp.Problem(mdp, lambda state, stage: np.ones(1), bound=1.0)
    access = BatchAccess(problem, Meter(), 0)
    ids, found = np.array([access.number(0)]), []
    for scenario in range(count):
        rewards, _ = access.steps(ids, 0, access.columns(Purpose.TEST, scenario, 0, 9, 8))
        found.append((rewards[0, 0, 0], rewards[0, 0, 1:].mean()))
    return np.array(found)


def test_stratified_means_are_unbiased_and_accurate():
    found = means(Coin())
    # 4,000 means of 8: a false alarm at 5 standard errors has probability 6e-7; a bias of 0.02 is always seen
    assert abs(found[:, 1].mean() - 0.3) < 5 * np.sqrt(0.3 * 0.7 / 8 / 4000)
    assert np.ptp(found[:, 1]) <= 1 / 8 + 1e-12  # the mean of 8 strata is 2/8 or 3/8
    assert found[:, 0].std() > 0.4  # the column that moves is not stratified
    assert abs(np.corrcoef(found.T)[0, 1]) < 0.08  # 5 standard errors: independent of the others


def test_other_noise_is_left_alone():
    assert np.ptp(means(Secretive(), 400)[:, 1]) > 0.5


def test_tables_and_the_inventory_declare_uniform_noise():
    assert tp.make("queue-admission/5").mdp.uniforms == 1
    assert tp.make("lost-sales/2").mdp.uniforms == 1
    assert tp.TabularMDP(np.ones((1, 1, 1)), np.ones((1, 1)) / 2, horizon=1, noise=True).uniforms == 2
