"""Meters that are watched: queries end when somebody says so, and what was spent stays counted."""

import pytest

import tensorplan as tp
from tensorplan.access.meter import Allowance, Meter, WatchedMeter
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
