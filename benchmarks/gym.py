"""Gymnasium's environments: the price of metering, TensorPlan against rivals, and what a certificate costs on ice.

``python -m benchmarks.gym [--only throughput|rivals|slippery]``.

One rival has global access, which no other planner here has: it learns the table, as rlberry's MBQVI does.  (That one
wants Gymnasium 0.29.  It asks as often, and the state after the end as well: 260 times instead of 256 on the lake.)
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, ClassVar

import gymnasium
import numpy as np

import tensorplan as tp
from benchmarks.packages import DEPTH, Mcts, Mctx
from tensorplan.evaluation.estimates import student
from tensorplan.problems.tables.tabular import TabularMDP, TabularValues, solve_tabular

STEPS, ROUNDS = 2_000, 100
"""Of one turn of a contestant, and turns: the best one counts."""

SEEDS = 10
FEW = 3
"""Seeds of planners that take more than seconds for an episode."""


# ------------------------------------------------------------------------------------- throughput


@dataclass(frozen=True)
class Raw:
    """How one puts an environment into a state by hand, and what to hand to ``from_gym``."""

    name: str
    save: Callable[[Any], Any]
    load: Callable[[Any, Any], None]
    options: Mapping[str, Any]


def _physics(name: str) -> Raw:
    def load(env: Any, state: Any) -> None:
        env.state = np.array(state)
        env.steps_beyond_terminated = None

    return Raw(name, lambda env: env.state, load, {"bound": 1000.0})


def _table(name: str) -> Raw:
    def load(env: Any, state: Any) -> None:
        env.s = state

    return Raw(name, lambda env: env.s, load, {})


def _cards(name: str) -> Raw:
    def load(env: Any, state: Any) -> None:
        env.player, env.dealer = list(state[0]), list(state[1])

    return Raw(name, lambda env: (env.player, env.dealer), load, {"bound": 10.0})


RAW = (
    *(_physics(name) for name in ("CartPole-v1", "MountainCar-v0", "Acrobot-v1")),
    _cards("Blackjack-v1"),
    *(_table(name) for name in ("FrozenLake-v1", "Taxi-v4", "CliffWalking-v1")),
)


def throughput() -> None:
    print("steps per second from states that were seen: by hand, and through metered local access")
    for raw in RAW:
        by_hand, metered = _contestants(raw)
        best = [math.inf, math.inf]
        for _ in range(ROUNDS):  # in turns, so that both see the same machine
            for i, walk in enumerate((by_hand, metered)):
                began = time.perf_counter()
                walk()
                best[i] = min(best[i], (time.perf_counter() - began) / STEPS)
        print(f"  {raw.name:<16} {1 / best[0]:>9,.0f}  {1 / best[1]:>9,.0f}   ratio {best[0] / best[1]:.2f}")


def _contestants(raw: Raw) -> tuple[Callable[[], None], Callable[[], None]]:
    """Random walks that start anew when an episode ends: set, step and save; or ask."""
    env: Any = gymnasium.make(raw.name)
    env.reset(seed=0)
    bare, save, load = env.unwrapped, raw.save, raw.load
    start = save(bare)
    with warnings.catch_warnings(action="ignore"):  # the observation of Blackjack is not its state
        problem = tp.from_gym(raw.name, features="linear", **raw.options)
    first = problem.mdp.start(np.random.default_rng(0))
    actions = np.random.default_rng(0).integers(problem.actions, size=STEPS).tolist()

    def by_hand() -> None:
        state = start
        for action in actions:
            load(bare, state)
            ended = env.step(action)[2]
            state = start if ended else save(bare)

    def metered() -> None:
        access = tp.LocalAccess(problem, first, np.random.default_rng(0), cache=False)
        node: Any = access.root
        for action in actions:
            node = access.query(node, action)[0].next
            if node is tp.END:
                node = access.root
        assert access.spent == STEPS

    return by_hand, metered


# ----------------------------------------------------------------------------------------- rivals


@dataclass(frozen=True)
class Model:
    """Ask every pair so many times, and take the table of the frequencies at its word."""

    samples: int
    access: ClassVar[str] = "global"

    def begin(self, access: tp.GlobalAccess, rng: np.random.Generator) -> tp.Policy:
        """Start an episode: the table is learnt anew."""
        nodes = list(access.states())
        index = {node.key: i for i, node in enumerate(nodes)}
        transitions = np.zeros((len(nodes), access.actions, len(nodes) + 1))
        rewards = np.zeros(transitions.shape[:2])
        for i, node in enumerate(nodes):
            for action, batch in enumerate(access.sample_all(node, self.samples)):
                rewards[i, action] = batch.rewards.mean()
                for following, share in zip(batch.successors, np.bincount(batch.which) / len(batch), strict=False):
                    transitions[i, action, -1 if following is tp.END else index[following.key]] += share
        limits = (float(rewards.min()), float(rewards.max()))
        table = TabularMDP(transitions, rewards, horizon=access.horizon, reward_range=limits)
        return ModelPolicy(index, solve_tabular(table, access.discount))


@dataclass(frozen=True)
class ModelPolicy:
    """See Model."""

    index: Mapping[Any, int]
    solution: TabularValues

    def act(self, node: tp.Node) -> int:
        """The best action there would be."""
        return int(self.solution.greedy[node.stage][self.index[node.key]])


@dataclass(frozen=True)
class Case:
    """A problem of the table: a catalog name without its features, and what suits the rivals."""

    title: str
    spec: str
    deep: int
    """The depth from which sparse sampling sees the goal from every start."""
    exploration: float
    """Of the package ``mcts``, in units of the returns: the best of 0.7, 10, 100 and 1000."""
    iterations: tuple[int, int]
    """Of the package ``mcts``, as many as a few minutes allow."""

    def problem(self, d: int, seed: int) -> tp.Problem:
        """With realizing features."""
        return tp.make(f"{self.spec}:features=realizing{d}", seed=seed)


CASES = (
    Case(
        "FrozenLake 8x8",
        "gym/FrozenLake-v1:map_name=8x8:is_slippery=false:horizon=none:discount=0.99",
        14,
        0.7,
        (1000, 4000),
    ),
    Case("CliffWalking", "gym/CliffWalking-v1", 14, 100.0, (100, 500)),
    Case("Taxi", "gym/Taxi-v4:horizon=none", 18, 100.0, (100, 500)),
)

MAX_STEPS = 200
"""After which episodes are cut off: they count with what they have earned."""


def rivals() -> None:
    print(f"TensorPlan and its rivals, {SEEDS} seeds ({FEW} of the slow ones), episodes of at most {MAX_STEPS} steps;")
    print("queries: each pair counts once; calls: every time; optimal: episodes that earn v*(s0)")
    for case in CASES:
        print(
            f"{case.title}\n  {'':<36} {'return':>17} {'optimal':>8} {'queries':>14} {'calls':>12} {'a decision':>11}"
        )
        for d in (2, 5, 10, 20):
            _row(f"TensorPlan, realizing features, d={d}", case, tp.TensorPlan(), SEEDS, d)
        for simulations, seeds in ((10, SEEDS), (100, SEEDS), (1000, FEW)):
            _row(f"UCT, {simulations:,} simulations", case, tp.UCT(simulations=simulations, depth=DEPTH), seeds)
        for depth in (4, 8, case.deep):
            _row(f"sparse sampling, depth {depth}", case, tp.SparseSampling(width=1, depth=depth), SEEDS)
        for iterations in case.iterations:
            _row(f"mcts 1.0.4, {iterations:,} iterations", case, Mcts(iterations, case.exploration), FEW)
        for simulations in (100, 1000):
            _row(f"mctx {version('mctx')}, {simulations:,} simulations", case, Mctx(simulations), FEW)
        _row("the table, learnt (global access)", case, Model(1), SEEDS)


def _row(name: str, case: Case, planner: tp.Planner, seeds: int, d: int = 2) -> None:
    returns, queries, calls, decisions, optimal = [], [], [], 0, 0
    for seed in range(seeds):
        problem = case.problem(d, seed)
        (episode,) = tp.run(problem, planner, seed=seed, max_steps=MAX_STEPS).episodes
        (again,) = tp.run(problem, planner, seed=seed, max_steps=MAX_STEPS, cache=False).episodes
        assert again.actions == episode.actions
        returns.append(episode.total_reward)
        queries.append(episode.total_queries)
        calls.append(again.total_queries)
        decisions += episode.steps
        best = problem.optimal_value(episode.start)
        optimal += episode.stopped == "end" and abs(best - episode.total_reward) < 1e-9
    mean, asked = student(returns), student(queries)
    print(
        f"  {name:<36} {mean.mean:>8.2f} ± {mean.radius:<6.2f} {optimal:>5}/{seeds:<2} {asked.mean:>8,.0f} ± "
        f"{asked.radius:<3,.0f} {np.mean(calls):>12,.0f} {sum(calls) / decisions:>11,.0f}",
        flush=True,
    )


# --------------------------------------------------------------------------------------- slippery


@dataclass(frozen=True)
class Ice:
    """Slippery ice, 4x4: features, how long episodes are, and the δ to prove."""

    features: str
    delta: float
    horizon: int | None = None
    discount: float = 1.0
    bound: float | None = None
    """B, where it is not read off the exact solution."""
    prize: bool = True
    """Whether it is said that there is a single one."""

    def problem(self) -> tp.Problem:
        """The problem."""
        return tp.from_gym(
            "FrozenLake-v1",
            features=self.features,
            horizon=self.horizon,
            discount=self.discount,
            bound=self.bound,
            return_range=(0, 1) if self.prize else None,
        )


ICE = (
    Ice("realizing3", 0.2, horizon=20),
    Ice("realizing3", 0.1, horizon=20),
    Ice("realizing3", 0.3, horizon=100),
    Ice("realizing3", 0.2, discount=0.99),
    Ice("onehot", 0.4, discount=0.99),
    Ice("onehot", 0.4, discount=0.99, bound=4.0),
    Ice("realizing3", 0.2, horizon=20, prize=False),
)


def slippery() -> None:
    print("certificates on FrozenLake 4x4, slippery: 3 seeds each")
    print(f"  {'features':<11} {'H':>3} {'discount':>8} {'B':>4} {'delta':>5} {'v*(s0)':>6}  bracket, queries, seconds")
    for ice in ICE:
        problem = ice.problem()
        head = f"{ice.features:<11} {ice.horizon or '':>3} {ice.discount:>8} {problem.bound:>4.2f} {ice.delta:>5}"
        cells = []
        for seed in range(3):
            (episode,) = tp.run(problem, tp.TensorPlan(delta=ice.delta), seed=seed, max_steps=MAX_STEPS).episodes
            bracket = episode.certificate
            assert bracket is not None
            cells.append(f"[{bracket.lower:.2f}, {bracket.upper:.2f}] {episode.total_queries / 1e6:.1f}M")
            cells[-1] += f" {episode.seconds:.0f} s"
        print(f"  {head} {problem.optimal_value(0):>6.3f}  {'   '.join(cells)}", flush=True)
    print("what the policies earn there with horizon 20; queries are those of an episode")
    problem = ICE[0].problem()
    # a session of TensorPlan plans once, and its first episode pays for all
    _earn(problem, "TensorPlan, delta=0.2, 1,000 episodes", tp.TensorPlan(delta=0.2), 1000)
    for simulations, episodes in ((10, 500), (100, 200), (1000, 50), (10_000, 10)):
        _earn(problem, f"UCT, {simulations:,} simulations", tp.UCT(simulations=simulations), episodes)
    for width, episodes in ((1, 100), (4, 100), (16, 50), (64, 50)):
        _earn(problem, f"sparse sampling, width {width}", tp.SparseSampling(width=width), episodes)
    _earn(problem, "random", tp.RandomPlanner(), 1000)
    _earn(problem, "optimal", tp.Oracle(), 1000)
    for samples in (10, 100, 400):
        _earn(problem, f"the table, {samples} samples of each pair", Model(samples), 1000)


def _earn(problem: tp.Problem, name: str, planner: tp.Planner, episodes: int) -> None:
    played = tp.run(problem, planner, episodes, seed=1).episodes
    mean = student([episode.total_reward for episode in played])
    queries = np.mean([episode.total_queries for episode in played])
    print(f"  {name:<38} {mean.mean:>6.2f} ± {mean.radius:.2f} {queries:>12,.0f}", flush=True)


PARTS = {"throughput": throughput, "rivals": rivals, "slippery": slippery}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(PARTS), help="one part of it")
    only = parser.parse_args(arguments).only
    for name, part in PARTS.items():
        if only in (None, name):
            part()


if __name__ == "__main__":
    main()
