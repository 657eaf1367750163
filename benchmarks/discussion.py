"""Two remarks of the paper's discussion, measured: constant gaps, and action binarization.

**Constant gaps.**  On :mod:`tensorplan.problems.hard.constant_gap` who learns from episodes alone gets to the last
stage, whose rewards tell the secret, with a probability that falls exponentially (:func:`survival`); the other way is
to try the actions, of which there are exponentially many.  A simulator makes it easy: repeat each step until it
succeeds, which takes four queries or fewer on average, and read as many rewards of the last stage as the vectors have
dimensions (:func:`read_the_end`), in expectation at most 4(H - 1) + d queries in all.

**Binarization.**  The sup-norm misspecification min_θ max_s |v*(s) - <φ(s), θ>| of candidate features
(:func:`tensorplan.problems.transforms.binarized.binarize`), over the states that can be reached (:func:`misfit`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tensorplan.access import LocalAccess
from tensorplan.core import Array, Node, Problem, State
from tensorplan.core.errors import BadInput, Refused
from tensorplan.core.specs import one_of, whole
from tensorplan.features.misfit import Fitter
from tensorplan.problems.hard.constant_gap import ConstantGapMDP
from tensorplan.problems.random.featurize import reachable
from tensorplan.problems.tables.reachable import WHOLE
from tensorplan.problems.tables.solution import exact_solution
from tensorplan.problems.tables.tabular import TabularMDP
from tensorplan.problems.transforms.binarized import MAPS, BinarizedMDP, binarize

SPAN = 1e-9
"""A vector shorter than this times its length, after projection, is in the span of the others."""


# ------------------------------------------------------------------------------------------- constant gaps


@dataclass(frozen=True)
class Survival:
    """The probabilities to be in a state other than f at stages 0 .. H-1, exactly computed."""

    best: tuple[float, ...]
    """Of the policy that is best at it, for each stage another one; at most (3/4)^h."""
    random: tuple[float, ...]
    """Of uniformly random actions."""

    @property
    def episodes(self) -> float:
        """Episodes until the last stage is reached once, on average, for the best policy."""
        return 1 / self.best[-1]


def survival(problem: Problem) -> Survival:
    """How probable it is, in an episode of a constant-gap problem, to reach each stage before f."""
    mdp = _constant_gap(problem)
    m = mdp.actions
    chances = mdp.units @ mdp.units.T + 0.5
    chances[np.arange(m), np.arange(m)] = 0.0
    chances[:, mdp.secret] = 0.0
    best, random = np.ones(m), np.ones(m)
    found = [(1.0, 1.0)]
    for _ in range(mdp.horizon - 1):
        best, random = (chances * best).max(axis=1), chances @ random / m
        found.append((float(best[0]), float(random[0])))
    return Survival(tuple(x for x, _ in found), tuple(x for _, x in found))


@dataclass(frozen=True)
class Reading:
    """What it took to know the optimal action of the start state, with local access to a simulator."""

    climb: int
    """Queries to get to the last stage."""
    read: int
    """Queries there."""
    action: int
    """The action found."""
    loss: float
    """v*(s0) - q*(s0, action)."""

    @property
    def queries(self) -> int:
        """All of them."""
        return self.climb + self.read


def read_the_end(problem: Problem, seed: int = 0) -> Reading:
    """Find the secret of a constant-gap problem through its last stage, by local access.

    At ā the probability of going on with b is the length of φ_q(ā, b), so the longest is tried, until a step succeeds.
    Should an action pay on the way, it is the secret.  At the last stage rewards are <φ_q, θ*>: those of a basis of the
    rows give all others.
    """
    mdp = _constant_gap(problem)
    rng = np.random.default_rng(whole("seed", seed, 0))
    start = mdp.start(rng)
    access = LocalAccess(problem, start, rng)

    def reading(action: int) -> Reading:
        loss = problem.optimal_value(start) - problem.optimal_action_value(start, action)
        return Reading(climb, access.spent - climb, action, loss)

    node: Node = access.root
    while node.stage < mdp.horizon - 1:
        action = int(np.argmax(np.linalg.norm(node.phi_q, axis=1)))
        (outcome,) = access.query(node, action)
        climb = access.spent
        if outcome.reward > 0:
            return reading(action)
        if outcome.next.phi_q[:, :-1].any():  # it is not f
            node = outcome.next
    climb = access.spent
    rows = node.phi_q
    basis = _independent(rows)
    rewards = [access.query(node, b)[0].reward for b in basis]
    theta = np.linalg.lstsq(rows[basis], np.array(rewards), rcond=None)[0]
    return reading(int(np.argmax(rows @ theta)))


def _independent(rows: Array) -> list[int]:
    """The first rows that span all of them, by Gram-Schmidt."""
    basis = np.zeros((0, rows.shape[1]))
    chosen: list[int] = []
    for i, row in enumerate(rows):
        rest = row
        for _ in range(2):  # once more against rounding
            rest = rest - basis.T @ (basis @ rest)
        length = float(np.linalg.norm(rest))
        if length > SPAN * float(np.linalg.norm(row)):
            basis = np.vstack([basis, rest / length])
            chosen.append(i)
    return chosen


def _constant_gap(problem: Problem) -> ConstantGapMDP:
    if not isinstance(problem.mdp, ConstantGapMDP):
        raise BadInput(f"this is about constant-gap problems, and problem {problem.name!r} is none")
    return problem.mdp


# ------------------------------------------------------------------------------------------ binarization


@dataclass(frozen=True)
class Misfit:
    """How well features can fit the optimal values of the states that can be reached."""

    features: str
    """``"v"`` or ``"q"`` of a problem, or the candidate map of a binarized one."""
    dimension: int
    cases: int
    """States, or pairs of a state and an action, stages counted apart."""
    eta: float
    """max |value - <φ, θ>| at the θ found, which is as small as any θ makes it."""
    largest: float
    """The largest |value|, which is what θ = 0 misses."""


def misfit(problem: Problem, features: str = "v") -> Misfit:
    """min_θ max |v*(s) - <φ_v(s), θ>|, or of q* and φ_q, over the reachable states of a table or a binarized table."""
    kind = one_of("features", features, ("v", "q"))
    solution = exact_solution(problem, WHOLE)
    rows: list[Array] = []
    values: list[float] = []
    for stage, state in _reachable(problem):
        if kind == "v":
            rows.append(problem.state_features(state, stage)[None, :])
            values.append(solution.value(state, stage))
        else:
            rows.append(problem.action_features(state, stage))
            values += [solution.action_value(state, a, stage) for a in range(problem.actions)]
    phi, x = np.concatenate(rows), np.array(values)
    return Misfit(kind, phi.shape[1], len(x), Fitter(phi, x).best().upper, float(np.abs(x).max()))


def binarization(problem: Problem) -> tuple[Misfit, ...]:
    """The misfit of the problem's own φ_q, and of every candidate for its binarized form."""
    found = [misfit(problem, "q")]
    for name in MAPS:
        m = misfit(binarize(problem, name))
        found.append(Misfit(name, m.dimension, m.cases, m.eta, m.largest))
    return tuple(found)


def _reachable(problem: Problem) -> Iterator[tuple[int, State]]:
    """(stage, state) of all states that a table, or a binarized one, can get to."""
    mdp = problem.mdp
    if isinstance(mdp, BinarizedMDP):
        for stage, state in _reachable(mdp.problem):
            for length in range(mdp.bits):
                for code in range(1 << length):
                    prefix = tuple(code >> (length - 1 - i) & 1 for i in range(length))
                    yield stage * mdp.bits + length, (state, prefix)
        return
    if not isinstance(mdp, TabularMDP) or mdp.horizon is None:
        raise Refused(f"problem {problem.name!r} is no table with a horizon, so its states cannot be listed")
    for stage, mask in enumerate(reachable(mdp)):
        yield from ((stage, mdp.states(stage)[index]) for index in np.flatnonzero(mask).tolist())
