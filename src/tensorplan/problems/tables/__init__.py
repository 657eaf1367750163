"""Explicit finite MDPs, and exact solutions by dynamic programming."""
