"""Checks for problems and planners of the user, and Hypothesis strategies for random MDPs.

``check_problem(problem)`` and ``check_planner(planner)`` raise an error that names the violation; the test suite runs
them over the whole catalog and every planner.  The strategies need the extra ``testing`` (hypothesis).
"""

from __future__ import annotations

import copy
import math
import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from tensorplan.core import END, NORM_SLACK, Batched, Planner, Problem, Run, Vectorised
from tensorplan.core.errors import BadInput, ProblemError
from tensorplan.loop import run
from tensorplan.problems.random.featurize import featurize
from tensorplan.problems.simulate import (
    believable,
    checked_reward,
    contradiction,
    draw,
    draw_batch,
    draw_many,
    draw_noise,
    draw_start,
)
from tensorplan.problems.states import pack, unpack
from tensorplan.problems.tables.tabular import TabularMDP

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

TOLERANCE = 1e-7
"""The error of <φ, θ*> and of Bellman's equation, relative to the value, that counts as rounding."""


ALARM = 1e-9
"""The probability that two samples of one law are taken for different ones, per comparison."""

MET = 0.3
"""The share of the pairs of random episodes at which ``step_many`` is checked, so that later stages are, too."""

BATCH = 3
"""Samples of a call of ``step_batch`` that is checked."""

DIGITS = 5
"""Decimals to which rewards and states are compared: ``step_many`` may use 32 bits."""


def check_problem(problem: Problem, *, episodes: int = 20, max_steps: int = 200, seed: int = 0) -> int:
    """The number of states visited in random episodes, after checking the contract of the problem there.

    Checked are features (shape, finite, norm, reproducible), rewards and returns in their range, declared determinism,
    the shapes of ``step_batch``, ``step_many`` against ``step`` (:func:`check_step_many`), and, if the solution is
    known, Bellman's equation for deterministic steps, <φ, θ*> = v*, q* within eta, and ‖θ*‖ <= B.
    """
    streams = [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(2)]
    world, twin = streams
    length = 0.0 if problem.theta is None else float(np.linalg.norm(problem.theta))
    if not length <= problem.bound * (1 + NORM_SLACK):
        raise ProblemError(f"problem {problem.name!r}: ‖θ*‖ = {length:.12g} is above the bound B = {problem.bound:g}")
    visited = 0
    for _ in range(episodes):
        state, stage, steps = draw_start(problem, world), 0, 0
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
    if isinstance(problem.mdp, Batched):
        check_step_many(problem, seed=seed)
    return visited


def check_step_many(problem: Problem, *, pairs: int = 8, draws: int = 2_000, seed: int = 0) -> int:
    """The number of pairs at which ``step_many`` was compared with ``step``, met in random episodes.

    Checked are shapes and ranges, that the result for a pair depends on its state, its action and its noise alone, and
    that rewards and next states have the law of ``step``, by ``draws`` samples of each.  A distribution function that
    differs by 0.25 somewhere is missed with probability below 1e-8, at 2,000 draws.
    """
    rng = np.random.default_rng(seed)
    for state, stage, action in (met := _met(problem, pairs, rng)):
        noise = draw_noise(problem, draws, rng)
        states, actions = np.repeat(pack([state]), draws, axis=0), np.full(draws, action)
        result = draw_many(problem, states, stage, actions, noise)
        _check_arguments_decide(problem, states, stage, actions, noise, result)
        _check_law(problem, state, stage, action, result, rng)
    return len(met)


def _met(problem: Problem, pairs: int, rng: np.random.Generator) -> list[tuple[Any, int, int]]:
    """States, stages and actions of random episodes, at most so many."""
    met: list[tuple[Any, int, int]] = []
    for _ in range(pairs):
        state, stage = draw_start(problem, rng), 0
        while state is not END and len(met) < pairs:
            action = int(rng.integers(problem.actions))
            if not met or rng.random() < MET:
                met.append((state, stage, action))
            _, following = draw(problem, state, stage, action, rng)
            state, stage = problem.arrive(following, stage), problem.next_stage(stage)
    return met


def _check_arguments_decide(
    problem: Problem, states: Any, stage: int, actions: Any, noise: Any, result: tuple[Any, Any, Any]
) -> None:
    """Steps of every other pair, in reverse, must be the same as before."""
    order = np.arange(0, len(actions), 2)[::-1]
    again = draw_many(problem, states[order], stage, actions[order], noise[order])
    (rewards, following, ended), (rewards2, following2, ended2) = ([part[order] for part in result], again)
    alive = ~ended
    if not (
        np.array_equal(ended, ended2)
        and np.allclose(rewards, rewards2, rtol=TOLERANCE, atol=TOLERANCE)
        and np.allclose(following[alive], following2[alive], rtol=TOLERANCE, atol=TOLERANCE)
    ):
        raise ProblemError(
            f"step_many at state={unpack(states[:1])[0]!r}, stage={stage}, action={int(actions[0])} gives other "
            "results for the same noise when called again: it must depend on its arguments alone, row by row"
        )


def _check_law(
    problem: Problem, state: Any, stage: int, action: int, result: tuple[Any, Any, Any], rng: np.random.Generator
) -> None:
    """Compare the result of ``step_many`` at one pair with as many calls of ``step``."""
    rewards, following, ended = result
    steps = [draw(problem, state, stage, action, rng) for _ in rewards]
    nexts = [problem.arrive(following, stage) for _, following in steps]
    over = np.array([following is END for following in nexts])
    single = np.array([reward for reward, _ in steps])
    one, two = _rows(single, nexts, over), _rows(rewards, unpack(following), ended)
    compared = {"rewards": (single, rewards), "the share of END": (over, ended)}
    if len(one) and len(two):
        mix = rng.random(one.shape[1])  # a combination, so that numbers must also depend on each other as in step
        compared |= {f"number {i} of the next state": (one[:, i + 1], two[:, i + 1]) for i in range(len(mix) - 1)}
        compared["the reward with the next state"] = one @ mix, two @ mix
    for what, (first, second) in compared.items():
        if _distance(first, second) > _critical(len(first), len(second)):
            raise ProblemError(
                f"step_many at state={state!r}, stage={stage}, action={action} draws from another law than step: "
                f"{what} differs"
            )


def _rows(rewards: Any, nexts: list[Any], ended: Any) -> Any:
    """(reward, numbers of the next state) of the steps that did not end."""
    alive = [following for following, over in zip(nexts, ended.tolist(), strict=True) if not over]
    return np.column_stack([rewards[~ended], pack(alive)]) if alive else np.zeros((0, 1))


def _distance(one: Any, two: Any) -> float:
    """The largest difference of two empirical distribution functions, up to rounding of the values (Smirnov)."""
    one, two = (np.round(np.asarray(x, dtype=np.float64), DIGITS) for x in (one, two))
    at = np.concatenate([one, two])
    below = [np.searchsorted(np.sort(x), at, side="right") / len(x) for x in (one, two)]
    return float(np.abs(below[0] - below[1]).max())


def _critical(n: int, m: int) -> float:
    """The distance that two samples of one law exceed with probability below ``ALARM`` (Dvoretzky, Kiefer, Wolfowitz).

    Each empirical distribution is within sqrt(ln(4/ALARM) / (2 n)) of the true one, but for probability ALARM / 2.
    """
    return sum(math.sqrt(math.log(4 / ALARM) / (2 * size)) for size in (n, m))


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
        rewards, _, _ = draw_batch(problem, state, stage, action, BATCH, world)
        for each in rewards.tolist():
            checked_reward(problem, state, stage, action, each)


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
