"""The claims of the lower bound about the hard MDPs, in exact arithmetic.

If the tree is small enough, every state is checked, in M^v and M^q, for the secret of the seed and for one secret with
each other number of components -1 (the rest are equal up to renaming components), and v* and q* come from backward
induction on the simulator.  w̄* = w*/√p is irrational; it is paired with vectors that have a factor √p, so both drop it
and every inner product is a fraction (:meth:`HardFeature.tensors`).

Otherwise random states are checked, still in fractions: v* and q* are one step of the simulator from the closed form,
and near the end the closed form is compared with backward induction on classes of states.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import End
from tensorplan.core.specs import whole
from tensorplan.paper.verify.claims import BELLMAN, BLIND, FORMULAS, STATES, Claims, Number, Progress, Verification
from tensorplan.problems.hard.features import (
    DENSE_LIMIT,
    HardFeature,
    paper_dimension,
    paper_theta,
    reduced_dimension,
    reduced_theta,
)
from tensorplan.problems.hard.hypercube import distance, is_close, is_secret, to_signs
from tensorplan.problems.hard.mdp import HardMDP
from tensorplan.problems.hard.tree import HardState, HardTree

EXHAUSTIVE = 2_000_000
"""The most entries of features, states times d, for an exhaustive check."""
LOOKAHEAD = 64
"""The most steps before the end from which sampled states are solved by backward induction."""
CLASSES = 60_000
"""Backward induction takes no further sampled state once it has solved so many classes of states."""
WRITTEN = 3
"""Sampled features that are written out, in floating point."""
NORM = Fraction(69, 100)
"""‖φ‖ without the paper's division by 63."""

PHI_V = "phi_v realizes v* of M^v everywhere"
PHI_Q = "phi_q realizes q* of M^q everywhere"
REACH = "both maps realize both on reachable states"
FORMS = "the forms of the features are one function"
NORMS = "features have norm <= 0.69, reduced ones <= 1"
THETA = "theta* has norm sqrt 5, reduced sqrt d"
POLICY = "the policy of the secret is optimal"
REWARDS = "mean rewards are in [0, 1]"
LOST = "unreachable states cannot be reached"
FAR = "rounds end far from where they start"
CLAIMS = (PHI_V, PHI_Q, REACH, FORMS, NORMS, THETA, POLICY, REWARDS, BLIND, BELLMAN, LOST, FORMULAS, FAR)


def verify_hard(
    make_mdp: Callable[..., HardMDP],
    p: int,
    K: int,
    *,
    secret: Any = None,
    seed: int = 0,
    states: int = STATES,
    progress: Progress | None = None,
    exhaustive: int = EXHAUSTIVE,
) -> Verification:
    """Check the claims of section 4 for hard MDPs built like :class:`HardMDP`."""
    states = whole("states", states, 1)
    first = make_mdp(p, K, secret, "v", number=Fraction, seed=seed)
    p, K = first.p, first.K
    tree = _small_tree(first, exhaustive)
    if tree is None:
        found = _sample(first, states, np.random.default_rng([seed, 1]))
        secrets = [first.secret]
    else:
        found = [s for layer in tree for s in layer]
        ones = first.secret.bit_count()
        others = ((1 << m) - 1 for m in range(p + 1) if m != ones)
        secrets = [first.secret, *(w for w in others if is_secret(w, p))]

    claims = Claims(CLAIMS, progress)
    claims.total = 2 * len(secrets) * len(found)
    for w in secrets:
        for kind in ("v", "q"):
            mdp = make_mdp(p, K, w, kind, number=Fraction)
            other = make_mdp(p, K, (1 << p) - 1 - w, kind, number=Fraction)
            solved = {} if tree is None else _backward_induction(mdp, tree)
            for s in claims.tour(found, partial(_place, mdp)):
                _check_state(claims, mdp, s, solved.get(s))
                claims.true(BLIND, _features(mdp, s) == _features(other, s))
            if tree is None:
                _check_near_the_end(claims, mdp, found)
                _check_written(claims, mdp, found[:: -(-len(found) // WRITTEN)])
            _check_theta(claims, mdp)
    method = "sampled" if tree is None else "exhaustive, exact fractions"
    return Verification(f"hard/{p}x{K}", method, len(found), len(secrets), claims.checks())


def _check_state(claims: Claims, mdp: HardMDP, s: HardState, solved: list[Number] | None) -> None:
    """Check the claims about one state; ``solved`` is its q* from backward induction, if there is one."""
    actions = range(mdp.p)
    means = [mdp.mean_reward(s, a) for a in actions]
    following = [mdp.next_state(s, a) for a in actions]
    claims.bound(REWARDS, max(means), all(0 <= mean <= 1 for mean in means))

    ahead = [mean + _value(mdp, t) for mean, t in zip(means, following, strict=True)]
    claims.equal(BELLMAN, [mdp.value(s)], [max(ahead)])
    q = ahead if solved is None else solved
    v = max(q)
    if solved is not None:
        claims.equal(FORMULAS, [mdp.value(s), *(mdp.action_value(s, a) for a in actions)], [v, *q])
    action = mdp.policy(s)
    claims.equal(POLICY, [q[action] if action in actions else -math.inf], [v])
    if s.step == 0:
        claims.equal(POLICY, [_return(mdp, s)], [v])

    phi, rows = _features(mdp, s)
    inner = _structured if solved is None else _entrywise
    realized_v, realized_q = [inner(phi, mdp.secret)], [inner(row, mdp.secret) for row in rows]
    if mdp.kind == "v":
        claims.equal(PHI_V, realized_v, [v])
    else:
        claims.equal(PHI_Q, realized_q, q)
    if mdp.reachable(s):
        claims.equal(REACH, realized_v + realized_q, [v, *q])
        claims.true(LOST, all(isinstance(t, End) or mdp.reachable(t) for t in following))
    square = max(f.prefix**2 * _unit_square(_unit(f)) for f in (phi, *rows))
    claims.bound(NORMS, math.sqrt(square), square <= NORM**2)
    if solved is not None:
        entries, reduced = _unit_squares(unit := _unit(phi))
        values = [phi.value(mdp.secret), phi.prefix * _unit_reduced(unit, mdp.secret)]
        claims.equal(FORMS, [*values, phi.dot(phi)], [*realized_v, *realized_v, phi.prefix**2 * entries])
        claims.bound(NORMS, phi.prefix * math.sqrt(reduced), phi.prefix**2 * reduced <= 1)

    if s.step == mdp.p - 1:
        ends = [t for a in actions if isinstance(t := mdp.successor(s, a), HardState)]
        claims.true(FAR, not any(is_close(distance(s.last, t.last), mdp.p) for t in ends))


def _check_near_the_end(claims: Claims, mdp: HardMDP, found: Iterable[HardState]) -> None:
    """Compare closed forms with backward induction, from the earliest sampled state in reach and then the latest."""
    solve = _Classes(mdp)
    late = sorted((s for s in found if mdp.horizon - _stage(mdp, s) <= LOOKAHEAD), key=partial(_stage, mdp))
    for s in (*late[:1], *late[:0:-1]):
        if len(solve.values) < CLASSES:
            claims.at(partial(_place, mdp, s))
            q = [mdp.mean_reward(s, a) + solve(mdp.next_state(s, a)) for a in range(mdp.p)]
            closed = [mdp.value(s), *(mdp.action_value(s, a) for a in range(mdp.p))]
            claims.equal(FORMULAS, [*closed, mdp.value(s)], [max(q), *q, solve(s)])
    claims.more[FORMULAS] = f"backward induction through up to {len(solve.values):,} classes of states"


def _check_written(claims: Claims, mdp: HardMDP, found: Iterable[HardState]) -> None:
    """Check features written out, in floating point and without the prefix, if they are short enough."""
    p = mdp.p
    if reduced_dimension(p) > DENSE_LIMIT:
        claims.beyond.add(FORMS)
        return
    for s in found:
        claims.at(partial(_place, mdp, s))
        phi = replace(mdp.features(s), prefix=1.0)
        reduced = phi.reduced()
        claims.near(FORMS, float(reduced @ reduced_theta(mdp.secret, p)), phi.value(mdp.secret))
        norm = float(np.linalg.norm(reduced))
        claims.bound(NORMS, norm, norm <= 1)
        if paper_dimension(p) <= DENSE_LIMIT:
            dense = phi.dense()
            claims.near(FORMS, float(dense @ paper_theta(mdp.secret, p)), phi.value(mdp.secret))
            claims.near(FORMS, float(np.linalg.norm(dense)), phi.norm())


def _check_theta(claims: Claims, mdp: HardMDP) -> None:
    """Check the norm of θ*; that of 1, w̄*, w̄*⊗w̄*, .. if it is too long to write out."""
    claims.at(partial(_place, mdp))
    secret, p = mdp.secret, mdp.p
    if paper_dimension(p) <= DENSE_LIMIT:
        claims.near(THETA, float(np.linalg.norm(paper_theta(secret, p))), math.sqrt(5))
    else:
        unit = Fraction(int(to_signs(secret, p) @ to_signs(secret, p)), p)
        claims.equal(THETA, [sum(unit**m for m in range(5))], [5])
    if reduced_dimension(p) <= DENSE_LIMIT:
        reduced = reduced_theta(secret, p)
        claims.equal(THETA, [int(reduced @ reduced)], [reduced_dimension(p)])


# ------------------------------------------------------------------------------------- states and their values


def _small_tree(tree: HardTree, entries: int) -> list[list[HardState]] | None:
    """All states by stage, None if their features have too many entries together."""
    layers: list[list[HardState]] = []
    left = entries // paper_dimension(tree.p)
    for layer in tree.layers() if left else ():
        left -= len(layer)
        if left < 0:
            return None
        layers.append(layer)
    return layers or None


def _sample(mdp: HardMDP, states: int, rng: np.random.Generator) -> list[HardState]:
    """Different states on random walks in the tree, those after finding the secret included."""
    found: dict[HardState, None] = {mdp.root: None}
    for _ in range(states):  # a small tree may have no new states
        stages = _stages(mdp, rng)
        seen = [s for s in _walk(mdp, rng) if _stage(mdp, s) in stages]
        found.update((seen[i], None) for i in rng.permutation(len(seen)))
        if len(found) >= states:
            break
    return list(found)[:states]


def _stages(mdp: HardMDP, rng: np.random.Generator) -> set[int]:
    """The stages to check on a walk: anywhere, near the end, and at the steps of a round where the rules change."""
    anywhere = rng.integers(mdp.horizon, size=10)
    late = mdp.horizon - 1 - rng.integers(min(LOOKAHEAD, mdp.horizon), size=10)
    special = np.array([0, 1, mdp.critical - 1, mdp.critical, mdp.p - 1])
    return {int(h) for h in (*anywhere, *late, *(mdp.p * rng.integers(mdp.K, size=5) + special))}


def _walk(mdp: HardMDP, rng: np.random.Generator) -> Iterator[HardState]:
    """An episode of legal actions; each round aims at the secret or not, and freezes early, late or never."""
    state: HardState | End = mdp.root
    everything = (1 << mdp.p) - 1
    for _ in range(mdp.horizon):
        if isinstance(state, End):
            return
        yield state
        if state.step == 0:
            goal, haste = rng.random() < 0.5, rng.choice([0, 1, 8]) / mdp.p
        free = everything & ~state.fixed
        wrong = free & (state.weights ^ mdp.secret)
        wanted = wrong if goal and wrong else free
        may_repeat = state.step >= mdp.critical
        if may_repeat and (not wanted or (goal and not wrong) or rng.random() < haste):
            wanted = state.fixed
        bits = [a for a in range(mdp.p) if wanted >> a & 1]
        state = mdp.successor(state, bits[int(rng.integers(len(bits)))])


def _stage(mdp: HardMDP, s: HardState) -> int:
    return s.round * mdp.p + s.step


def _features(mdp: HardMDP, s: HardState) -> tuple[HardFeature, tuple[HardFeature, ...]]:
    return mdp.features(s), mdp.action_features(s)


def _value(mdp: HardMDP, state: Any) -> Number:
    """v* by the closed form."""
    return 0 if isinstance(state, End) else mdp.value(state)


def _return(mdp: HardMDP, state: Any) -> Number:
    """The expected return of π_{w*}."""
    total: Number = 0
    while not isinstance(state, End):
        action = mdp.policy(state)
        if action not in range(mdp.p):
            return -math.inf
        total += mdp.mean_reward(state, action)
        state = mdp.next_state(state, action)
    return total


def _backward_induction(mdp: HardMDP, layers: list[list[HardState]]) -> dict[HardState, list[Number]]:
    """q* from mean rewards and transitions alone."""
    q: dict[HardState, list[Number]] = {}
    for layer in reversed(layers):
        for s in layer:
            steps = [(mdp.mean_reward(s, a), mdp.next_state(s, a)) for a in range(mdp.p)]
            q[s] = [mean + (0 if isinstance(t, End) else max(q[t])) for mean, t in steps]
    return q


class _Classes:
    """v* from mean rewards and transitions, by classes of states that are equal up to renaming components.

    The prefix only multiplies the value.  The actions of a state have at most four classes too: their component is
    fixed or not, and wrong or not.
    """

    def __init__(self, mdp: HardMDP) -> None:
        self.mdp = mdp
        self.values: dict[tuple[int, ...], Number] = {}

    def __call__(self, s: HardState | End) -> Number:
        if isinstance(s, End):
            return Fraction(0)
        mdp, wrong = self.mdp, s.weights ^ self.mdp.secret
        fixed, distances = s.fixed.bit_count(), ((wrong & s.fixed).bit_count(), wrong.bit_count())
        key = (s.round, s.step, fixed, s.flips, distance(s.last, mdp.secret), *distances)
        if key not in self.values:
            unit, best = s._replace(prefix=Fraction(1)), Fraction(0)
            for a in {(s.fixed >> a & 1, wrong >> a & 1): a for a in range(mdp.p)}.values():
                best = max(best, mdp.mean_reward(unit, a) + self(mdp.next_state(unit, a)))
            self.values[key] = best
        return s.prefix * self.values[key]


def _structured(feature: HardFeature, secret: int) -> Number:
    """<φ, θ*> without writing φ out."""
    return feature.value(secret)


def _entrywise(feature: HardFeature, secret: int) -> Number:
    """<φ, θ*>, entry by entry of the paper's features."""
    return feature.prefix * _unit_entrywise(_unit(feature), secret)


def _unit(feature: HardFeature) -> HardFeature:
    """The feature without the prefix, in which many states differ only."""
    return replace(feature, prefix=Fraction(1))


@lru_cache(maxsize=100_000)
def _unit_entrywise(feature: HardFeature, secret: int) -> Number:
    return sum(t @ w for t, w in zip(feature.tensors(1), _powers(secret, feature.p), strict=True))


@lru_cache(maxsize=100_000)
def _unit_reduced(feature: HardFeature, secret: int) -> Number:
    """<φ, θ*> by the reduced features."""
    return feature.reduced() @ reduced_theta(secret, feature.p).astype(int)


@lru_cache(maxsize=100_000)
def _unit_square(feature: HardFeature) -> Number:
    """‖φ‖² of the structured features."""
    return feature.dot(feature)


@lru_cache(maxsize=100_000)
def _unit_squares(feature: HardFeature) -> tuple[Number, Number]:
    """‖φ‖² of the paper's features, whose tensors of order m lack a factor √p^m here, and of the reduced ones."""
    reduced = feature.reduced()
    return sum(feature.p**m * (t @ t) for m, t in enumerate(feature.tensors(1))), reduced @ reduced


@lru_cache(maxsize=64)
def _powers(secret: int, p: int) -> list[NDArray[Any]]:
    """1, w*, w*⊗w*, .., flat, whole numbers."""
    signs = to_signs(secret, p).astype(int).astype(object)
    tensors = [np.array([1], dtype=object)]
    for _ in range(4):
        tensors.append(np.multiply.outer(tensors[-1], signs).ravel())
    return tensors


def _place(mdp: HardMDP, s: HardState | None = None) -> str:
    secret = f"with the secret {mdp.secret:0{mdp.p}b}"
    if s is None:
        return secret
    return (
        f"in M^{mdp.kind} {secret} in round {s.round} at step {s.step}: "
        f"weights {s.weights:0{mdp.p}b}, fixed {s.fixed:0{mdp.p}b}"
    )
