"""TensorPlan as printed, with its own constants or with others."""

import copy
import inspect
import logging
import math
import pickle
from dataclasses import fields, replace

import numpy as np
import pytest

import tensorplan as tp

FEW = {"n1": 3, "n2": 40, "n3": 400, "c": 0.05}


def problems(count, **options):
    rng = np.random.default_rng(5)
    for seed in range(count):
        actions, d, horizon = int(rng.integers(2, 4)), int(rng.integers(2, 5)), int(rng.integers(3, 7))
        yield tp.make("layered", actions=actions, d=d, horizon=horizon, states=20, seed=seed, **options)


def test_with_its_own_constants_it_cannot_be_run_and_says_how_many_queries_it_would_take(caplog):
    task = tp.make("layered-stochastic/2x3:horizon=5")
    with caplog.at_level(logging.INFO, "tensorplan"), pytest.raises(tp.Refused) as refusal:
        tp.run(task, tp.TensorPlan(mode="paper", delta=0.5))
    constants = tp.constants(A=2, d=3, H=5, delta=0.5, B=task.bound)
    most = constants.init_queries + 5 * constants.call_queries
    assert f"may need {most:.2e} queries" in str(refusal.value)
    assert "may need" in caplog.text  # said before anything was asked
    assert refusal.value.run.episodes == ()


@pytest.mark.parametrize("where", ["planner", "run"])
def test_it_refuses_above_the_budget_and_runs_below(where):
    task = tp.make("layered-stochastic/2x3:horizon=4")
    needs = tp.constants(A=2, d=3, H=4, delta=1.0, B=task.bound, **{**FEW, "c": 1e-9})
    most = needs.init_queries + 4 * needs.call_queries
    for budget, fits in ((most - 1, False), (most, True)):
        options = {"budget": budget} if where == "run" else {}
        own = budget if where == "planner" else None
        planner = tp.TensorPlan(mode="paper", delta=1.0, budget=own, **{**FEW, "c": 1e-9})
        if not fits:
            with pytest.raises(tp.Refused, match=f"more than the budget of {budget:,}"):
                tp.run(task, planner, **options)
            continue
        try:
            run = tp.run(task, planner, **options)
        except tp.NotRealizable as refuted:  # so small a c is no match for so few samples
            run = refuted.run
        assert run.episodes[0].total_queries <= most


def test_without_a_bound_on_the_failures_it_wants_a_budget():
    with pytest.raises(tp.Refused, match=r"no bound on its failures when c=0\.05: give a smaller c, or a budget"):
        tp.run(tp.make("layered-stochastic/2x3"), tp.TensorPlan(mode="paper", delta=1.0, **FEW))


def test_it_runs_unchanged_on_deterministic_problems_and_keeps_its_promise():
    for task in problems(25):
        (episode,) = tp.run(task, tp.TensorPlan(mode="paper", delta=0.3)).episodes
        assert task.optimal_value(episode.start) - episode.total_reward <= 0.3
        assert episode.certificate is None
        assert episode.stopped == "end"


def test_each_parameter_is_optimistic_and_satisfies_the_product_constraint():
    """Against random points of the ball: none that satisfies the constraints promises more."""
    rng = np.random.default_rng(0)
    checked = 0
    for task in problems(12):
        (episode,) = tp.run(task, tp.TensorPlan(mode="paper", delta=0.2, trace=True)).episodes
        trace = episode.trace
        c = tp.constants(A=task.actions, d=task.dimension, H=task.horizon, delta=0.2, B=task.bound).c
        objective, forms = np.array(trace.objective), np.zeros((0, task.actions, task.dimension + 1))
        points = rng.standard_normal((20_000, task.dimension))
        points *= task.bound * rng.random((len(points), 1)) / np.linalg.norm(points, axis=1)[:, None]
        for iteration in trace.iterations:
            theta = np.array(iteration.theta)
            ones = np.concatenate([np.ones((len(points) + 2, 1)), np.vstack([points, theta, task.theta])], axis=1)
            products = np.abs(np.einsum("nad,pd->npa", forms, ones).prod(axis=2))
            allowed = (products <= c * (1 + 1e-6) + 1e-7).all(axis=0)
            assert allowed[-1], "θ* was cut off"
            assert allowed[-2]
            assert np.linalg.norm(theta) <= task.bound * (1 + 1e-9)
            inside = (products <= c).all(axis=0)[:-2]
            assert (points[inside] @ objective <= iteration.upper + 1e-7).all()
            assert iteration.upper >= objective @ task.theta - 1e-7
            checked += int(inside.sum())
            for tol, deltas in iteration.disjunctions:
                assert tol == pytest.approx(c)
                forms = np.concatenate([forms, np.array(deltas)[None]])
    assert checked > 20_000


@pytest.mark.slow
def test_with_other_constants_it_runs_on_random_problems():
    """A return has a standard deviation of at most 1 here: the mean of 8 is off by 1.4 with probability below 1e-4."""
    losses = []
    for seed in range(8):
        task = tp.make("layered-stochastic", actions=2, d=3, horizon=4, states=20, seed=seed)
        planner = tp.TensorPlan(mode="paper", delta=1.0, n1=5, n2=2_000, n3=2_000_000, c=0.003, budget=10**9)
        (episode,) = tp.run(task, planner, seed=seed).episodes
        assert episode.stopped == "end"
        assert episode.certificate is None  # the clean test was passed
        losses.append(task.optimal_value(episode.start) - episode.total_reward)
    assert np.mean(losses) <= 1.0 + 1.4


def test_a_call_costs_what_the_constants_say():
    task = tp.make("layered-stochastic", actions=2, d=3, horizon=4, states=20, seed=1)
    planner = tp.TensorPlan(mode="paper", delta=3.0, n1=2, n2=1000, n3=100_000, c=0.03, budget=10**8, trace=True)
    (episode,) = tp.run(task, planner).episodes
    assert episode.queries[1:] == (2 * 1000,) * 3
    iterations, clean = episode.trace.iterations[:-1], 2 * 4 * (2 * 1000 + 1)
    assert len(iterations) >= 2
    before = 0
    for iteration in iterations:  # a rollout up to the failure, perhaps a whole one before it, and n3 samples
        steps, (failure,) = len(iteration.path), iteration.failures
        assert failure.violation > 3.0 / 16
        costs = [2 * 1000 * (steps + 1) + steps + 2 * 100_000 + whole * clean // 2 for whole in (0, 1)]
        assert iteration.queries - before in costs
        before = iteration.queries
    assert episode.trace.iterations[-1].queries - before == clean
    assert episode.queries[0] == episode.trace.iterations[-1].queries + 2 * 1000


def test_the_discounted_form_needs_all_constants():
    task = tp.Problem(Coin(), lambda state, stage: np.array([1.0]), bound=1.3, name="coin")
    with pytest.raises(tp.Refused, match="no constants for discounted problems: give n1, n2, n3, c as well"):
        tp.run(task, tp.TensorPlan(mode="paper", discount=0.5), max_steps=5)
    planner = tp.TensorPlan(mode="paper", discount=0.5, delta=0.5, n1=2, n2=500, n3=5000, c=0.02, budget=10**7)
    (episode,) = tp.run(task, planner, max_steps=20).episodes
    assert episode.certificate is None
    assert set(episode.actions) == {1}


class Coin:
    """One state, for ever: action 1 pays 1/2 on average, action 0 nothing; v* = 1 with γ = 1/2."""

    horizon = None
    actions = 2
    deterministic_transitions = True

    def start(self, rng):
        return 0

    def step(self, state, action, rng):
        return float(action and rng.random() < 0.5), 0


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        ("hanoi/3", "is for rewards in \\[0, 1\\], and problem 'hanoi/3' has \\[-1, 0\\]"),
        ("coin", "needs a horizon or a discount, and problem 'coin' has none"),
    ],
)
def test_problems_that_it_was_not_made_for(task, sentence):
    if task == "coin":
        task = tp.Problem(Coin(), lambda state, stage: np.array([1.0]), bound=6.0, name="coin")
    else:
        task = tp.make(task)
    with pytest.raises(tp.Refused, match=sentence):
        tp.run(task, tp.TensorPlan(mode="paper", delta=1.0))


@pytest.mark.parametrize("name", ["n1", "n2", "n3", "c", "zeta"])
def test_its_constants_are_its_own(name):
    with pytest.raises(tp.BadInput, match=f"{name} is a constant of mode 'paper', and the mode is 'certified'"):
        tp.TensorPlan(mode="certified", **{name: 0.5 if name in ("c", "zeta") else 5})
    assert math.isfinite(getattr(tp.TensorPlan(mode="paper", **{name: 0.5 if name in ("c", "zeta") else 5}), name))


def test_the_mode_makes_a_planner_of_its_own():
    made = tp.TensorPlan(mode="paper", delta=0.5, n1=4, c=0.01)
    assert type(made) is tp.PaperTensorPlan
    assert (
        made == tp.PaperTensorPlan(delta=0.5, n1=4, c=0.01) == tp.make_planner("tensorplan-paper:delta=0.5:n1=4:c=0.01")
    )
    assert made == tp.make_planner("tensorplan:mode=paper:delta=0.5:n1=4:c=0.01")
    assert repr(made) == "PaperTensorPlan(delta=0.5, n1=4, c=0.01)"
    assert made == pickle.loads(pickle.dumps(made)) == copy.deepcopy(made)
    assert replace(made, n1=5) == tp.PaperTensorPlan(delta=0.5, n1=5, c=0.01)
    assert type(replace(tp.TensorPlan(delta=0.5), mode="paper")) is tp.PaperTensorPlan
    assert type(replace(tp.TensorPlan(delta=0.5), eta=0.1)) is type(tp.TensorPlan(mode="exact")) is tp.TensorPlan
    assert {f.name for f in fields(made)} - {f.name for f in fields(tp.TensorPlan)} == {"n1", "n2", "n3", "c", "zeta"}
    with pytest.raises(tp.BadInput, match="mode must be one of paper, got 'exact'"):
        tp.PaperTensorPlan(mode="exact")


def test_the_constants_of_tp_prime_can_be_replaced_too():
    made = tp.TensorPlanQ(mode="paper", delta=0.5, n1=4)
    assert isinstance(made, tp.TensorPlanQ)
    assert (made.n1, made.ask, made.discount) == (4, "all", 1.0)
    with pytest.raises(tp.BadInput, match="n1 is a constant of mode 'paper', and the mode is 'auto'"):
        tp.TensorPlanQ(n1=4)


@pytest.mark.parametrize("planner", [tp.TensorPlan, tp.PaperTensorPlan, tp.TensorPlanQ])
def test_help_shows_every_parameter(planner):
    shown = inspect.signature(planner).parameters
    assert {f.name for f in fields(planner) if f.init} | {"n1", "n2", "n3", "c", "zeta"} == set(shown)
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in shown.values())


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("tensorplan:n1=4", "n1 is a constant of mode 'paper', and the mode is 'auto'"),
        ("tensorplan:mode=paper:n4=4", "'tensorplan' has no parameter 'n4'; did you mean 'n[123]'"),
        ("tensorplan-paper:mode=exact", "mode must be one of paper, got 'exact'"),
    ],
)
def test_specs_that_are_wrong(spec, sentence):
    with pytest.raises(tp.BadInput, match=sentence):
        tp.make_planner(spec)
