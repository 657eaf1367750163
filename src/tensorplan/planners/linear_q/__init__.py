"""Planners for linear q* and deterministic transitions."""
