"""The only registry of planners: ``"uct:simulations=500"`` -> UCT(simulations=500)."""

from __future__ import annotations

from typing import Any

from tensorplan.core import Planner
from tensorplan.errors import BadInput
from tensorplan.planners.baselines import Oracle, RandomPlanner
from tensorplan.planners.bilin_ucb import BiLinUCB
from tensorplan.planners.confident_lspi import ConfidentLSPI
from tensorplan.planners.ocp import OCP
from tensorplan.planners.root_search import RootSearch
from tensorplan.planners.span import SpanPlanner
from tensorplan.planners.sparse_sampling import SparseSampling
from tensorplan.planners.tensorplan import TensorPlan
from tensorplan.planners.tensorplan_q import TensorPlanQ
from tensorplan.planners.uct import UCT
from tensorplan.specs import call, lookup, parse

PLANNERS: dict[str, type[Any]] = {
    "tensorplan": TensorPlan,
    "tensorplan-q": TensorPlanQ,
    "ocp": OCP,
    "span": SpanPlanner,
    "bilin-ucb": BiLinUCB,
    "confident-lspi": ConfidentLSPI,
    "uct": UCT,
    "sparse-sampling": SparseSampling,
    "root-search": RootSearch,
    "random": RandomPlanner,
    "oracle": Oracle,
}


def make_planner(spec: str, **params: Any) -> Planner:
    """The planner of that name with its parameters."""
    name, size, options = parse(spec)
    if size:
        raise BadInput(f"{spec!r}: a planner takes key=value parameters behind ':', as in 'uct:simulations=500'")
    planner: Planner = call(name, lookup("planner", name, PLANNERS), {**options, **params})
    return planner
