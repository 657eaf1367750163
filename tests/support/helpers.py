"""Small problems that misbehave on request."""

from __future__ import annotations

import numpy as np

import tensorplan as tp
from tensorplan.problems.transforms.forwarding import Forwarding


def rng(*seed):
    """The generator of these numbers: another for each draw that has to be repeated by itself."""
    return np.random.default_rng(seed or 0)


class Hidden(Forwarding):
    """A table behind a plain simulator: nobody can look at it."""

    def start(self, rng):
        return self.mdp.start(rng)

    def step(self, state, action, rng):
        return self.mdp.step(state, action, rng)

    def step_batch(self, state, action, n, rng):
        return self.mdp.step_batch(state, action, n, rng)


class Walk:
    """States 0, 1, 2, ..: action 1 goes on, action 0 stays; the reward is 0.5; a coin may send it to END."""

    horizon = 6
    actions = 2

    def __init__(self, **attributes):
        vars(self).update(attributes)

    def start(self, rng):
        return 0

    def step(self, state, action, rng):
        return 0.5, state + action


def problem(mdp=None, phi_v=lambda state, stage: np.array([1.0, 0.0]), **options):
    options = {"bound": 1.0, "name": "walk"} | options
    return tp.Problem(mdp if mdp is not None else Walk(), phi_v, **options)


def local(task, seed=0, **options):
    rng = np.random.default_rng(seed)
    return tp.LocalAccess(task, task.mdp.start(rng), rng, **options)


class Coins(Walk):
    """Moves with a coin; counts the calls of ``step``, and may raise at one of them."""

    horizon, calls, raises = 5, 0, (-1, KeyboardInterrupt)

    def step(self, state, action, rng):
        self.calls += 1
        if self.calls == self.raises[0]:
            raise self.raises[1]
        return 0.5 * action + 0.25 * rng.random(), state + int(rng.integers(2))
