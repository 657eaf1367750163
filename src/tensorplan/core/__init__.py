"""The shared nouns: what a problem is, what a planner is, and what the two may say to each other.

Section 2 of Weisz, Szepesvári and György (2022) is the specification.  An :class:`MDP` is a simulator;
a :class:`Problem` adds features and the bound B; a :class:`Planner` sees :class:`Node` objects and asks an
:class:`Access` about them; the loop turns the conversation into an :class:`Episode`.
"""

from tensorplan.core.access import Access, Node, Outcome, Sample, Trail, Walk
from tensorplan.core.mdp import (
    DECLARATIONS,
    END,
    MDP,
    Array,
    End,
    Enumerable,
    Features,
    OptimalValues,
    State,
    Vectorised,
    return_range,
)
from tensorplan.core.planner import Learner, Planner, Policy
from tensorplan.core.problem import NORM_SLACK, Problem
from tensorplan.core.records import Certificate, Episode, Run

__all__ = [
    "DECLARATIONS",
    "END",
    "MDP",
    "NORM_SLACK",
    "Access",
    "Array",
    "Certificate",
    "End",
    "Enumerable",
    "Episode",
    "Features",
    "Learner",
    "Node",
    "OptimalValues",
    "Outcome",
    "Planner",
    "Policy",
    "Problem",
    "Run",
    "Sample",
    "State",
    "Trail",
    "Vectorised",
    "Walk",
    "return_range",
]
