"""Processes, clusters, and simulators that run on them."""
