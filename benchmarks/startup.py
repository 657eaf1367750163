"""What it costs to begin: importing the package, and ``tensorplan list``, against a bare interpreter with numpy."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.timing import race


def main() -> None:
    def python(*arguments: str) -> float:
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        return 1

    seconds = race(
        {
            "python": lambda: python("-c", "pass"),
            "import numpy": lambda: python("-c", "import numpy"),
            "import tensorplan": lambda: python("-c", "import tensorplan"),
            "tensorplan list": lambda: python("-m", "tensorplan", "list"),
        }
    )
    print("start-up")
    for name, value in seconds.items():
        print(f"  {name:<18} {value:6.3f} s, {value - seconds['python']:6.3f} s more than the bare interpreter")


if __name__ == "__main__":
    main()
