"""What ends a planning: written once, so tested once, and then of every planner that has a memory."""

import numpy as np
import pytest
from clocks import set_clock
from helpers import Walk, local, problem

import tensorplan as tp
from tensorplan.core.errors import TimeSpent
from tensorplan.planners.anytime import Planning


class Stub(Planning):
    """A planning that ends as it is told."""

    def __init__(self, end):
        self.access, self.end, self.begun = local(problem(Walk())), end, False

    def _begin(self):
        self.begun = True

    def _search(self):
        if isinstance(self.end, str):
            return self.end
        raise self.end

    def _bracket(self, status):
        return tp.Certificate(2.0, 1.0, status)

    def _policy(self, certificate):
        policy = tp.RandomPlanner().begin(self.access, np.random.default_rng(0))
        object.__setattr__(policy, "certificate", certificate)
        return policy

    def _refutation(self, policy):
        return tp.NotRealizable("no", [], None, None, policy)


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("certified", "certified"),
        ("stopped", "stopped"),
        (tp.BudgetSpent("spent"), "budget"),
        (TimeSpent("spent"), "time"),
        (KeyboardInterrupt(), "interrupted"),
    ],
)
def test_a_policy_acts_whatever_ends_it(end, status):
    planning = Stub(end)
    assert not planning.begun
    assert planning.plan().certificate == tp.Certificate(2.0, 1.0, status)
    assert planning.begun


def test_after_the_deadline_nobody_knows_what_more_search_would_change(monkeypatch):
    clock, planning = set_clock(monkeypatch), Stub("limit")
    planning.access.limit_time(1.0)
    clock.jump(1.0)
    assert planning.plan().certificate.status == "time"
    assert not planning.access.deadline.passed
    assert Stub("limit").plan().certificate.status == "limit"


def test_a_refutation_has_the_policy():
    with pytest.raises(tp.NotRealizable) as refuted:
        Stub("refuted").plan()
    assert refuted.value.policy.certificate.status == "refuted"


def test_an_error_leaves_with_the_bracket():
    with pytest.raises(tp.ProblemError) as error:
        Stub(tp.ProblemError("wrong")).plan()
    assert error.value.certificate == tp.Certificate(2.0, 1.0, "failed")
    with pytest.raises(ZeroDivisionError):
        Stub(ZeroDivisionError()).plan()


@pytest.mark.parametrize(
    "planner",
    [tp.OCP(), tp.SpanPlanner(), tp.BiLinUCB(delta=0.2), tp.TensorPlan(mode="certified", delta=0.2)],
    ids=repr,
)
def test_a_budget_that_is_too_small_for_a_second_look_leaves_the_policy_that_was_settled(planner):
    task, session = tp.make("layered/2x3:horizon=3", kind="vq", states=5, seed=0), planner.session()
    (first,) = tp.run(task, session).episodes
    (again,) = tp.run(task, session, budget=0).episodes
    assert (first.certificate.status, again.certificate.status) == ("certified", "budget")
    assert (again.certificate.lower, again.certificate.upper) == (first.certificate.lower, first.certificate.upper)
    assert (again.actions, again.total_queries) == (first.actions, 0)
