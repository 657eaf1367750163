"""Online planning with a simulator and linear features, with a proof attached."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_WHERE = {
    "tensorplan.core": (
        "END MDP Access Certificate Episode Learner Node Outcome Planner Policy Problem Run Sample Trail Walk"
    ),
    "tensorplan.errors": (
        "BadInput BudgetSpent CertificateError NotReached NotRealizable ProblemError ProgramError Refused "
        "TensorplanError"
    ),
    "tensorplan.access": "GlobalAccess LocalAccess",
    "tensorplan.problems.tabular": "TabularMDP evaluate_tabular solve_tabular",
    "tensorplan.problems.featurize": "featurize",
    "tensorplan.problems.catalog": "make",
    "tensorplan.problems.gym": "from_gym",
    "tensorplan.planners.baselines": "Oracle RandomPlanner",
    "tensorplan.planners.sparse_sampling": "SparseSampling",
    "tensorplan.planners.uct": "UCT",
    "tensorplan.planners.ocp": "OCP",
    "tensorplan.planners.span": "SpanPlanner",
    "tensorplan.planners.bilin_ucb": "BiLinUCB",
    "tensorplan.planners.confident_lspi": "ConfidentLSPI",
    "tensorplan.planners.root_search": "RootSearch",
    "tensorplan.planners.tensorplan": "TensorPlan",
    "tensorplan.planners.tensorplan_q": "TensorPlanQ",
    "tensorplan.planners.constants": "Constants constants",
    "tensorplan.planners.trace": "Iteration Trace",
    "tensorplan.problems.delayed": "delayed",
    "tensorplan.problems.binarized": "binarize",
    "tensorplan.access.delayed": "DelayedAccess",
    "tensorplan.proofs": "Checked Proof check",
    "tensorplan.intervals": "Interval",
    "tensorplan.planners.registry": "make_planner",
    "tensorplan.loop": "run",
    "tensorplan.bridges.agent": "PlannerAgent",
    "tensorplan.bridges.gymnasium_env": "register_envs to_gym",
    "tensorplan.features": "FeatureMap Frame",
    "tensorplan.lab.diagnose": "Diagnosis diagnose",
    "tensorplan.lab.fit_features": "fit_features",
    "tensorplan.lab.judge": "Verdict judge",
    "tensorplan.lab.stats": "query_cost",
    "tensorplan.lab.compare": "compare",
}
_HOME = {name: module for module, names in _WHERE.items() for name in names.split()}

__all__ = sorted(_HOME)

if TYPE_CHECKING:
    from tensorplan.access import GlobalAccess as GlobalAccess
    from tensorplan.access import LocalAccess as LocalAccess
    from tensorplan.access.delayed import DelayedAccess as DelayedAccess
    from tensorplan.bridges.agent import PlannerAgent as PlannerAgent
    from tensorplan.bridges.gymnasium_env import register_envs as register_envs
    from tensorplan.bridges.gymnasium_env import to_gym as to_gym
    from tensorplan.core import END as END
    from tensorplan.core import MDP as MDP
    from tensorplan.core import Access as Access
    from tensorplan.core import Certificate as Certificate
    from tensorplan.core import Episode as Episode
    from tensorplan.core import Learner as Learner
    from tensorplan.core import Node as Node
    from tensorplan.core import Outcome as Outcome
    from tensorplan.core import Planner as Planner
    from tensorplan.core import Policy as Policy
    from tensorplan.core import Problem as Problem
    from tensorplan.core import Run as Run
    from tensorplan.core import Sample as Sample
    from tensorplan.core import Trail as Trail
    from tensorplan.core import Walk as Walk
    from tensorplan.errors import BadInput as BadInput
    from tensorplan.errors import BudgetSpent as BudgetSpent
    from tensorplan.errors import CertificateError as CertificateError
    from tensorplan.errors import NotReached as NotReached
    from tensorplan.errors import NotRealizable as NotRealizable
    from tensorplan.errors import ProblemError as ProblemError
    from tensorplan.errors import ProgramError as ProgramError
    from tensorplan.errors import Refused as Refused
    from tensorplan.errors import TensorplanError as TensorplanError
    from tensorplan.features import FeatureMap as FeatureMap
    from tensorplan.features import Frame as Frame
    from tensorplan.intervals import Interval as Interval
    from tensorplan.lab.compare import compare as compare
    from tensorplan.lab.diagnose import Diagnosis as Diagnosis
    from tensorplan.lab.diagnose import diagnose as diagnose
    from tensorplan.lab.fit_features import fit_features as fit_features
    from tensorplan.lab.judge import Verdict as Verdict
    from tensorplan.lab.judge import judge as judge
    from tensorplan.lab.stats import query_cost as query_cost
    from tensorplan.loop import run as run
    from tensorplan.planners.baselines import Oracle as Oracle
    from tensorplan.planners.baselines import RandomPlanner as RandomPlanner
    from tensorplan.planners.bilin_ucb import BiLinUCB as BiLinUCB
    from tensorplan.planners.confident_lspi import ConfidentLSPI as ConfidentLSPI
    from tensorplan.planners.constants import Constants as Constants
    from tensorplan.planners.constants import constants as constants
    from tensorplan.planners.ocp import OCP as OCP
    from tensorplan.planners.registry import make_planner as make_planner
    from tensorplan.planners.root_search import RootSearch as RootSearch
    from tensorplan.planners.span import SpanPlanner as SpanPlanner
    from tensorplan.planners.sparse_sampling import SparseSampling as SparseSampling
    from tensorplan.planners.tensorplan import TensorPlan as TensorPlan
    from tensorplan.planners.tensorplan_q import TensorPlanQ as TensorPlanQ
    from tensorplan.planners.trace import Iteration as Iteration
    from tensorplan.planners.trace import Trace as Trace
    from tensorplan.planners.uct import UCT as UCT
    from tensorplan.problems.binarized import binarize as binarize
    from tensorplan.problems.catalog import make as make
    from tensorplan.problems.delayed import delayed as delayed
    from tensorplan.problems.featurize import featurize as featurize
    from tensorplan.problems.gym import from_gym as from_gym
    from tensorplan.problems.tabular import TabularMDP as TabularMDP
    from tensorplan.problems.tabular import evaluate_tabular as evaluate_tabular
    from tensorplan.problems.tabular import solve_tabular as solve_tabular
    from tensorplan.proofs import Checked as Checked
    from tensorplan.proofs import Proof as Proof
    from tensorplan.proofs import check as check


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that ``import tensorplan`` stays fast."""
    if name not in _HOME:
        raise AttributeError(f"module 'tensorplan' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
