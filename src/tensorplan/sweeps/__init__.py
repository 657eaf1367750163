"""Resumable sweeps of many runs, their store and their statistics."""
