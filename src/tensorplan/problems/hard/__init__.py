"""The hard MDPs of lower bounds."""
