"""Action binarization: A actions as ⌈log2 A⌉ binary ones (Weisz et al. 2022, discussion).

Each stage becomes L = ⌈log2 A⌉ stages, in which the bits of the action are chosen in turn, the most significant first.
A state is (s, prefix), where the prefix has fewer than L bits; the last bit takes the step of s.  Unused codes mean the
last action.  The optimal values are

    v*((s, prefix)) = max of q*(s, a) over the actions a whose code begins with prefix.

**Features that realize them cannot be derived** from φ_q in general: with such features of polynomial dimension,
TensorPlan would solve the hard MDPs as problems with two actions, which the lower bound rules out for
A = Ω(d^{1/4} ∧ H^{1/2}).  The maps offered here are candidates; ``benchmarks.discussion`` measures their error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorplan.core import END, Array, OptimalValues, Problem, State
from tensorplan.core.errors import BadInput
from tensorplan.core.specs import one_of, undiscounted
from tensorplan.problems.transforms.forwarding import Forwarding

MAPS = ("first", "mean", "concat")
"""φ_q of the first completion of the prefix, their mean, or their concatenation."""


class BinarizedMDP(Forwarding):
    """The MDP of (s, prefix); with a horizon, stage h of the problem becomes the stages L h .. L h + L - 1."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.mdp)
        self.problem = problem
        self.actions = 2
        self.bits = (problem.actions - 1).bit_length()
        self.horizon = None if problem.horizon is None else problem.horizon * self.bits
        low, high = problem.reward_range
        self.reward_range = (min(low, 0.0), max(high, 0.0))

    def start(self, rng: np.random.Generator) -> State:
        """A start state with the empty prefix."""
        return (self.problem.mdp.start(rng), ())

    def step(self, state: State, action: int, rng: np.random.Generator) -> tuple[float, State]:
        """Draw (reward, next state)."""
        inner, prefix = state
        bits = (*prefix, action)
        if len(bits) < self.bits:
            return 0.0, (inner, bits)
        (chosen,) = self.completions(bits)
        reward, following = self.problem.mdp.step(inner, chosen, rng)
        return reward, END if following is END else (following, ())

    def completions(self, prefix: tuple[int, ...]) -> range:
        """The actions whose codes begin with the prefix."""
        free, last = self.bits - len(prefix), self.problem.actions - 1
        first = int("0" + "".join(map(str, prefix)), 2) << free
        return range(min(first, last), min(first + (1 << free) - 1, last) + 1)

    def inner_stage(self, stage: int) -> int:
        """The corresponding stage of the problem."""
        return stage // self.bits


@dataclass(frozen=True)
class BinarizedValues:
    """The optimal values, from those of the problem."""

    mdp: BinarizedMDP
    solution: OptimalValues

    def value(self, state: State, stage: int) -> float:
        """v*((s, prefix)), the maximum of q*(s, .) over the completions of the prefix."""
        inner, prefix = state
        h = self.mdp.inner_stage(stage)
        return max(self.solution.action_value(inner, a, h) for a in self.mdp.completions(prefix))

    def action_value(self, state: State, action: int, stage: int) -> float:
        """q*((s, prefix), bit) = v*((s, prefix bit))."""
        inner, prefix = state
        return self.value((inner, (*prefix, action)), stage)


def binarize(problem: Problem, features: str = "mean") -> Problem:
    """The problem with binary actions, and a candidate for φ_v computed from φ_q.

    ``features``: "first" and "mean" have d entries; "concat" has A d, divided by the number of completions, with zeros
    for other actions.  They need not realize v*, so there is no θ*.  B is that of the problem, or √A times as large for
    "concat", where θ repeated A times has the values of θ with "mean".
    """
    one_of("features", features, MAPS)
    if problem.phi_q is None:
        raise BadInput(f"binarize needs phi_q, which problem {problem.name!r} does not have")
    if problem.actions < 2:
        raise BadInput(f"binarize needs two actions or more, and problem {problem.name!r} has one")
    undiscounted("binarize", problem.name, problem.discount)
    mdp = BinarizedMDP(problem)

    def phi_v(state: State, stage: int) -> Array:
        inner, prefix = state
        rows: Any = problem.action_features(inner, mdp.inner_stage(stage))
        chosen = mdp.completions(prefix)
        if features == "first":
            return np.asarray(rows[chosen.start])
        if features == "mean":
            return np.asarray(rows[chosen.start : chosen.stop].mean(axis=0))
        blocks = np.zeros(rows.shape)
        blocks[chosen.start : chosen.stop] = rows[chosen.start : chosen.stop] / len(chosen)
        return blocks.ravel()

    return Problem(
        mdp,
        phi_v,
        bound=problem.bound * (math.sqrt(problem.actions) if features == "concat" else 1.0),
        name=f"binarized {problem.name}",
        solution=None if problem.solution is None else BinarizedValues(mdp, problem.solution),
        retries=problem.retries,
    )
