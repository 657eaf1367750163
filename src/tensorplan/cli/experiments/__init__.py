"""The commands for experiments: the paper's claims, and sweeps."""
