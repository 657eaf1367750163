"""``python -m tensorplan``."""

from tensorplan.cli import main

main()
