"""The registry of planners by spec, ``"uct:simulations=500"`` -> UCT(simulations=500), user code included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorplan.core import Planner, Problem
from tensorplan.core.errors import BadInput, shown
from tensorplan.core.specs import call, lookup
from tensorplan.core.user_code import is_user_code, load, parse_name
from tensorplan.planners.baselines.confident_lspi import ConfidentLSPI
from tensorplan.planners.baselines.oracle import Oracle
from tensorplan.planners.baselines.random import RandomPlanner
from tensorplan.planners.baselines.root_search import RootSearch
from tensorplan.planners.baselines.sparse_sampling import SparseSampling
from tensorplan.planners.baselines.uct import UCT
from tensorplan.planners.bilin_ucb.planner import BiLinUCB
from tensorplan.planners.hindsight.planner import Hindsight
from tensorplan.planners.linear_q.ocp import OCP
from tensorplan.planners.linear_q.span import SpanPlanner
from tensorplan.planners.linear_q.tensorplan_q import TensorPlanQ
from tensorplan.planners.tensorplan.planner import PaperTensorPlan, TensorPlan
from tensorplan.problems.catalog import CATALOG

PLANNERS: dict[str, type[Any]] = {
    "tensorplan": TensorPlan,
    "tensorplan-paper": PaperTensorPlan,
    "tensorplan-q": TensorPlanQ,
    "ocp": OCP,
    "span": SpanPlanner,
    "hindsight": Hindsight,
    "bilin-ucb": BiLinUCB,
    "confident-lspi": ConfidentLSPI,
    "uct": UCT,
    "sparse-sampling": SparseSampling,
    "root-search": RootSearch,
    "random": RandomPlanner,
    "oracle": Oracle,
}


def make_planner(spec: str, **params: Any) -> Planner:
    """The planner of that name with its parameters.

    ``make_planner("mymodule:MyPlanner:width=3")`` and ``make_planner("./mine.py:MyPlanner")`` import the module or run
    the file, and call the class or function.
    """
    name, build, options = find(spec)
    return _checked(call(name, build, {**options, **params}), f"{name!r} must return a planner, got")


def as_planner(planner: Planner | str) -> Planner:
    """The planner itself, or the one that a spec describes."""
    if isinstance(planner, str):
        return make_planner(planner)
    return _checked(planner, "expected a planner, or the name of one such as 'uct', got")


def find(spec: str) -> tuple[str, Callable[..., Any], dict[str, Any]]:
    """The name, the class and the parameters in a spec."""
    name, size, options = take_apart(spec)
    if is_user_code(name):
        return name, load(name), options
    if name in CATALOG:
        raise BadInput(f"{spec!r} is a problem, not a planner: the problem comes first, then the planner")
    if size:
        raise BadInput(f"{spec!r}: a planner takes key=value parameters behind ':', as in 'uct:simulations=500'")
    return name, lookup("planner", name, PLANNERS), options


def take_apart(spec: str) -> tuple[str, str, dict[str, Any]]:
    """The name, the size (there should be none) and the parameters of a spec; user code keeps its colon."""
    return parse_name(spec, PLANNERS)


def _checked(thing: Any, lead: str) -> Planner:
    """The planner, or BadInput that says what it is instead."""
    if callable(getattr(thing, "begin", None)) and not isinstance(thing, type):
        planner: Planner = thing
        return planner
    raise BadInput(f"{lead} {shown(thing)}{_instead(thing)}")


def _instead(thing: Any) -> str:
    if isinstance(thing, type):
        return ", a class: make an instance of it"
    if isinstance(thing, Problem):
        return ", a problem: the problem comes first, then the planner"
    if hasattr(thing, "act"):
        return ", a policy: a planner has a method begin(access, rng) that returns one"
    return ", a function: call it first" if callable(thing) else ": a planner has a method begin(access, rng)"
