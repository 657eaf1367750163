import numpy as np
import pytest
from finite_noise import problem, random_mdp, values
from helpers import problem as walk

import tensorplan as tp
from tensorplan.access import batches
from tensorplan.access.batches import BatchAccess
from tensorplan.access.meter import Meter
from tensorplan.access.noise import Purpose
from tensorplan.hindsight.fitting.model import Model
from tensorplan.hindsight.fitting.rounds import SampledFitting
from tensorplan.hindsight.scenario import Rules


@pytest.mark.parametrize("horizon", [4, None])
def test_with_many_samples_everywhere_the_fit_is_the_optimum(horizon):
    for seed in range(3):
        task = problem(random_mdp(np.random.default_rng(seed), horizon, states=4), discount=0.8)
        access = BatchAccess(task, Meter(), 0)
        model = Model(access)
        ids = [access.number(state) for state in range(4)]
        for stage in range(horizon or 1):
            model.reached(stage, ids)
        model.add(ids, access.columns(Purpose.FIT, 0, 0, 20_000))
        fit, best = model.fit(), values(task)
        for stage in range(horizon or 1):
            for state in range(4):
                assert fit(state, stage) == pytest.approx(best(state, stage), abs=0.1)


def test_elsewhere_values_are_fitted_on_the_features():
    """Values that are linear in the state, of which some states were sampled only."""
    task = walk(phi_v=lambda state, stage: np.array([1.0, state]) / 10)
    access = BatchAccess(task, Meter(), 0)
    model = Model(access)
    ids = [access.number(state) for state in range(4)]
    for stage in range(6):
        model.reached(stage, ids)
    model.add(ids, access.columns(Purpose.FIT, 0, 0, 4))
    fit = model.fit()
    assert fit(7, 3) == pytest.approx(1.5, abs=1e-3)
    assert fit.action(7, 3) is None
    assert fit.action(2, 3) in (0, 1)


@pytest.mark.parametrize("horizon", [3, None])
def test_samples_of_several_rounds_add_up(horizon):
    task = problem(random_mdp(np.random.default_rng(1), horizon), discount=0.8)
    access = BatchAccess(task, Meter(), 0)
    model = Model(access)
    first, others = [access.number(0)], [access.number(state) for state in range(3)]
    model.reached(0, others)
    model.add(first, access.columns(Purpose.FIT, 0, 0, 10))
    model.add(others, access.columns(Purpose.FIT, 1, 0, 5))
    assert model.samples.tolist() == [15, 5, 5]
    assert model.fit()(0, 0) is not None


def test_fitting_stays_within_its_queries_and_finds_good_values():
    task = problem(random_mdp(np.random.default_rng(3), 5, states=5))
    access = BatchAccess(task, Meter(), 0)
    fitting = SampledFitting(access, lambda index: 0, Rules.of(task))
    fitting.spend(40_000)
    assert access.meter.spent <= 44_000
    assert fitting.fit(0, 0) == pytest.approx(values(task)(0, 0), abs=0.2)


@pytest.mark.parametrize("budget", [0, 1, 10, 100, 1000])
def test_fitting_with_hardly_any_queries(budget):
    task = problem(random_mdp(np.random.default_rng(3), 5, states=5))
    access = BatchAccess(task, Meter(budget), 0)
    fitting = SampledFitting(access, lambda index: 0, Rules.of(task))
    fitting.spend(budget)
    assert np.isfinite(fitting.fit(0, 0))


def test_rounds_go_on_when_numbers_of_states_are_given_anew(monkeypatch):
    """Samples are kept by number: they must not be taken for those of other states."""
    monkeypatch.setattr(batches, "REMEMBERED", 6)
    task = tp.make("lost-sales/1")
    access = BatchAccess(task, Meter(), 0)
    start = task.mdp.start(np.random.default_rng(0))
    fitting = SampledFitting(access, lambda index: start, Rules.of(task))
    fitting.spend(50_000)
    access.forget()
    access.number((0, 0))  # another state has the first number now
    fitting.spend(50_000)
    largest = max(abs(fitting.fit(state, 5) - task.optimal_value(state, 5)) for state in task.mdp.states(5))
    assert largest < 0.5
