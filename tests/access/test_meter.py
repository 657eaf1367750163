"""Meters that are watched, or timed: queries end when somebody says so, and what was spent stays counted."""

import math

import pytest
from clocks import set_clock
from helpers import Coins, local, problem

import tensorplan as tp
from tensorplan.access.delayed import DelayedAccess
from tensorplan.access.meter import Allowance, Meter, TimedMeter, WatchedMeter
from tensorplan.core import Deadline
from tensorplan.core.errors import TimeSpent
from tensorplan.loop import Driver, Streams


def test_a_watched_meter_ends_when_it_is_told_to():
    seen = []
    meter = WatchedMeter(Meter(10), lambda spent: seen.append(spent) or spent >= 4)
    meter.charge(3)
    assert (meter.spent, meter.remaining) == (3, 7)
    meter.check()
    meter.charge(1)
    assert (meter.left, meter.spent, meter.remaining) == (0, 4, 0)
    with pytest.raises(tp.BudgetSpent):
        meter.charge(1)
    with pytest.raises(tp.BudgetSpent, match="stopped after 4"):
        Allowance(meter, 100).check()
    assert seen[0] == 0
    assert seen[-1] == 4


def test_a_meter_without_a_budget_ends_as_well():
    meter = WatchedMeter(Meter(), lambda spent: spent == 2)
    meter.charge(2)
    assert (meter.remaining, meter.spent) == (0, 2)


def test_a_meter_that_is_not_watched_never_stops():
    meter = Meter(0)
    meter.check()
    Allowance(meter, 0).check()


@pytest.mark.parametrize("planner", [tp.TensorPlan(), tp.TensorPlan(anyway=0.5), tp.UCT()])
def test_planners_end_as_if_the_budget_were_spent(planner):
    task = tp.make("layered-stochastic/2x3")
    driver = Driver(task, planner, 0, Streams.of(0))
    driver.watch(lambda spent: spent >= 100)
    try:
        driver.begin()
        driver.act()
    except tp.BudgetSpent:
        pass
    finally:
        driver.close()
    assert 0 < driver.charge() < 1000


# ------------------------------------------------------------------------------------------ with a deadline


def test_a_timed_meter_counts_like_the_other_one_until_the_deadline(monkeypatch):
    clock = set_clock(monkeypatch)
    whole = Meter(10)
    meter = TimedMeter(whole, Deadline(1.0))
    meter.charge(3)
    meter.left -= 1
    meter.check()
    assert (meter.spent, meter.left, meter.remaining, meter.budget, whole.left) == (4, 6, 6, 10, 6)
    with pytest.raises(tp.BudgetSpent, match="4 used") as spent:
        meter.charge(7)
    assert not isinstance(spent.value, TimeSpent)
    clock.jump(1.0)
    assert (meter.spent, meter.left, meter.remaining) == (4, 0, 6)
    for late in (meter, Allowance(meter, 5)):
        assert late.deadline is meter.deadline
        with pytest.raises(TimeSpent):
            late.charge(1)
        with pytest.raises(TimeSpent):
            late.check()
    meter.deadline.lift()
    meter.charge(1)
    meter.limit(2)
    assert (whole.spent, whole.left) == (5, 2)
    assert whole.deadline.remaining == math.inf


@pytest.mark.parametrize(
    ("spec", "delayed"),
    [("layered/2x3:kind=vq", False), ("layered/2x3:kind=vq", True), ("layered-stochastic/2x3", False)],
)
def test_queries_end_at_the_deadline_however_they_are_made(monkeypatch, spec, delayed):
    clock, access = set_clock(monkeypatch), local(tp.make(spec))
    access = DelayedAccess(access) if delayed else access
    node = access.query(access.root, 0)[0].next
    access.limit_time(None)
    assert access.deadline.remaining == math.inf
    access.limit_time(2.0)
    assert access.deadline.remaining == 2.0
    spent = access.spent
    clock.jump(2.0)
    for query in (
        lambda: access.query(node, 1),
        lambda: access.sample(node, 1, 3),
        lambda: access.sample_all(node, 2),
        lambda: access.recheck(node, 1),
        lambda: access.follow(node, [1, 1]),
        lambda: access.walk(node, lambda here: 1),
    ):
        with pytest.raises(TimeSpent):
            query()
    assert access.spent == spent
    access.deadline.lift()
    access.query(node, 1)


def test_one_by_one_samples_end_in_the_middle(monkeypatch):
    clock, task = set_clock(monkeypatch), problem(Coins())
    access, steps = local(task), []

    def step(state, action, rng):
        clock.jump(0.25)
        steps.append(action)
        return 0.0, state

    monkeypatch.setattr(access, "_step", step)
    access.limit_time(1.0)
    with pytest.raises(TimeSpent):
        access.sample(access.root, 0, 1_000)
    assert len(steps) == 4


def test_the_earlier_of_two_deadlines_counts(monkeypatch):
    clock, access = set_clock(monkeypatch), local(problem(Coins()))
    for seconds, remaining in ((3.0, 3.0), (9.0, 3.0), (2.0, 2.0)):
        access.limit_time(seconds)
        assert access.deadline.remaining == remaining
    access.deadline.lift()
    access.query(access.root, 0)
    clock.jump(3.0)
    with pytest.raises(TimeSpent):
        access.query(access.root, 0)
