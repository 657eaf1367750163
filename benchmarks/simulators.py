"""Simulators that people use: how they are restored, how fast, and what planners find in them with generic features.

``python -m benchmarks.simulators [--only restoring|planners] [--env SUBSTRING]`` needs the extra ``simulators``.  An
environment whose package is not installed is left out, with a word.

Steps per second: *raw* is the environment's own loop, ``env.step(env.action_space.sample())`` of what
``gymnasium.make`` returns; *rollouts* are metered queries along random paths from one state; *jumps* are metered
queries at states of these paths in random order, each of which has to be restored.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import mean
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces, wrappers

import tensorplan as tp
from benchmarks.timing import race
from tensorplan.core.errors import NotRealizable

STEPS = 50
"""Of a rollout, at most."""

SECONDS = 0.4
"""Of one turn of a contestant, about."""

SEEDS = 3

DELTA = 0.001
"""The width of the bracket at which Hindsight stops: its budget ends it before, unless it is exact."""


@dataclass(frozen=True)
class Simulator:
    """An environment, what ``from_gym`` has to be told, and the budget of a planner."""

    env: str | Callable[[], Any]
    budget: int
    options: Mapping[str, Any] = field(default_factory=dict)
    make: Mapping[str, Any] = field(default_factory=dict)
    """What ``gymnasium.make`` has to be told."""

    @property
    def name(self) -> str:
        """The id, or the name of the function."""
        return self.env if isinstance(self.env, str) else self.env.__name__

    def problem(self) -> tp.Problem:
        """The environment as a problem."""
        with warnings.catch_warnings(action="ignore"):
            return tp.from_gym(self.env, **self.options, **self.make, outside="clip")

    def raw(self) -> Any:
        """The environment itself."""
        return gymnasium.make(self.env, **self.make) if isinstance(self.env, str) else self.env()


def hopper() -> Any:
    """MuJoCo's hopper with three of its actions: all motors one way, the other, or none."""
    env: Any = gymnasium.make("Hopper-v5")
    choices = np.array([env.action_space.low, env.action_space.high, 0 * env.action_space.low])
    return wrappers.TransformAction(env, lambda i: choices[i], spaces.Discrete(len(choices)))


SIMULATORS = (
    Simulator("FrozenLake-v1", 50_000, {"horizon": 20, "features": "onehot", "return_range": (0, 1)}),
    Simulator("CartPole-v1", 20_000, {"horizon": 50}),
    Simulator("MiniGrid-Empty-5x5-v0", 5_000, {"horizon": 15, "ignore": "step_count"}),
    Simulator("MiniGrid-DoorKey-5x5-v0", 20_000, {"horizon": 20, "ignore": "step_count"}),
    Simulator("MiniGrid-FourRooms-v0", 5_000, {"horizon": 15}),
    Simulator("MiniGrid-Dynamic-Obstacles-5x5-v0", 50_000, {"horizon": 12}),
    Simulator("MinAtar/Breakout-v1", 50_000, {"horizon": 20}),
    Simulator("MinAtar/Asterix-v1", 50_000, {"horizon": 20}),
    Simulator("MinAtar/Freeway-v1", 50_000, {"horizon": 20}),
    Simulator("MinAtar/Seaquest-v1", 50_000, {"horizon": 20}),
    Simulator("MinAtar/SpaceInvaders-v1", 50_000, {"horizon": 20}),
    Simulator("ALE/Breakout-v5", 5_000, {"horizon": 20, "reward_range": (0, 7)}),
    Simulator("ALE/Pong-v5", 5_000, {"horizon": 20, "reward_range": (-1, 1)}, {"obs_type": "ram"}),
    Simulator("highway-fast-v0", 1_000, {"horizon": 10}),
    Simulator("LunarLander-v3", 20_000, {"horizon": 50, "reward_range": (-100, 100)}),
    Simulator(hopper, 20_000, {"horizon": 20, "reward_range": (-10, 10)}),
)


# ------------------------------------------------------------------------------------------ restoring


def restoring(simulator: Simulator) -> str:
    """One row: the way, whether it is exact, seconds to open, and steps per second."""
    began = time.perf_counter()
    problem = simulator.problem()
    opened = time.perf_counter() - began
    times = race(dict(contestants(simulator, problem)), rounds=5)
    rates = {name: 1 / seconds for name, seconds in times.items()}
    mdp: Any = problem.mdp
    way = mdp.way.name if hasattr(mdp, "way") else "table"
    exact = "exact" if way == "table" or mdp.way.exact else "rounded"
    shares = f"{rates['rollouts'] / rates['raw']:>6.2f}{rates['jumps'] / rates['raw']:>6.2f}"
    listed = "".join(f"{rates[name]:>10,.0f}" for name in ("raw", "rollouts", "jumps"))
    return f"{simulator.name:<34}{way:<11}{exact:<6}{opened:>6.1f} s{listed} {shares}"


def contestants(simulator: Simulator, problem: tp.Problem) -> Iterator[tuple[str, Callable[[], float]]]:
    """Work to be timed: each returns how many steps it took."""
    env = simulator.raw()
    env.reset(seed=0)
    env.action_space.seed(0)
    actions = np.random.default_rng(0).integers(problem.actions, size=100_000).tolist()
    rng = np.random.default_rng(0)
    start = problem.mdp.start(rng)

    def raw() -> float:
        steps, began = 0, time.perf_counter()
        while time.perf_counter() - began < SECONDS:
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            steps += 1
            if terminated or truncated:
                env.reset()
        return steps

    def rollouts() -> float:
        access = tp.LocalAccess(problem, start, rng, cache=False)
        began, at = time.perf_counter(), 0
        while time.perf_counter() - began < SECONDS:
            access.follow(access.root, actions[at : at + STEPS])
            at = (at + STEPS) % len(actions)
        return access.spent

    def jumps() -> float:
        access = tp.LocalAccess(problem, start, rng, cache=False)
        nodes = [access.root]
        for action in actions[:STEPS]:
            following = access.query(nodes[-1], action)[0].next
            if following is tp.END:
                break
            nodes.append(following)
        first, began, at = access.spent, time.perf_counter(), 0
        while time.perf_counter() - began < SECONDS:
            access.query(nodes[at * 17 % len(nodes)], actions[at % len(actions)])  # 17: not the next one
            at += 1
        return access.spent - first

    yield from {"raw": raw, "rollouts": rollouts, "jumps": jumps}.items()


# ------------------------------------------------------------------------------------------ planners


def planners(simulator: Simulator) -> Iterator[str]:
    """Rows: each planner's mean reward over the seeds, and the bracket for the first of them, at one budget."""
    problem = simulator.problem()
    steps = problem.horizon or STEPS
    spread = max(2, simulator.budget // (steps * steps // 2))
    for spec in ("random", f"uct:simulations={spread}", f"hindsight:delta={DELTA}", "tensorplan"):
        began = time.perf_counter()
        found = [episode(problem, spec, simulator.budget, seed) for seed in range(SEEDS)]
        seconds = (time.perf_counter() - began) / SEEDS
        rewards = mean(sum(each.rewards) for each, _ in found)
        queries = mean(each.total_queries for each, _ in found)
        name = spec.partition(":")[0]
        listed = f"{simulator.name:<34}{name:<11}{rewards:>8.2f}{queries:>10,.0f}{seconds:>7.1f} s"
        condition = ", if realized" if name == "tensorplan" and not found[0][1] else ""
        yield f"{listed}  {bracket(*found[0])}{condition}"


def episode(problem: tp.Problem, spec: str, budget: int, seed: int) -> tuple[Any, bool]:
    """The episode, and whether the features were refuted."""
    with warnings.catch_warnings(action="ignore"):
        try:
            return tp.run(problem, spec, budget=budget, seed=seed).episodes[0], False
        except NotRealizable as refuted:
            run: Any = refuted.run
            return run.episodes[0], True


def bracket(found: Any, refuted: bool) -> str:
    """The bracket of an episode's certificate, or what is left of it if the features were refuted."""
    certificate = found.certificate
    if certificate is None:
        return ""
    if refuted:
        return f"features refuted; earns {certificate.lower:.3g} at least"
    return f"[{certificate.lower:.3g}, {min(certificate.upper, certificate.upper_anyway):.3g}] {certificate.status}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", choices=("restoring", "planners"))
    parser.add_argument("--env", default="", help="those whose name contains this")
    options = parser.parse_args(arguments)
    logging.getLogger("tensorplan").setLevel(logging.ERROR)
    chosen = [simulator for simulator in SIMULATORS if options.env in simulator.name]
    if options.only != "planners":
        print(f"{'environment':<34}{'way':<11}{'':<6}{'opened':>8}{'raw':>10}{'rollouts':>10}{'jumps':>10}  ratios")
        for simulator in chosen:
            show(simulator, lambda each: [restoring(each)])
    if options.only != "restoring":
        print(f"{'environment':<34}{'planner':<11}{'reward':>8}{'queries':>10}{'time':>9}  bracket")
        for simulator in chosen:
            show(simulator, planners)


def show(simulator: Simulator, rows: Callable[[Simulator], Iterable[str]]) -> None:
    """Print the rows, or what is missing."""
    try:
        for row in rows(simulator):
            print(row, flush=True)
    except tp.BadInput as missing:
        print(f"{simulator.name:<34}{missing}", flush=True)


if __name__ == "__main__":
    main()
