"""The one-step-delayed MDP M̄ that TP' plans in (Weisz et al. 2022, proof of Lemma tensorplan-qstar).

In the state (s, a) of M̄, a is about to be executed in s.  Choosing a' there pays the reward of a in s and leads to
(f(s, a), a').  An episode starts one step earlier, at (s0, None), where choosing an action is free:

    φ̄((s0, None)) = [1, 0],    φ̄((s, a)) = [0, φ_q(s, a)],    θ̄* = [v*(s0), θ*],    horizon H + 1, dimension d + 1,

and v̄*((s, a)) = r(s, a) + max_a' q*(f(s, a), a') = q*(s, a), because the transition f is deterministic: linear q* in M
is linear v* in M̄.  When M is at S_t, t >= 1, M̄ is at (S_{t-1}, A_{t-1}); the paper prints (S_t, A_{t-1}), in which
A_{t-1} would be executed once more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import END, Array, End, Problem, State, Vectorised
from tensorplan.core.errors import Refused
from tensorplan.core.specs import undiscounted
from tensorplan.problems.simulate import draw
from tensorplan.problems.tables.tabular import TabularMDP
from tensorplan.problems.transforms.forwarding import Forwarding

LENGTHENED = math.sqrt(2.0)
"""B of M̄ relative to B of M: v*(s0) = max_a <φ_q(s0, a), θ*> <= B, so ‖θ̄*‖² <= 2 B² (the paper takes 2B)."""


class DelayedState(NamedTuple):
    """A state of M̄: ``action`` is about to be executed in ``state``; None before the first choice."""

    state: Any
    action: int | None


def simulate(
    pair: DelayedState | End, following_action: int, query: Callable[[Any, int], tuple[float, Any]]
) -> tuple[float, DelayedState | End]:
    """(reward, next pair or END) of M̄ by at most one ``query(state, action)`` of M (Algorithm Simulate')."""
    if isinstance(pair, End):
        return 0.0, END
    if pair.action is None:
        return 0.0, DelayedState(pair.state, following_action)
    reward, following = query(pair.state, pair.action)
    return reward, arrive(following, following_action)


def arrive(following: Any, following_action: int) -> DelayedState | End:
    """The state of M̄ when M is at ``following``."""
    return END if following is END else DelayedState(following, following_action)


def features(dimension: int, phi: Array | None) -> Array:
    """φ̄, (d+1,): [0, φ_q(s, a)] for the features (d,) of a pair, or [1, 0] for None, before the first action."""
    return np.eye(1, dimension + 1)[0] if phi is None else np.append(0.0, phi)


def with_zero(reward_range: tuple[float, float]) -> tuple[float, float]:
    """The range of rewards in M̄, whose first step pays nothing."""
    return min(reward_range[0], 0.0), max(reward_range[1], 0.0)


def refuse_unless_delayable(name: str, has_phi_q: bool, deterministic_transitions: bool, discount: float) -> None:
    """Raise Refused unless v̄* is linear in the features of M̄."""
    if not has_phi_q:
        raise Refused(f"problem {name!r} has no phi_q, from which the features of the delayed problem are built")
    if not deterministic_transitions:
        raise Refused(
            f"problem {name!r} is not declared to have deterministic transitions, and v̄*((s,a)) = q*(s,a) needs them; "
            "linear q* with stochastic transitions and few actions is an open question"
        )
    undiscounted("the delayed problem", name, discount)


def delayed(problem: Problem) -> Problem:
    """M̄ as a problem, with its solution and θ̄* if those of M are known.

    θ̄* depends on the start state, which φ̄ does not: it is None for tables with several start states, and assumes a
    single one otherwise.  Its first entry is max_a <φ_q(s0, a), θ*>, which is v*(s0) within eta.
    """
    phi_q = problem.phi_q
    refuse_unless_delayable(problem.name, phi_q is not None, problem.deterministic_transitions, problem.discount)
    assert phi_q is not None
    d = problem.dimension

    def phi_v(pair: DelayedState, stage: int) -> Array:
        if pair.action is None:
            return features(d, None)
        return features(d, np.asarray(phi_q(pair.state, _before(problem, stage)))[pair.action])

    return Problem(
        (_Batches if isinstance(problem.mdp, Vectorised) else DelayedMDP)(problem),
        phi_v,
        bound=LENGTHENED * problem.bound,
        name=f"delayed {problem.name}",
        solution=None if problem.solution is None else DelayedSolution(problem),
        theta=_theta(problem),
        eta=problem.eta,
        retries=problem.retries,
    )


class DelayedMDP(Forwarding):
    """The simulator of M̄, based on that of M."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.mdp)
        self.horizon = None if problem.horizon is None else problem.horizon + 1
        self.reward_range = with_zero(problem.reward_range)

    def start(self, rng: np.random.Generator) -> DelayedState:
        """Draw (s0, None)."""
        return DelayedState(self.mdp.start(rng), None)

    def step(self, state: DelayedState, action: int, rng: np.random.Generator) -> tuple[float, State]:
        """Draw (reward, next pair)."""
        return simulate(state, action, lambda s, a: self.mdp.step(s, a, rng))


class _Batches(DelayedMDP):
    """The simulator of M̄ if that of M is vectorised."""

    def step_batch(
        self, state: DelayedState, action: int, n: int, rng: np.random.Generator
    ) -> tuple[Array, Sequence[State], NDArray[np.integer[Any]]]:
        """Draw a batch of n samples of one pair and next action."""
        if state.action is None:
            return np.zeros(n), [DelayedState(state.state, action)], np.zeros(n, dtype=np.intp)
        rewards, successors, which = self.mdp.step_batch(state.state, state.action, n, rng)
        return rewards, [arrive(following, action) for following in successors], which


class DelayedSolution:
    """v̄* and q̄*, from v* and q* of a problem with deterministic transitions."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def value(self, state: DelayedState, stage: int) -> float:
        """v̄*((s, a)) = q*(s, a), and v*(s0) before the first action."""
        if state.action is None:
            return self.problem.optimal_value(state.state, stage)
        return self.problem.optimal_action_value(state.state, state.action, _before(self.problem, stage))

    def action_value(self, state: DelayedState, action: int, stage: int) -> float:
        """q̄*((s, a), a') = r(s, a) + q*(f(s, a), a'), where r(s, a) = q*(s, a) - v*(f(s, a))."""
        problem = self.problem
        if state.action is None:
            return problem.optimal_action_value(state.state, action, stage)
        value, now = self.value(state, stage), _before(problem, stage)
        _, following = draw(problem, state.state, now, state.action, np.random.default_rng(0))
        following, then = problem.arrive(following, now), problem.next_stage(now)
        ahead = problem.optimal_value(following, then)
        return value - ahead + problem.optimal_action_value(following, action, then)


def _before(problem: Problem, stage: int) -> int:
    """The stage of s in M when M̄ is at (s, a)."""
    return stage if problem.horizon is None else stage - 1


def _theta(problem: Problem) -> Array | None:
    mdp, theta = problem.mdp, problem.theta
    if theta is None or (isinstance(mdp, TabularMDP) and len(mdp.start_weights()) > 1):
        return None
    start = mdp.start(np.random.default_rng(0))
    return np.append((problem.action_features(start, 0) @ theta).max(), theta)
