"""The only registry of planners: ``"uct:simulations=500"`` -> UCT(simulations=500)."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
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
from tensorplan.planners.bilin_ucb.config import BiLinUCB
from tensorplan.planners.linear_q.ocp import OCP
from tensorplan.planners.linear_q.span import SpanPlanner
from tensorplan.planners.linear_q.tensorplan_q import TensorPlanQ
from tensorplan.planners.tensorplan.config import TensorPlan

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
    name, build, options = planner_parts(spec)
    planner: Planner = call(name, build, {**options, **params})
    return planner


def planner_parts(spec: str) -> tuple[str, Callable[..., Any], dict[str, Any]]:
    """Name, builder and parameters of ``"uct:simulations=500"`` or ``"package.module:Planner:key=value"``."""
    module, _, rest = spec.partition(":")
    attribute, _, options = rest.partition(":")
    if "." in module and "=" not in attribute:
        _, _, params = parse(f"{attribute}:{options}" if options else attribute)
        return f"{module}:{attribute}", _imported(module, attribute), params
    name, size, params = parse(spec)
    if size:
        raise BadInput(f"{spec!r}: a planner takes key=value parameters behind ':', as in 'uct:simulations=500'")
    return name, lookup("planner", name, PLANNERS), params


def _imported(module: str, attribute: str) -> Callable[..., Any]:
    try:
        found: Callable[..., Any] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise BadInput(f"cannot import the planner '{module}:{attribute}': {error}") from None
    return found
