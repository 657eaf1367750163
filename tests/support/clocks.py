"""A clock for time limits that does not depend on the machine."""

import tensorplan.core.access


class Clock:
    """Moves on by ``step`` seconds whenever it is read, and by ``jump(seconds)``."""

    def __init__(self, step=0.0):
        self.time, self.step = 0.0, step

    def __call__(self):
        self.time += self.step
        return self.time

    def jump(self, seconds):
        self.time += seconds


def set_clock(monkeypatch, step=0.0):
    """All deadlines read this clock."""
    clock = Clock(step)
    monkeypatch.setattr(tensorplan.core.access, "now", clock)
    return clock
