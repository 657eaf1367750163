"""Sums: cases of which one is true, bets on the samples drawn for them alone, and the design of the weights."""

import itertools
import math

import numpy as np
import pytest
from certified_runs import planning, random_problem, too_many

import tensorplan as tp
from tensorplan.access.delayed import DelayedAccess
from tensorplan.planners.certified import sums
from tensorplan.planners.certified.closing import Closing
from tensorplan.planners.certified.fit import TableView, fit
from tensorplan.planners.certified.planning import CertifiedMemory, CertifiedPlanning, failure_probability
from tensorplan.planners.certified.sums import Sum, samples_of
from tensorplan.planners.evidence.ledger import Ledger


@pytest.fixture
def begun(monkeypatch):
    """Every sum that a planner has begun, with the closing that it belongs to."""
    found, original = [], Sum.begin

    def begin(design, model, measurements, target):
        made = original(design, model, measurements, target)
        found.append((made, design, model, measurements))
        return made

    monkeypatch.setattr(Sum, "begin", staticmethod(begin))
    return found


def true_choices(problem, states):
    """The optimal actions of measured states; a set for each, since several may be."""
    mdp, chosen, following = problem.mdp, {}, None
    for stage in reversed(range(mdp.horizon)):
        q = mdp.backup(stage, following)
        following = q.max(axis=1)
        index = {state: i for i, state in enumerate(mdp.states(stage))}
        for state in states:
            if state.estimate.place.stage == stage:
                row = q[index[state.estimate.place.state]]
                chosen[state] = set(np.flatnonzero(row >= row.max() - 1e-12).tolist())
    return chosen


def test_the_true_case_holds_for_the_true_parameter_as_often_as_stated(begun):
    """Claim: of each sum, at its end, the row of a case that says the truth fails with probability <= 3ζ/16 <= 0.01.

    And the largest bound of a case is at least v*(s0).  16 problems with a sum or more each; if one in four rows failed
    it would be noticed with probability above 0.999.
    """
    broken = low = checked = 0
    for seed in range(16):
        problem = tp.make("layered-stochastic/2x3", seed=seed)
        begun.clear()
        plan = planning(problem, seed=seed, delta=0.5, anyway=0.0)
        plan.plan()
        one = np.concatenate([[1.0], problem.theta])
        box = plan.measurements.box
        for made, _, _, _ in begun:
            best = true_choices(problem, made.states)
            true = [c for c in made.cases if all(action in best[state] for state, action in c.choices.items())]
            assert true  # the cases cover all choices of optimal actions
            for case in true:
                if case.bet is not None:
                    broken += float(case.bet.total @ one) > case.bet.radius(box) + 1e-9
            low += made.prove(plan.sol, plan.root.phi, box) < problem.optimal_value(0) - 1e-9
            checked += 1
    assert checked >= 12
    assert broken < too_many(checked, 0.01)
    assert low < too_many(checked, 0.05)


def test_the_cases_cover_all_choices_of_optimal_actions(begun):
    problem, delta = random_problem(3)
    planning(problem, delta=delta, anyway=0.0).plan()
    assert begun
    for made, _, _, _ in begun:
        states = list({state for case in made.cases for state in case.choices})
        combinations = itertools.product(range(problem.actions), repeat=len(states))
        for actions in itertools.islice(combinations, 2_000):
            chosen = dict(zip(states, actions, strict=True))
            agreeing = [c for c in made.cases if all(chosen[s] == a for s, a in c.choices.items())]
            assert len(agreeing) == 1
        for case in made.cases:
            for term in case.terms:
                state = next(s for s in made.states if s.estimate is term.about)
                assert term.weight > 0 or case.choices[state] == term.action


@pytest.mark.parametrize("joint", [False, True])
def test_a_sum_counts_the_samples_that_were_drawn_for_its_pair_alone(begun, monkeypatch, joint):
    """Also where one batch of queries serves all actions: those of the others share its noise."""
    drawn, original = {}, Closing._grow

    def grow(self, running):
        table = self.table
        whole = table.draw

        def draw(estimate, counts, tallies):
            before = {id(t): t.n for many in tallies.values() for t in many}
            whole(estimate, counts, tallies)
            for action, many in tallies.items():
                for tally in many:
                    assert tally.n - before[id(tally)] == counts[action]
                    drawn[id(tally)] = drawn.get(id(tally), 0) + counts[action]

        table.draw = draw
        try:
            original(self, running)
        finally:
            del table.draw

    monkeypatch.setattr(Closing, "_grow", grow)
    for seed in range(3):
        shape = {"actions": 2, "d": 3, "horizon": 4, "states": 12, "noise": True, "seed": seed}
        problem = tp.make("layered", kind="q", **shape) if joint else tp.make("layered-stochastic", **shape)
        access = tp.LocalAccess(problem, problem.mdp.start(np.random.default_rng(seed)), np.random.default_rng(seed))
        if joint:
            access = DelayedAccess(access)
        config = tp.TensorPlan(delta=0.8, anyway=0.0)
        memory = CertifiedMemory(config, access, Ledger(failure_probability(config, access)))
        CertifiedPlanning(config, access, memory, np.random.default_rng(0)).plan()
    tallies = [term.tally for made, _, _, _ in begun for case in made.cases for term in case.terms]
    assert len(tallies) > 5
    assert all(drawn.get(id(tally), 0) == tally.n for tally in tallies)


def test_brackets_of_tp_prime_with_random_rewards_hold():
    """Claim: each is wrong with probability <= 0.05; if every second one were, it would be noticed."""
    wrong = 0
    for seed in range(12):
        problem = tp.make("layered", actions=2, d=3, horizon=4, states=12, kind="q", noise=True, seed=seed)
        (episode,) = tp.run(problem, tp.TensorPlanQ(delta=0.8, anyway=0.0), seed=seed).episodes
        certificate = episode.certificate
        assert certificate.status == "certified"
        wrong += not certificate.lower <= problem.optimal_value(0) <= certificate.upper
    assert wrong < too_many(12, 0.05)


# ------------------------------------------------------------------------------------------ design


def test_the_weights_of_a_case_prove_the_target_in_the_model(begun):
    """With the designed radii, T1-T3 and the weights: the bound of each case is below the target, by its own weights.

    The sum of the rows with these weights is itself a valid inequality; with it alone in place of the rows, and the
    ranges of values, the bound is the same.
    """
    problem, delta = random_problem(2)
    plan = planning(problem, delta=delta, anyway=0.0)
    plan.plan()
    assert begun
    for made, design, model, _ in begun:
        assert 0 < design.accuracy <= 1
        assert design.found.bound <= made.target
        for case in design.cases:
            assert case.accuracy >= design.accuracy * 0.99
            assert all(w > 0 or case.choices.get(i) == a for (i, a), w in case.weights.items())
            radii = model.radii(case.accuracy) + model.excused
            normal = sum(w * model.deltas[pair][1:] for pair, w in case.weights.items())
            end = sum(abs(w) * radii[pair] - w * model.deltas[pair][0] for pair, w in case.weights.items())
            if case.weights:
                ranges, ends = model.ranges()
                value = _most(plan.root.phi, np.vstack([ranges, normal]), np.append(ends, end), plan.sol.radius)
                assert value <= made.target + 0.05 * delta


def _most(objective, rows, ends, radius):
    from tensorplan.optimism import Program, solve

    return solve(Program(objective, radius, rows, ends)).bound


def test_a_design_takes_as_many_samples_as_its_accuracy_asks_for(begun):
    problem = tp.make("layered-stochastic/2x3", seed=1)
    planning(problem, delta=0.5, anyway=0.0).plan()
    made, design, model, measurements = begun[0]
    share = measurements.ledger.share("sum", made.number)
    for case, planned in zip(made.cases, design.cases, strict=True):
        sizes = samples_of(planned, model, share)
        assert list(sizes.values()) == list(case.designed)
        wanted = 2 * (math.log(1 / share) + sums.EXTRA) / planned.accuracy**2
        if planned.weights:
            assert wanted <= sum(sizes.values()) * (1 + 1e-9)
            assert sum(sizes.values()) <= wanted + sums.FEWEST * len(sizes)


# ------------------------------------------------------------------------------------------ the fit


def surveyed(problem, seed, n):
    """A table of the states that a few policies meet, with n samples of each action."""
    plan, rng = planning(problem, seed=seed, delta=0.5), np.random.default_rng(0)
    plan.evaluator.first = n
    for _ in range(10):
        plan.evaluator.pilot(np.array([1.0, *rng.standard_normal(problem.dimension)]), 20)
    return plan


def test_a_fit_finds_the_true_parameter():
    for seed in range(5):
        problem = tp.make("layered-stochastic", actions=2, d=3, horizon=5, states=12, seed=seed)
        errors = []
        for n in (8, 2_000):
            plan = surveyed(problem, seed, n)
            view = TableView.of(plan.table.estimates.values(), plan.sol.radius)
            found = fit(view, [np.array([1.0, 0.0, 0.0, 0.0])])
            errors.append(abs(float(plan.root.phi @ found.theta[1:]) - problem.optimal_value(0)))
            assert found.loss < 2
        assert errors[1] < 0.1
        assert errors[0] < 2.0


def test_a_fit_to_few_samples_has_no_great_bias():
    """8 samples per action: max over actions, and noise in features, would shift ordinary least squares."""
    errors = []
    for seed in range(40):
        problem = tp.make("layered-stochastic", actions=2, d=3, horizon=5, states=12, seed=7)
        plan = surveyed(problem, seed, 8)
        view = TableView.of(plan.table.estimates.values(), plan.sol.radius)
        found = fit(view, [np.array([1.0, 0.0, 0.0, 0.0])])
        errors.append(float(plan.root.phi @ found.theta[1:]) - problem.optimal_value(0))
    assert abs(np.mean(errors)) < 0.15


def test_a_view_in_high_dimension_computes_the_same(monkeypatch):
    problem = tp.make("layered-stochastic", actions=2, d=3, horizon=4, states=6, seed=1)
    plan = surveyed(problem, 0, 20)
    one = np.array([1.0, 0.3, -0.2, 0.5])
    dense = TableView.of(plan.table.estimates.values(), plan.sol.radius)
    monkeypatch.setattr("tensorplan.planners.certified.fit.ENTRIES", 3_000)
    sparse = TableView.of(plan.table.estimates.values(), plan.sol.radius)
    same = [dense.numbers[estimate] for estimate in sparse.estimates]
    assert len(same) >= 5
    np.testing.assert_allclose(sparse.all.squares(one), dense.all.squares(one)[same], atol=1e-9)
    for i in range(2):
        np.testing.assert_allclose(sparse.halves[i].squares(one), dense.halves[i].squares(one)[same], atol=1e-9)
