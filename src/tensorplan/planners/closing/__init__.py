"""Closing the gap of certified mode near the limit of information: designed measurements, bets, and cases."""
