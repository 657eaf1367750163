"""The only registry of planners: ``"uct:simulations=500"`` -> UCT(simulations=500)."""

from __future__ import annotations

from typing import Any

from tensorplan.core import Planner
from tensorplan.core.errors import BadInput
from tensorplan.core.specs import call, lookup, parse
from tensorplan.planners.baselines.confident_lspi import ConfidentLSPI
from tensorplan.planners.baselines.oracle import Oracle
from tensorplan.planners.baselines.random import RandomPlanner
from tensorplan.planners.baselines.root_search import RootSearch
from tensorplan.planners.baselines.sparse_sampling import SparseSampling
from tensorplan.planners.baselines.uct import UCT
from tensorplan.planners.bilin_ucb.planner import BiLinUCB
from tensorplan.planners.linear_q.ocp import OCP
from tensorplan.planners.linear_q.span import SpanPlanner
from tensorplan.planners.linear_q.tensorplan_q import TensorPlanQ
from tensorplan.planners.tensorplan.planner import PaperTensorPlan, TensorPlan

PLANNERS: dict[str, type[Any]] = {
    "tensorplan": TensorPlan,
    "tensorplan-paper": PaperTensorPlan,
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
