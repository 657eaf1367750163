"""Processes on [0, 1] whose v* is no polynomial, without and with chance."""

import math

import numpy as np

import tensorplan as tp


class Line:
    """Two contractions of [0, 1]: 2^h states at stage h, and v* is no polynomial."""

    horizon, actions = 7, 2
    deterministic_transitions = deterministic_rewards = True

    def start(self, rng):
        return 0.25

    def step(self, state, action, rng):
        return abs(state - 0.5), 0.7 * state if action else 1 - 0.9 * state


class Scattered(Line):
    """The same from a random start."""

    def start(self, rng):
        return rng.random()


class Noisy(Line):
    """Rewards are coins, and the action is not always heard."""

    horizon = 3
    deterministic_transitions = deterministic_rewards = False

    def step(self, state, action, rng):
        heard = action if rng.random() < 0.8 else 1 - action
        return float(rng.random() < abs(state - 0.5)), 0.7 * state if heard else 1 - 0.9 * state


def line(mdp=None, degree=2, bound=20.0, **options):
    def phi(state, stage):
        return np.array([state**k for k in range(degree + 1)]) / math.sqrt(degree + 1)

    return tp.Problem(mdp or Line(), phi, bound=bound, name="line", **options)


def states_of(stage):
    states = [0.25]
    for _ in range(stage):
        states = [following for s in states for following in (0.7 * s, 1 - 0.9 * s)]
    return states
