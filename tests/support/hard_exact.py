"""The hard MDPs in exact arithmetic: what the paper claims of them, at every state, unreachable ones included."""

from __future__ import annotations

import dataclasses
import functools
from fractions import Fraction

import numpy as np

from tensorplan.core import END
from tensorplan.problems.hard.hypercube import distance, is_secret, to_signs
from tensorplan.problems.hard.mdp import HardMDP


def secrets(p: int) -> list[int]:
    """W*."""
    return [w for w in range(1 << p) if is_secret(w, p)]


def backward_induction(mdp: HardMDP) -> tuple[dict, dict]:
    """v* and q* from the mean rewards and the transitions alone."""
    v, q = {END: Fraction(0)}, {}
    for layer in reversed(list(mdp.layers())):
        for s in layer:
            q[s] = [mdp.mean_reward(s, a) + v[mdp.next_state(s, a)] for a in range(mdp.p)]
            v[s] = max(q[s])
    return v, q


@functools.cache
def powers(secret: int, p: int) -> list[np.ndarray]:
    """1, w*, w*⊗w*, .., flat, whole numbers."""
    signs = to_signs(secret, p).astype(int).astype(object)
    tensors = [np.array([1], dtype=object)]
    for _ in range(4):
        tensors.append(np.multiply.outer(tensors[-1], signs).ravel())
    return tensors


def inner(feature, secret: int) -> Fraction:
    """<φ, θ*> entry by entry: w̄* = w*/√p is paired with vectors that have a factor √p, so both drop it."""
    return feature.prefix * unit_inner(dataclasses.replace(feature, prefix=Fraction(1)), secret)


@functools.cache
def unit_inner(feature, secret: int) -> Fraction:
    """The same without the prefix, which many states differ in only."""
    return sum(t @ w for t, w in zip(feature.tensors(1), powers(secret, feature.p), strict=True))


def broken_claims(mdp: HardMDP) -> set[str]:
    """Which of the paper's claims fail somewhere in this MDP (with number=Fraction)."""
    v, q = backward_induction(mdp)
    other = type(mdp)(mdp.p, mdp.K, (1 << mdp.p) - 1 - mdp.secret, mdp.kind, number=Fraction)
    broken = set()
    for s in v.keys() - {END}:
        rows = mdp.action_features(s)
        if (mdp.kind == "v" or mdp.reachable(s)) and inner(mdp.features(s), mdp.secret) != v[s]:
            broken.add("phi_v realizes v*")
        if (mdp.kind == "q" or mdp.reachable(s)) and [inner(f, mdp.secret) for f in rows] != q[s]:
            broken.add("phi_q realizes q*")
        if (mdp.features(s), rows) != (other.features(s), other.action_features(s)):
            broken.add("features do not know the secret")
        action = mdp.policy(s)
        if action is None or q[s][action] != v[s]:
            broken.add("the policy is optimal")
        if [mdp.value(s), *(mdp.action_value(s, a) for a in range(mdp.p))] != [v[s], *q[s]]:
            broken.add("the closed forms are the optimal values")
        if not all(0 <= mdp.mean_reward(s, a) <= 1 for a in range(mdp.p)):
            broken.add("rewards are in [0, 1]")
        if s.step == mdp.p - 1:
            ends = [mdp.successor(s, a) for a in range(mdp.p)]
            if any(4 * distance(s.last, end.last) < mdp.p for end in ends if end is not END):
                broken.add("rounds end far from where they start")
    return broken
