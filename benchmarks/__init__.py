"""Measurements, each side by side with its rival in one run; figures are ratios, since machines differ."""
