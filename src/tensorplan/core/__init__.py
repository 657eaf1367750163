"""The shared types: problems, planners, the access object between them, and the records of a run.

Section 2 of Weisz, Szepesvári and György (2022) is the specification.  An :class:`MDP` is a simulator;
a :class:`Problem` adds features and the bound B; a :class:`Planner` sees :class:`Node` objects and queries an
:class:`Access` at them; the loop records the outcome as an :class:`Episode`.
"""

from tensorplan.core.access import NEVER, Access, Deadline, Node, Outcome, Sample, Trail, Walk
from tensorplan.core.mdp import (
    DECLARATIONS,
    END,
    MDP,
    Array,
    Batched,
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
    "NEVER",
    "NORM_SLACK",
    "Access",
    "Array",
    "Batched",
    "Certificate",
    "Deadline",
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
