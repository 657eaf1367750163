"""Exact mode in high dimension, and what it says of awkward features: ``python -m benchmarks.equations [--quick]``.

First, layered problems whose dimension is far out of reach of a search, and the same problems in small where the search
alone is the rival.  Then 1,050 random problems with features that realize v* in awkward ways, and 420 whose features
miss it by 1e-3: every certificate is compared with v*(s0), every refutation with the states that it names.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

import tensorplan as tp
from tensorplan.core import Array
from tensorplan.optimism import Program, solve
from tensorplan.planners.tensorplan import exact
from tensorplan.problems.random.featurize import draw_theta, embed, reachable
from tensorplan.problems.transforms.forwarding import Forwarding
from tensorplan.proofs import check

LARGE = ((2, 200, 20, 2_000), (4, 100, 20, 2_000), (4, 300, 100, 10**6), (4, 1000, 20, 10**6))
"""(A, d, H, states per stage) of layered problems."""

SMALL = ((2, 40, 20, 2_000), (4, 30, 20, 2_000), (3, 40, 20, 2_000))
"""The same, with a search that takes seconds to minutes."""

TINY = 1e-9
"""The regret that counts as none, relative to 1 + B."""


class Played(NamedTuple):
    """One episode of exact mode."""

    queries: int
    """Without challenge and rechecks."""
    all_queries: int
    seconds: float
    regret: float
    certificate: tp.Certificate


def play(problem: tp.Problem) -> Played:
    """Plan and act once, counting the queries before the challenge."""
    spent: list[int] = []
    challenge = exact.ExactPlanning._challenge

    def counted(planning: Any, hopeless: bool = False) -> bool:
        spent.append(planning.queries.spent)
        return challenge(planning, hopeless)

    exact.ExactPlanning._challenge = counted  # type: ignore[method-assign, assignment]
    try:
        began = time.perf_counter()
        (episode,) = tp.run(problem, tp.TensorPlan()).episodes
        seconds = time.perf_counter() - began
    finally:
        exact.ExactPlanning._challenge = challenge  # type: ignore[method-assign]
    regret = problem.optimal_value(episode.start) - episode.total_reward
    assert episode.certificate is not None
    return Played(spent[0], episode.total_queries, seconds, regret, episode.certificate)


def high_dimension(shapes: Sequence[tuple[int, int, int, int]]) -> None:
    print("layered problems by equations: queries without and with challenge and rechecks; the proof is checked")
    print(
        f"  {'A':>2} {'d':>5} {'H':>4} {'states':>8} {'A(H+d)':>7} {'queries':>8} {'all':>6} {'ms/query':>9} gap, loss"
    )
    for actions, d, horizon, states in shapes:
        problem = tp.make("layered", actions=actions, d=d, horizon=horizon, states=states, seed=0)
        played = play(problem)
        assert played.certificate.status == "certified"
        assert played.certificate.proof is not None
        check(played.certificate.proof)
        cost = 1e3 * played.seconds / played.all_queries
        print(
            f"  {actions:>2} {d:>5} {horizon:>4} {states:>9,} {actions * (horizon + d):>6,} {played.queries:>8,} "
            f"{played.all_queries:>6,} {cost:>9.2f} {played.certificate.gap:.1e}, {max(played.regret, 0.0):.1e}",
            flush=True,
        )


def against_search(shapes: Sequence[tuple[int, int, int, int]]) -> None:
    print("layered problems by search and equations, against the search alone")
    for actions, d, horizon, states in shapes:
        problem = tp.make("layered", actions=actions, d=d, horizon=horizon, states=states, seed=0)
        both = play(problem)
        easy, exact.EASY = exact.EASY, exact.SECONDS
        try:
            search = play(problem)
        finally:
            exact.EASY = easy
        print(
            f"  A={actions} d={d} H={horizon}: {both.queries} queries in {both.seconds:.1f} s, search alone "
            f"{search.queries} in {search.seconds:.1f} s: {search.seconds / both.seconds:.1f} times as fast",
            flush=True,
        )


# ------------------------------------------------------------------------------------------- awkward features


class Simulator(Forwarding):
    """A table behind a plain simulator: planners cannot look at it."""

    def start(self, rng: np.random.Generator) -> Any:
        """Draw an initial state."""
        return self.mdp.start(rng)

    def step(self, state: Any, action: int, rng: np.random.Generator) -> Any:
        """Draw (reward, next state)."""
        return self.mdp.step(state, action, rng)


def random_table(rng: np.random.Generator, ties: bool) -> tp.TabularMDP:
    """A deterministic layered MDP; some steps lead to END at once."""
    actions, horizon, states = int(rng.integers(2, 5)), int(rng.integers(3, 16)), int(rng.integers(20, 81))
    pairs = states * actions
    matrices = []
    for _ in range(horizon - 1):
        following = np.where(rng.random(pairs) < 0.02, states, rng.integers(states, size=pairs))
        matrices.append(sparse.csr_array((np.ones(pairs), (np.arange(pairs), following)), shape=(pairs, states + 1)))
    rewards = [rng.random((states, actions)) for _ in range(horizon)]
    if ties:
        rewards = [np.round(2 * r) / 2 for r in rewards]
    return tp.TabularMDP([*matrices, None], rewards, horizon=horizon)


def realized(mdp: tp.TabularMDP, kind: str, discount: float, rng: np.random.Generator) -> tuple[list[Array], float]:
    """Features that realize v*, one array per stage, and B."""
    horizon = mdp.horizon
    assert horizon is not None
    values = [np.asarray(v) for v in tp.solve_tabular(mdp, discount).v[:horizon]]
    stacked = np.concatenate(values)
    d = int(rng.integers(2, 61))
    if kind == "per stage":
        k = max(2, 60 // horizon)
        thetas = [draw_theta(k, float(v.max()), None, rng) for v in values]
        parts = [
            embed(v, theta, rng.standard_normal((len(v), k))) for v, (theta, _) in zip(values, thetas, strict=True)
        ]
        features = [np.zeros((len(v), horizon * k)) for v in values]
        for stage, part in enumerate(parts):
            features[stage][:, stage * k : (stage + 1) * k] = part
        return features, 1.2 * float(np.linalg.norm(np.concatenate([theta for theta, _ in thetas])))
    theta, bound = draw_theta(d, float(stacked.max()), None, rng)
    raw = rng.standard_normal(d) + rng.standard_normal((len(stacked), d))
    phi = embed(stacked, theta, raw)
    if kind == "nearly dependent":  # directions across θ* shrink down to 1e-8
        across = np.linalg.svd(theta[None])[2][1:]
        scales = 10.0 ** -rng.uniform(0, rng.uniform(0, 8), d - 1)
        phi = np.outer(phi @ theta, theta) / (theta @ theta) + (phi @ across.T * scales) @ across
    if kind == "skewed":  # the same values with a long θ*
        basis = np.linalg.qr(rng.standard_normal((d, d)))[0]
        scales = 10.0 ** -rng.uniform(0, rng.uniform(0, 8), d)
        phi, theta = (phi @ basis * scales) @ basis.T, (theta @ basis / scales) @ basis.T
        bound = 1.2 * float(np.linalg.norm(theta))
    features = np.split(phi, np.cumsum([len(v) for v in values])[:-1])
    if kind == "reach only":
        for part, mask in zip(features, reachable(mdp), strict=True):
            other = rng.standard_normal(part[~mask].shape)
            part[~mask] = other / np.linalg.norm(other, axis=1, keepdims=True)
    return features, bound


KINDS = ("plain", "ties", "per stage", "nearly dependent", "skewed", "reach only", "discounted")


def awkward(kind: str, seed: int, miss: float = 0.0) -> tp.Problem:
    """A random problem of a kind, whose features miss v* by ``miss`` at random."""
    rng = np.random.default_rng([seed, *kind.encode()])
    mdp, discount = random_table(rng, kind == "ties"), 0.9 if kind == "discounted" else 1.0
    features, bound = realized(mdp, kind, discount, rng)
    d = features[0].shape[1]
    if miss:
        features = [part + miss * rng.uniform(-1, 1, part.shape) / d**0.5 for part in features]
        longest = max(1.0, max(float(np.linalg.norm(part, axis=1).max()) for part in features))
        features, bound = [part / longest for part in features], bound * longest
    return tp.Problem(
        Simulator(mdp),
        lambda state, stage: features[stage][mdp.index(state, stage)],
        bound=bound,
        name=f"{kind}, seed {seed}",
        discount=discount,
    )


def optimum(problem: tp.Problem) -> float:
    """v*(s0), by backward induction."""
    assert isinstance(problem.mdp, Simulator)
    return float(tp.solve_tabular(problem.mdp.mdp, problem.discount).v[0][0])


class Outcome(NamedTuple):
    """What exact mode says of a problem: a refutation, or a certificate."""

    refutation: tp.NotRealizable | None
    certificate: tp.Certificate
    right: bool
    """Whether v*(s0) is in the bracket, up to rounding."""


def outcome(problem: tp.Problem) -> Outcome:
    """Plan and act once."""
    refutation = None
    try:
        run = tp.run(problem, tp.TensorPlan())
    except tp.NotRealizable as error:
        refutation, played = error, error.run
        assert played is not None
        run = played
    certificate = run.episodes[0].certificate
    assert certificate is not None
    best, tiny = optimum(problem), TINY * (1 + problem.bound)
    return Outcome(refutation, certificate, certificate.lower - tiny <= best <= certificate.upper + tiny)


def study(seeds: int) -> None:
    print(f"features that realize v*, {seeds} problems of each kind, d = 2 .. 60")
    for kind in KINDS:
        problems = [awkward(kind, seed) for seed in range(seeds)]
        found = [outcome(problem) for problem in problems]
        for each in found:
            if each.certificate.proof is not None:
                check(each.certificate.proof)
        statuses = Counter(each.certificate.status for each in found)
        wrong = sum(each.refutation is not None or not each.right for each in found)
        wide = sum(
            each.certificate.status == "certified" and each.certificate.gap > 1e-6 * (1 + problem.bound)
            for each, problem in zip(found, problems, strict=True)
        )
        print(f"  {kind:<17} {dict(statuses)}, {wrong} wrong, {wide} not optimal", flush=True)


def missing(seeds: int) -> None:
    print(f"features that miss v* by 1e-3, {seeds} problems of each kind")
    for kind in KINDS:
        problems = [awkward(kind, seed, 1e-3) for seed in range(seeds)]
        found = [outcome(problem) for problem in problems]
        statuses = Counter(each.certificate.status for each in found)
        wrong = sum(not each.right for each in found)
        idle = sum(
            each.refutation is not None and not contradicts(problem, each.refutation.places)
            for each, problem in zip(found, problems, strict=True)
        )
        print(
            f"  {kind:<17} {dict(statuses)}; {wrong} wrong brackets, {idle} refutations by states that could agree",
            flush=True,
        )


def contradicts(problem: tp.Problem, places: Sequence[tuple[int, Any]]) -> bool:
    """Whether no θ in the ball satisfies Bellman's equations at some states: by least squares, else by a search.

    Least squares: a state whose successors have values that follow from the equations so far gives another one.
    """
    x: list[Array] = []
    y: list[float] = []
    steps = {place: [_step(problem, place, action) for action in range(problem.mdp.actions)] for place in places}
    open_places, found = list(steps), True
    while open_places and found:
        found = False
        for place in list(open_places):
            ahead = [0.0 if phi is None else _follows(x, y, phi) for _, phi in steps[place]]
            if None not in ahead:
                totals = [
                    r + problem.discount * v for (r, _), v in zip(steps[place], ahead, strict=True) if v is not None
                ]
                x.append(problem.state_features(place[1], place[0]))
                y.append(max(totals))
                open_places.remove(place)
                found = True
    if x and not open_places:
        theta = np.linalg.lstsq(np.array(x), np.array(y), rcond=1e-9)[0]
        rest = float(np.abs(np.array(x) @ theta - y).max())
        if rest > 1e-8 or np.linalg.norm(theta) > problem.bound:
            return True
    return _infeasible(problem, steps)


def _step(problem: tp.Problem, place: tuple[int, Any], action: int) -> tuple[float, Array | None]:
    """The reward and the features of the next state, None at END."""
    stage, state = place
    reward, following = problem.mdp.step(state, action, np.random.default_rng(0))
    ends = following is tp.END or stage + 1 == problem.mdp.horizon
    return float(reward), None if ends else problem.state_features(following, stage + 1)


def _follows(x: list[Array], y: list[float], phi: Array) -> float | None:
    """<φ, θ> for all θ with Xθ = y; None if they differ."""
    if not x:
        return None
    k = np.linalg.lstsq(np.array(x).T, phi, rcond=1e-9)[0]
    return float(k @ y) if np.linalg.norm(k @ np.array(x) - phi) < 1e-7 else None


def _infeasible(problem: tp.Problem, steps: dict[tuple[int, Any], list[tuple[float, Array | None]]]) -> bool:
    """By the optimiser, from T1-T3 of these states."""
    forms = np.array(
        [
            [
                [r, *((0.0 if phi is None else problem.discount * phi) - problem.state_features(state, stage))]
                for r, phi in answers
            ]
            for (stage, state), answers in steps.items()
        ]
    )
    flat = forms.reshape(-1, forms.shape[2])
    rows, rhs = [flat[:, 1:]], [1e-12 * (1 + problem.bound) - flat[:, 0]]
    for stage, state in steps:
        low, high = problem.return_range(stage)
        phi = problem.state_features(state, stage)
        rows.append(np.array([phi, -phi]))
        rhs.append(np.array([high, -low]))
    zero = np.zeros(problem.dimension)
    program = Program(zero, problem.bound, np.concatenate(rows), np.concatenate(rhs), forms, 1e-12)
    return solve(program, node_limit=100_000).status == "infeasible"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller problems and fewer of them")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    high_dimension(LARGE[:2] if options.quick else LARGE)
    against_search(SMALL[:1] if options.quick else SMALL)
    study(5 if options.quick else 150)
    missing(3 if options.quick else 60)


if __name__ == "__main__":
    main()
