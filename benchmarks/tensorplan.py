"""TensorPlan: asking lazily against asking for all actions, the worth of its memory, and UCT at equal regret."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import mean, median

import tensorplan as tp

SHAPES = ((2, 5, 10), (2, 10, 20), (3, 10, 20), (4, 10, 10), (4, 15, 20), (4, 20, 20), (2, 30, 20))
"""(A, d, H) of layered problems with 200 states per stage."""

CLOSE = 0.05
"""The regret that counts as equal, relative to v*(s0)."""


def lazy_or_all(seeds: int) -> None:
    print("exact mode, 200 states per stage: asking one action at a time, or all of them; medians")
    columns = f"{'queries':>9} {'nodes':>7} {'ms':>6}"
    print(f"  {'A':>3} {'d':>3} {'H':>3} {'HA+dA':>6}   {columns}   {columns}")
    for actions, d, horizon in SHAPES:
        cells = []
        for ask in ("lazy", "all"):
            queries, nodes, times = [], [], []
            for seed in range(seeds):
                task = tp.make("layered", actions=actions, d=d, horizon=horizon, states=200, seed=seed)
                (episode,) = tp.run(task, tp.TensorPlan(ask=ask, trace=True)).episodes
                assert task.optimal_value(episode.start) - episode.total_reward <= 1e-9
                queries.append(episode.total_queries)
                nodes.append(sum(i.nodes for i in episode.trace.iterations))
                times.append(1e3 * episode.seconds)
            cells.append(f"{median(queries):>9.0f} {median(nodes):>7.0f} {median(times):>6.0f}")
        size = (horizon + d) * actions
        print(f"  {actions:>3} {d:>3} {horizon:>3} {size:>6}   {cells[0]}   {cells[1]}")


def memory(seeds: int) -> None:
    print("queries of 20 episodes from 10 start states, with the memory of earlier episodes over without")
    families = {
        "exact      layered/4x10": {"actions": 4, "d": 10, "horizon": 10, "states": 200},
        "certified  layered-stochastic/2x3": {"actions": 2, "d": 3, "horizon": 5, "branching": 3, "noise": True},
    }
    for name, family in families.items():
        ratios = []
        for seed in range(seeds):
            task = tp.make("layered", starts=10, seed=seed, **family)
            totals = [
                sum(e.total_queries for e in tp.run(task, tp.TensorPlan(), 20, seed, learn=learn).episodes)
                for learn in (True, False)
            ]
            ratios.append(totals[0] / totals[1])
        print(f"  {name:<36} mean {mean(ratios):.3f}, worst {max(ratios):.3f} over {seeds} seeds")


def equal_regret(seeds: int) -> None:
    print(f"queries of an episode at a mean regret of at most {CLOSE:.0%} of v*(s0)")
    for spec in ("layered/4x10:states=2000:horizon=40", "layered/8x10:states=2000:horizon=30"):
        ours = tp.compare(spec, ["tensorplan"], seeds).summaries[0]
        simulations = 100
        while True:
            result = tp.compare(spec, [f"uct:simulations={simulations}"], seeds)
            relative = mean(row.regret / row.optimal for row in result.rows if row.regret is not None and row.optimal)
            theirs = result.summaries[0].queries.mean
            print(f"  {spec}: uct:simulations={simulations:<6} regret {relative:6.1%}  {theirs:>10,.0f} queries")
            if relative <= CLOSE or simulations > 10_000:
                break
            simulations *= 2
        print(f"  {spec}: tensorplan             regret {0:6.1%}  {ours.queries.mean:>10,.0f} queries", end="")
        print(f", {theirs / ours.queries.mean:,.0f} times fewer")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few seeds, and no UCT")
    options = parser.parse_args(arguments)
    lazy_or_all(3 if options.quick else 15)
    memory(2 if options.quick else 10)
    if not options.quick:
        equal_regret(5)


if __name__ == "__main__":
    main()
