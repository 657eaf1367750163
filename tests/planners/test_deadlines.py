"""A time limit ends the planning of every planner with a certificate: the bracket holds, and the best policy acts."""

import time

import numpy as np
import pytest
from clocks import set_clock
from helpers import Walk, problem

import tensorplan as tp
from tensorplan.core import Deadline
from tensorplan.loop import Driver, Streams
from tensorplan.planners.bilin_ucb.planning import CertifiedBilinPlanning
from tensorplan.planners.certified.planning import CertifiedPlanning
from tensorplan.planners.hindsight.certain import CertainPlanning
from tensorplan.planners.linear_q.replay import ReplayPlanning
from tensorplan.planners.tensorplan.exact import ExactPlanning
from tensorplan.planners.tensorplan.refute import UNKNOWN, look_into
from tensorplan.planners.tensorplan.sol import Sol
from tensorplan.problems.simulate import draw_start

LONG = {
    "certified": ("layered-stochastic/2x3", tp.TensorPlan(delta=0.001, time_limit=1)),
    "exact": ("layered/3x20:horizon=20", tp.TensorPlan(time_limit=0.05)),
    "equations": ("layered/2x100:horizon=20", tp.TensorPlan(time_limit=0.1)),
    "delayed": ("layered/2x5:kind=q:noise=true", tp.TensorPlanQ(delta=0.001, time_limit=1)),
    "ocp": ("layered/9x20:kind=q:horizon=20", tp.OCP(time_limit=0.1)),
    "span": ("layered/9x20:kind=q:horizon=20", tp.SpanPlanner(time_limit=0.1)),
    "bilin": ("layered-stochastic/2x4:kind=vq:horizon=4", tp.BiLinUCB(delta=0.001, time_limit=1)),
    "hindsight": ("layered-stochastic/2x3", tp.Hindsight(delta=0.001, time_limit=5)),
    "certain": ("layered/4x5:horizon=12", tp.Hindsight(delta=0.001, time_limit=1)),
    "lasso": ("layered/3x5:horizon=12", tp.Hindsight(delta=1e-9, budget=100_000, time_limit=0.5)),
}
"""Problems that take far longer than the limit, where a millisecond passes whenever the clock is read."""


def holds(certificate, value):
    """Up to rounding: a path and v* add up the same rewards in another order."""
    return certificate.lower - 1e-9 <= value <= certificate.upper + 1e-9


@pytest.mark.parametrize("case", LONG)
def test_planning_ends_in_time_with_a_bracket_that_holds(monkeypatch, case):
    spec, planner = LONG[case]
    task, clock = tp.make(spec), set_clock(monkeypatch, 1e-3)
    streams = Streams.of(0)
    driver = Driver(task, planner, draw_start(task, streams.world), streams)
    driver.begin()
    ended = clock.time
    assert driver.certificate.status == "time"
    assert holds(driver.certificate, task.optimal_value(driver.state))
    assert planner.time_limit <= ended < planner.time_limit + 0.05
    assert driver.access.spent > 0
    for _ in range(3):  # acting takes queries, and time does not matter for them
        clock.jump(100.0)
        _, state = task.mdp.step(driver.state, driver.act(), streams.world)
        driver.arrive(state)
    assert driver.access.deadline.remaining == np.inf
    driver.close()


def test_a_limit_that_is_not_reached_changes_nothing():
    for planner in (tp.TensorPlan, tp.TensorPlanQ, tp.OCP, tp.SpanPlanner, tp.BiLinUCB, tp.Hindsight):
        task = tp.make("layered/2x3:horizon=3", kind="vq", states=5)
        limited, free = (tp.run(task, planner(time_limit=limit)).episodes[0] for limit in (1_000, None))
        assert limited.certificate == free.certificate
        assert (limited.actions, limited.queries) == (free.actions, free.queries)
        assert free.certificate.status == "certified"


@pytest.mark.parametrize(
    ("planning", "method", "planner", "spec"),
    [
        (ExactPlanning, "_challenge", tp.TensorPlan, "layered/2x3"),
        (ExactPlanning, "_recheck", tp.TensorPlan, "layered/2x3"),
        (CertifiedPlanning, "_challenge", tp.TensorPlan, "layered-stochastic/2x3"),
        (ReplayPlanning, "_challenged", tp.OCP, "layered/2x3:kind=q"),
        (ReplayPlanning, "_challenged", tp.SpanPlanner, "layered/2x3:kind=q"),
        (CertifiedBilinPlanning, "_challenged", tp.BiLinUCB, "layered-stochastic/2x3:kind=vq"),
        (CertainPlanning, "_recheck", tp.Hindsight, "layered/2x3"),
    ],
)
def test_what_was_not_attacked_to_the_end_is_not_certified(monkeypatch, planning, method, planner, spec):
    task, clock, whole = tp.make(spec), set_clock(monkeypatch), getattr(planning, method)
    assert tp.run(task, planner(time_limit=1)).episodes[0].certificate.status == "certified"

    def late(self, *arguments):
        clock.jump(1e4)
        return whole(self, *arguments)

    monkeypatch.setattr(planning, method, late)
    (episode,) = tp.run(task, planner(time_limit=1)).episodes
    assert episode.certificate.status == "time"
    assert holds(episode.certificate, task.optimal_value(episode.start))


def test_the_bound_that_needs_no_features_may_be_cut_short(monkeypatch):
    task, clock, whole = tp.make("layered-stochastic/2x3"), set_clock(monkeypatch), CertifiedPlanning._bound_anyway

    def late(self):
        clock.jump(1e4)
        return whole(self)

    monkeypatch.setattr(CertifiedPlanning, "_bound_anyway", late)
    (episode,) = tp.run(task, tp.TensorPlan(time_limit=1)).episodes
    assert (episode.certificate.status, episode.certificate.upper_anyway) == ("certified", np.inf)


def test_a_session_goes_on_where_the_time_was_over(monkeypatch):
    set_clock(monkeypatch, 1e-3)
    task = tp.make("layered-stochastic/2x3")
    run = tp.run(task, tp.TensorPlan(delta=0.05, time_limit=1), episodes=4)
    widths = [episode.certificate.gap for episode in run.episodes]
    assert run.episodes[0].certificate.status == "time"
    assert widths[-1] < widths[0]


# ------------------------------------------------------------------------------------------ searches


def hard_sol(dimension=20):
    """A set that takes a search of minutes."""
    rng, sol = np.random.default_rng(0), Sol(dimension, 1.0)
    for k in range(60):
        slopes = rng.standard_normal((3, dimension)) / np.sqrt(dimension)
        sol.disjunction(("place", k), np.column_stack([0.1 * rng.standard_normal(3), slopes]), 1e-6)
    sol.aim(np.ones(dimension) / np.sqrt(dimension))
    return sol


def test_a_search_ends_in_the_middle():
    sol = hard_sol()
    sol.optimum(1_000)  # machine code is loaded
    sol.aim(np.ones(20) / np.sqrt(20), Deadline(0.3))
    began = time.perf_counter()
    found = sol.optimum()
    assert (found.status, time.perf_counter() - began < 5) == ("limit", True)
    assert found.bound >= found.value
    assert sol.deadline.passed
    assert sol.optimum().nodes < 1_000


def test_the_exact_mode_keeps_the_bound_of_a_search_that_was_cut_short():
    task = tp.make("layered/4x40:horizon=20")
    began = time.perf_counter()
    (episode,) = tp.run(task, tp.TensorPlan(eta=0.01, time_limit=0.5)).episodes
    assert time.perf_counter() - began < 20  # it would take hours
    assert episode.certificate.status == "time"
    assert holds(episode.certificate, task.optimal_value(episode.start))
    assert episode.certificate.upper < 20


def test_large_proofs_are_not_written_after_the_deadline(monkeypatch):
    clock, sol = set_clock(monkeypatch), hard_sol()
    sol.aim(np.ones(20) / np.sqrt(20), Deadline(1e6))
    sol.optimum(20_000)
    assert sol.provable
    clock.jump(2e6)
    assert not sol.provable
    small = hard_sol()
    small.aim(np.ones(20), Deadline(1.0))
    clock.jump(1e4)
    assert small.provable


# ------------------------------------------------------------------------------------------ refutations


def test_a_refutation_stands_when_the_time_is_over(monkeypatch):
    clock, whole = set_clock(monkeypatch), ExactPlanning._refutation

    def late(self, policy):
        clock.jump(1e4)
        return whole(self, policy)

    monkeypatch.setattr(ExactPlanning, "_refutation", late)
    task = problem(Walk(deterministic_transitions=True, deterministic_rewards=True), lambda s, t: np.ones(1) * 0.1)
    with pytest.raises(tp.NotRealizable, match=UNKNOWN) as error:
        tp.run(task, tp.TensorPlan(time_limit=1))
    assert (error.value.eta, error.value.bound) == (None, None)
    assert error.value.run.episodes[0].certificate.status == "refuted"


def test_a_conflict_is_not_looked_into_after_the_deadline(monkeypatch):
    clock, sol = set_clock(monkeypatch), Sol(1, 1.0)
    for k, (low, high) in enumerate([(0.5, 1.0), (-1.0, -0.5), (-1.0, 1.0)]):
        sol.values(("place", k), np.ones(1), low, high)
    sol.aim(np.ones(1), Deadline(1.0))
    assert look_into(sol).places == [("place", 0), ("place", 1)]
    clock.jump(1e4)
    assert look_into(sol) == ([("place", 0), ("place", 1), ("place", 2)], None, None)


# ------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize("planner", [tp.TensorPlan, tp.TensorPlanQ, tp.OCP, tp.SpanPlanner, tp.BiLinUCB, tp.Hindsight])
@pytest.mark.parametrize("limit", [0, -2.5, "soon", np.nan])
def test_limits_are_positive(planner, limit):
    with pytest.raises(tp.BadInput) as error:
        planner(time_limit=limit)
    assert str(error.value) == f"time_limit must be a positive number of seconds, got {limit!r}"


@pytest.mark.parametrize("planner", [tp.TensorPlan, tp.TensorPlanQ, tp.BiLinUCB])
def test_the_pseudocode_has_no_time_limit(planner):
    with pytest.raises(tp.BadInput) as error:
        planner(mode="paper", time_limit=3)
    assert str(error.value) == "time_limit is not for mode 'paper', which runs to the end: give a budget"


def test_the_limit_is_shown_where_it_is_given():
    assert [repr(tp.OCP()), repr(tp.SpanPlanner(time_limit=2))] == ["OCP()", "SpanPlanner(time_limit=2)"]
