"""Proofs as plain files: what a certificate rests on, and a checker that believes nothing else.

A proof holds the transcript of a planning run (states with their features, answers or sample means, returns), the rows
of the last program with where each came from, and the tree that bounds it.  The checker derives every row from the
transcript again, with formulas written anew, verifies the tree with :func:`tensorplan.optimism.verify`, and says what
is proved and under which assumption.  It shares no code with the planners.
"""

from tensorplan.proofs.checker import Checked, check
from tensorplan.proofs.proof import Proof

__all__ = ["Checked", "Proof", "check"]
