"""The MDPs of lower bounds."""
