"""Waiting for what another process or thread does."""

import time

PAUSE = 0.01
"""Seconds between two looks."""


def wait_for(condition, seconds=60.0):
    """Look again and again until the condition holds, which it must within so many seconds."""
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(PAUSE)
    assert found, f"not within {seconds:g} seconds"
    return found
