"""Online planning with a simulator and linear features, with a proof attached."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_WHERE = {
    "tensorplan.core": (
        "END MDP Access BadInput BudgetSpent Certificate Episode Node NotReached Outcome Planner Policy Problem "
        "ProblemError Refused Run Sample TensorplanError Trail Walk"
    ),
    "tensorplan.access": "GlobalAccess LocalAccess",
    "tensorplan.problems.tabular": "TabularMDP evaluate_tabular solve_tabular",
    "tensorplan.problems.featurize": "featurize",
    "tensorplan.problems.catalog": "make",
    "tensorplan.planners.baselines": "Oracle RandomPlanner",
    "tensorplan.planners.sparse_sampling": "SparseSampling",
    "tensorplan.planners.uct": "UCT",
    "tensorplan.planners.registry": "make_planner",
    "tensorplan.loop": "run",
    "tensorplan.lab.judge": "Verdict judge",
    "tensorplan.lab.stats": "Interval query_cost",
    "tensorplan.lab.compare": "compare",
}
_HOME = {name: module for module, names in _WHERE.items() for name in names.split()}

__all__ = sorted(_HOME)

if TYPE_CHECKING:
    from tensorplan.access import GlobalAccess, LocalAccess
    from tensorplan.core import (
        END,
        MDP,
        Access,
        BadInput,
        BudgetSpent,
        Certificate,
        Episode,
        Node,
        NotReached,
        Outcome,
        Planner,
        Policy,
        Problem,
        ProblemError,
        Refused,
        Run,
        Sample,
        TensorplanError,
        Trail,
        Walk,
    )
    from tensorplan.lab.compare import compare
    from tensorplan.lab.judge import Verdict, judge
    from tensorplan.lab.stats import Interval, query_cost
    from tensorplan.loop import run
    from tensorplan.planners.baselines import Oracle, RandomPlanner
    from tensorplan.planners.registry import make_planner
    from tensorplan.planners.sparse_sampling import SparseSampling
    from tensorplan.planners.uct import UCT
    from tensorplan.problems.catalog import make
    from tensorplan.problems.featurize import featurize
    from tensorplan.problems.tabular import TabularMDP, evaluate_tabular, solve_tabular


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``import tensorplan`` stays fast."""
    if name not in _HOME:
        raise AttributeError(f"module 'tensorplan' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
