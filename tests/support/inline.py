"""An engine in this process, to look at an experiment alone."""

from tensorplan.sweeps import engines
from tensorplan.sweeps.unit import play


class Inline:
    """``interrupt``: the number of the unit at which Ctrl-C is pressed, counted from 1."""

    slots = 2

    def __init__(self, work=play, interrupt=None):
        self.work, self.interrupt = work, interrupt
        self.taken, self.asked, self.closed = [], [], False

    def submit(self, unit):
        assert len(self.taken) < self.slots
        self.taken.append(unit)
        self.asked.append(unit.row.id)

    def wait(self, seconds):
        unit = self.taken.pop(0)
        if self.asked.index(unit.row.id) + 1 == self.interrupt:
            raise KeyboardInterrupt
        return [(unit, engines.attempt(unit, self.work, lambda row: None))]

    def close(self):
        self.closed = True
