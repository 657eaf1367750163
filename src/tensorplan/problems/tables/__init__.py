"""Explicit MDPs, solved exactly."""
