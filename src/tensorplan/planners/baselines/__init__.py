"""Baselines: search and regression planners, random actions and the optimal policy."""
