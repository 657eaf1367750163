"""Checks for problems and planners of the user, and Hypothesis strategies for random MDPs.

``check_problem(problem)`` and ``check_planner(planner)`` raise an error that names the violation; the test suite runs
them over the whole catalog and every planner.  The strategies need the extra ``testing`` (hypothesis).
"""

from __future__ import annotations

import copy
import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorplan.core import END, NORM_SLACK, Planner, Problem, Run, Vectorised
from tensorplan.core.errors import BadInput, ProblemError
from tensorplan.loop import run
from tensorplan.problems.random.featurize import featurize
from tensorplan.problems.simulate import believable, contradiction, draw
from tensorplan.problems.tables.tabular import TabularMDP

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

TOLERANCE = 1e-7
"""The error of <φ, θ*> and of Bellman's equation, relative to the value, that counts as rounding."""


def check_problem(problem: Problem, *, episodes: int = 20, max_steps: int = 200, seed: int = 0) -> int:
    """The number of states visited in random episodes, after checking the contract of the problem there.

    Checked are features (shape, finite, norm, reproducible), rewards and returns in their range, declared determinism,
    the shapes of ``step_batch``, and, if the solution is known, Bellman's equation for deterministic steps,
    <φ, θ*> = v*, q* within eta, and ‖θ*‖ <= B.
    """
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2)]
    world, twin = streams
    length = 0.0 if problem.theta is None else float(np.linalg.norm(problem.theta))
    if not length <= problem.bound * (1 + NORM_SLACK):
        raise ProblemError(f"problem {problem.name!r}: ‖θ*‖ = {length:.12g} is above the bound B = {problem.bound:g}")
    visited = 0
    for _ in range(episodes):
        state, stage, steps = problem.mdp.start(world), 0, 0
        played = []
        while state is not END and steps < max_steps:
            _check_features(problem, state, stage)
            _check_values(problem, state, stage)
            for action in range(problem.actions):
                _check_step(problem, state, stage, action, world, twin)
            action = int(world.integers(problem.actions))
            reward, following = draw(problem, state, stage, action, world)
            played.append((state, stage, reward))
            state, stage = problem.arrive(following, stage), problem.next_stage(stage)
            steps += 1
            visited += 1
        if state is END:
            _check_returns(problem, played)
    return visited


def _check_features(problem: Problem, state: Any, stage: int) -> None:
    for name in ("phi_v", "phi_q"):
        if getattr(problem, name) is None:
            continue
        features = problem.state_features if name == "phi_v" else problem.action_features
        first, again = features(state, stage), features(state, stage)
        if not np.array_equal(first, again):
            raise ProblemError(f"{name}(state={state!r}, stage={stage}) gives different features when called again")


def _check_returns(problem: Problem, played: list[tuple[Any, int, float]]) -> None:
    total = 0.0
    for state, stage, reward in reversed(played):
        total = reward + problem.discount * total
        believable(problem.name, total, problem.return_range(stage), f"from state={state!r}, stage={stage} ")


def _check_values(problem: Problem, state: Any, stage: int) -> None:
    if problem.solution is None or problem.theta is None:
        return
    value = problem.optimal_value(state, stage)
    slack = problem.eta + TOLERANCE * max(1.0, abs(value))
    at = f"state={state!r}, stage={stage}"
    if problem.phi_v is not None:
        linear = float(problem.state_features(state, stage) @ problem.theta)
        if not abs(linear - value) <= slack:
            raise ProblemError(f"v*({at}) = {value!r} but <phi_v, theta> = {linear!r}")
    if problem.phi_q is not None:
        for action, row in enumerate(problem.action_features(state, stage)):
            value, linear = problem.optimal_action_value(state, action, stage), float(row @ problem.theta)
            if not abs(linear - value) <= slack:
                raise ProblemError(f"q*({at}, action={action}) = {value!r} but <phi_q, theta> = {linear!r}")


def _check_step(
    problem: Problem, state: Any, stage: int, action: int, world: np.random.Generator, twin: np.random.Generator
) -> None:
    at = f"state={state!r}, stage={stage}, action={action}"
    reward, following = draw(problem, state, stage, action, world)
    again, elsewhere = draw(problem, state, stage, action, twin)
    if problem.deterministic_transitions and _differ(following, elsewhere):
        raise contradiction(state, stage, action, "transition", following, elsewhere)
    if problem.deterministic_rewards and reward != again:
        raise contradiction(state, stage, action, "reward", reward, again)
    if problem.deterministic and problem.solution is not None:
        q = problem.optimal_action_value(state, action, stage)
        ahead = problem.optimal_value(problem.arrive(following, stage), problem.next_stage(stage))
        if not abs(q - reward - ahead) <= TOLERANCE * max(1.0, abs(q)):
            raise ProblemError(f"q*({at}) = {q!r}, but the step gives the reward {reward!r} and leaves {ahead!r}")
        if q > problem.optimal_value(state, stage) + TOLERANCE * max(1.0, abs(q)):
            raise ProblemError(f"q*({at}) = {q!r} is above v* there")
    if isinstance(problem.mdp, Vectorised):
        rewards, successors, which = problem.mdp.step_batch(state, action, 3, world)
        if not (len(rewards) == len(which) == 3 and all(0 <= i < len(successors) for i in which)):
            raise ProblemError(f"step_batch(state={state!r}, action={action}, n=3) does not give 3 samples")


def _differ(one: Any, two: Any) -> bool:
    """Whether two states are known to be different; states that are not hashable have no identity."""
    try:
        return hash(one) != hash(two) or one != two
    except TypeError:
        return False


def check_planner(planner: Planner, problem: Problem | None = None, *, seed: int = 0) -> Run:
    """A run of the planner on a small problem, after checking the contract of planners.

    A planner chooses legal actions until the end, is reproducible with the same seed whatever the global generators do,
    and does not modify its configuration.
    """
    task = _small_problem() if problem is None else problem
    before = copy.deepcopy(planner)
    first = run(task, planner, episodes=2, seed=seed, max_steps=1000)
    np.random.random()  # must not matter
    random.random()
    again = run(task, planner, episodes=2, seed=seed, max_steps=1000)
    for one, two in zip(first.episodes, again.episodes, strict=True):
        if (one.actions, one.rewards, one.queries) != (two.actions, two.rewards, two.queries):
            raise BadInput(f"{planner!r} behaves differently when run again with the same seed")
    if repr(before) != repr(planner):
        raise BadInput(f"{before!r} changed its own configuration while it ran")
    return first


def _small_problem() -> Problem:
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(3), (3, 2))
    mdp = TabularMDP(weights, rng.random((3, 2)), horizon=3, noise=True)
    return featurize(mdp, 3, kind="vq", name="small")


def tabular_mdps(
    max_states: int = 4, max_actions: int = 3, max_horizon: int = 4, *, deterministic: bool | None = None
) -> SearchStrategy[TabularMDP]:
    """Random small tabular MDPs, stationary or layered, with early END, and deterministic or Bernoulli rewards."""
    from hypothesis import strategies as st

    @st.composite
    def build(pick: Any) -> TabularMDP:
        actions, horizon = pick(st.integers(1, max_actions)), pick(st.integers(1, max_horizon))
        layered = pick(st.booleans())
        sizes = [pick(st.integers(1, max_states)) for _ in range(horizon if layered else 1)]
        certain = pick(st.booleans()) if deterministic is None else deterministic
        rng = np.random.default_rng(pick(st.integers(0, 2**32 - 1)))
        ends = pick(st.sampled_from([0.0, 0.2]))

        def matrix(size: int, following: int) -> Any:
            weights = rng.dirichlet(np.ones(following + 1) * 0.7, (size, actions))
            weights[..., -1] *= ends
            if certain:
                return np.eye(following + 1)[np.argmax(rng.random(weights.shape) * (weights > 0), axis=-1)]
            return weights / weights.sum(axis=-1, keepdims=True)

        rewards = [rng.integers(0, 5, (size, actions)) / 4 for size in sizes]
        noise = False if certain else pick(st.booleans())
        if not layered:
            return TabularMDP(matrix(sizes[0], sizes[0]), rewards[0], horizon=horizon, noise=noise)
        steps = [matrix(a, b) for a, b in pairwise(sizes)]
        return TabularMDP([*steps, None], rewards, horizon=horizon, noise=noise)

    return build()


def problems(max_dimension: int = 5, **limits: Any) -> SearchStrategy[Problem]:
    """Random small problems with features that realize v*, q* or both."""
    from hypothesis import strategies as st

    return st.builds(
        featurize,
        tabular_mdps(**limits),
        st.integers(2, max_dimension),
        kind=st.sampled_from(["v", "q", "vq"]),
        seed=st.integers(0, 2**32 - 1),
        name=st.just("random"),
    )
