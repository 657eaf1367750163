"""The wall clock of a diagnosis: when to stop, and when to report progress."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

PULSE = 0.5
"""Seconds between two reports of progress."""

Progress = Callable[[str], None]


class Clock:
    """Seconds that are left, and reports of progress on the way; Ctrl-C, where it is handled, ends them too."""

    def __init__(
        self, seconds: float = math.inf, progress: Progress | None = None, *, whole: Clock | None = None
    ) -> None:
        self.seconds, self.progress = seconds, progress
        self.interrupted = False
        """Whether Ctrl-C ended it."""
        self._whole = whole
        self._end = time.perf_counter() + seconds
        self._told = -math.inf

    @property
    def left(self) -> float:
        """Seconds left, 0 at least."""
        return max(0.0, self._end - time.perf_counter())

    @property
    def out(self) -> bool:
        """Whether the time is over."""
        return time.perf_counter() >= self._end or (self._whole is not None and self._whole.out)

    def part(self, share: float) -> Clock:
        """A clock for a share of the seconds left."""
        return Clock(share * self.left, self.progress, whole=self)

    def interrupt(self) -> None:
        """Ctrl-C: the time is over, here and in the clock that this is a part of."""
        self.interrupted, self._end = True, -math.inf
        if self._whole is not None:
            self._whole.interrupt()

    def tell(self, text: Callable[[], str]) -> None:
        """Report progress, unless the last report was a moment ago."""
        now = time.perf_counter()
        if self.progress is not None and now - self._told >= PULSE:
            self._told = now
            self.progress(text())

    def stops(self, text: Callable[[], str]) -> bool:
        """Whether the time is over, after a report of progress."""
        self.tell(text)
        return self.out
