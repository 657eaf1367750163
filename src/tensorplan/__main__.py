"""``python -m tensorplan``."""

from tensorplan.cli.main import main

main()
