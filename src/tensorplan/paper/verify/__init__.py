"""Exact checks of the claims about the lower bounds' MDPs."""
