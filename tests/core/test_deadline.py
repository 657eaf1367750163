"""Deadlines, and the numbers of seconds that make one."""

import math

import pytest
from clocks import set_clock

import tensorplan as tp
from tensorplan.core import NEVER, Deadline
from tensorplan.core.errors import TimeSpent
from tensorplan.core.specs import seconds


def test_a_deadline_passes_and_can_be_lifted(monkeypatch):
    clock = set_clock(monkeypatch)
    deadline = Deadline(2.0)
    clock.jump(1.5)
    assert (deadline.remaining, deadline.passed) == (0.5, False)
    deadline.check()
    clock.jump(0.5)
    assert (deadline.remaining, deadline.passed) == (0.0, True)
    with pytest.raises(TimeSpent, match="the time limit has passed"):
        deadline.check()
    deadline.lift()
    deadline.check()
    assert deadline.remaining == math.inf


def test_never_does_not_read_the_clock(monkeypatch):
    clock = set_clock(monkeypatch, 1.0)
    NEVER.check()
    assert (NEVER.passed, NEVER.remaining, Deadline().remaining) == (False, math.inf, math.inf)
    assert clock.time == 0.0


def test_whoever_handles_a_spent_budget_handles_this():
    assert issubclass(TimeSpent, tp.BudgetSpent)


@pytest.mark.parametrize("value", [0, -1, 0.0, math.nan, math.inf, "5", None, True, [1]])
def test_seconds_are_positive_numbers(value):
    assert seconds("time_limit", 3) == 3.0
    with pytest.raises(tp.BadInput) as error:
        seconds("time_limit", value)
    assert str(error.value) == f"time_limit must be a positive number of seconds, got {value!r}"
