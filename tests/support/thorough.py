"""The tests that ``make quick`` leaves out, from the output of ``pytest --durations=0``: ``thorough.py < output``."""

import re
import sys
from collections import defaultdict

LONG = 0.25
"""Seconds of a test, all its parameters and its fixtures together, from which on it is left out."""
LINE = re.compile(r"\s*([\d.]+)s (?:call|setup|teardown)\s+(\S+?::\w+)")


def thorough(lines):
    """The names of the tests that take long, sorted."""
    seconds = defaultdict(float)
    for line in lines:
        if found := LINE.match(line):
            seconds[found[2]] += float(found[1])
    return sorted(name for name, total in seconds.items() if total > LONG)


if __name__ == "__main__":
    print(*thorough(sys.stdin), sep="\n")
