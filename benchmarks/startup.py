"""What it costs to begin: importing the package, ``tensorplan list``, a first answer, and compiling the optimiser.

The first answer and compiling start from an empty cache of machine code; ``compiling everything`` is in CPU seconds.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile

from benchmarks.timing import race

COMPILE = "from tensorplan.optimism.search import compile_now; compile_now()"


def python(*arguments: str) -> float:
    """Run an interpreter with an empty cache of machine code."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=environment)
    return 1


def compiling() -> float:
    """CPU seconds of compiling all of the optimiser, the import of the package included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    python("-c", COMPILE)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    seconds = race(
        {
            "python": lambda: python("-c", "pass"),
            "import numpy": lambda: python("-c", "import numpy"),
            "import tensorplan": lambda: python("-c", "import tensorplan"),
            "tensorplan list": lambda: python("-m", "tensorplan", "list"),
            "plan hanoi/8": lambda: python("-m", "tensorplan", "plan", "hanoi/8"),
        }
    )
    print("start-up, with an empty cache of machine code")
    for name, value in seconds.items():
        print(f"  {name:<18} {value:6.3f} s, {value - seconds['python']:6.3f} s more than the bare interpreter")
    print(f"  compiling everything, CPU time: {compiling():.1f} s")


if __name__ == "__main__":
    main()
