"""The commands that measure: the paper, and sweeps."""
