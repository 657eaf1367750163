"""Two options with published prices: a 95% bracket on each, from polynomials that realize nothing.

Run it with ``python examples/options.py``; docs/cases/options.md says what it shows.
"""

import tensorplan as tp

PUBLISHED = {"put/36-20-1": 4.478, "max-call/2": 13.902}
"""Longstaff and Schwartz (2001), Table 1, by finite differences; Andersen and Broadie (2004), by a lattice."""

for name, price in PUBLISHED.items():
    audit = tp.audit(name, "greedy", budget=8_000_000)
    width = 100 * (audit.upper - audit.lower) / price
    print(f"{name}: published {price:.3f}, ours [{audit.lower:.3f}, {audit.upper:.3f}], {width:.1f}% wide")
    print(f"  {audit.queries:,} queries; {audit.sentence}\n")
