"""Interleaved timing: contestants take turns, and the median over the rounds is compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping


def race(contestants: Mapping[str, Callable[[], float]], rounds: int = 7) -> dict[str, float]:
    """Median seconds per unit of work; a contestant does its work and returns how many units it did."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, work in contestants.items():
            began = time.perf_counter()
            units = work()
            times[name].append((time.perf_counter() - began) / units)
    return {name: statistics.median(t) for name, t in times.items()}
