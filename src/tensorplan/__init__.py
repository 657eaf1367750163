"""Online planning with a simulator and linear features, with a proof attached."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_WHERE = {
    "tensorplan.core": (
        "END MDP Access Batched Certificate Episode Learner Node Outcome Planner Policy Problem Run Sample Trail Walk"
    ),
    "tensorplan.core.errors": (
        "BadInput BudgetSpent CertificateError NotReached NotRealizable ProblemError ProgramError Refused "
        "TensorplanError"
    ),
    "tensorplan.access": "GlobalAccess LocalAccess",
    "tensorplan.problems.tables.tabular": "TabularMDP evaluate_tabular solve_tabular",
    "tensorplan.problems.random.featurize": "featurize",
    "tensorplan.problems.catalog": "make",
    "tensorplan.problems.gym.convert": "from_gym",
    "tensorplan.problems.gym.restoring.adapters": "register_restore",
    "tensorplan.planners.baselines.oracle": "Oracle",
    "tensorplan.planners.baselines.random": "RandomPlanner",
    "tensorplan.planners.baselines.sparse_sampling": "SparseSampling",
    "tensorplan.planners.baselines.uct": "UCT",
    "tensorplan.planners.hindsight.planner": "Hindsight",
    "tensorplan.planners.linear_q.ocp": "OCP",
    "tensorplan.planners.linear_q.span": "SpanPlanner",
    "tensorplan.planners.bilin_ucb.planner": "BiLinUCB",
    "tensorplan.planners.baselines.confident_lspi": "ConfidentLSPI",
    "tensorplan.planners.baselines.root_search": "RootSearch",
    "tensorplan.planners.tensorplan.planner": "PaperTensorPlan TensorPlan",
    "tensorplan.planners.linear_q.tensorplan_q": "TensorPlanQ",
    "tensorplan.planners.printed.constants": "Constants constants",
    "tensorplan.planners.tensorplan.trace": "Iteration Trace",
    "tensorplan.problems.transforms.delayed": "delayed",
    "tensorplan.problems.transforms.binarized": "binarize",
    "tensorplan.access.delayed": "DelayedAccess",
    "tensorplan.proofs": "Checked Proof check",
    "tensorplan.core.intervals": "Interval",
    "tensorplan.planners.registry": "make_planner",
    "tensorplan.loop": "run",
    "tensorplan.bridges.agent": "PlannerAgent",
    "tensorplan.bridges.gymnasium_env": "register_envs to_gym",
    "tensorplan.features": "FeatureMap Frame",
    "tensorplan.diagnosis.diagnosis": "Diagnosis diagnose",
    "tensorplan.diagnosis.fit_features": "fit_features",
    "tensorplan.evaluation.audit": "Audit audit",
    "tensorplan.evaluation.verdict": "Verdict judge",
    "tensorplan.evaluation.estimates": "query_cost student",
    "tensorplan.evaluation.sessions": "side_by_side",
    "tensorplan.evaluation.compare": "compare",
}
_ROOMS = ("features", "game", "optimism", "proofs", "testing")
"""Modules that are public as a whole."""

_HOME = {name: module for module, names in _WHERE.items() for name in names.split()}

__all__ = sorted([*_HOME, *_ROOMS])

if TYPE_CHECKING:
    from tensorplan import features as features
    from tensorplan import game as game
    from tensorplan import optimism as optimism
    from tensorplan import proofs as proofs
    from tensorplan import testing as testing
    from tensorplan.access import GlobalAccess as GlobalAccess
    from tensorplan.access import LocalAccess as LocalAccess
    from tensorplan.access.delayed import DelayedAccess as DelayedAccess
    from tensorplan.bridges.agent import PlannerAgent as PlannerAgent
    from tensorplan.bridges.gymnasium_env import register_envs as register_envs
    from tensorplan.bridges.gymnasium_env import to_gym as to_gym
    from tensorplan.core import END as END
    from tensorplan.core import MDP as MDP
    from tensorplan.core import Access as Access
    from tensorplan.core import Batched as Batched
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
    from tensorplan.core.errors import BadInput as BadInput
    from tensorplan.core.errors import BudgetSpent as BudgetSpent
    from tensorplan.core.errors import CertificateError as CertificateError
    from tensorplan.core.errors import NotReached as NotReached
    from tensorplan.core.errors import NotRealizable as NotRealizable
    from tensorplan.core.errors import ProblemError as ProblemError
    from tensorplan.core.errors import ProgramError as ProgramError
    from tensorplan.core.errors import Refused as Refused
    from tensorplan.core.errors import TensorplanError as TensorplanError
    from tensorplan.core.intervals import Interval as Interval
    from tensorplan.diagnosis.diagnosis import Diagnosis as Diagnosis
    from tensorplan.diagnosis.diagnosis import diagnose as diagnose
    from tensorplan.diagnosis.fit_features import fit_features as fit_features
    from tensorplan.evaluation.audit import Audit as Audit
    from tensorplan.evaluation.audit import audit as audit
    from tensorplan.evaluation.compare import compare as compare
    from tensorplan.evaluation.estimates import query_cost as query_cost
    from tensorplan.evaluation.estimates import student as student
    from tensorplan.evaluation.sessions import side_by_side as side_by_side
    from tensorplan.evaluation.verdict import Verdict as Verdict
    from tensorplan.evaluation.verdict import judge as judge
    from tensorplan.features import FeatureMap as FeatureMap
    from tensorplan.features import Frame as Frame
    from tensorplan.loop import run as run
    from tensorplan.planners.baselines.confident_lspi import ConfidentLSPI as ConfidentLSPI
    from tensorplan.planners.baselines.oracle import Oracle as Oracle
    from tensorplan.planners.baselines.random import RandomPlanner as RandomPlanner
    from tensorplan.planners.baselines.root_search import RootSearch as RootSearch
    from tensorplan.planners.baselines.sparse_sampling import SparseSampling as SparseSampling
    from tensorplan.planners.baselines.uct import UCT as UCT
    from tensorplan.planners.bilin_ucb.planner import BiLinUCB as BiLinUCB
    from tensorplan.planners.hindsight.planner import Hindsight as Hindsight
    from tensorplan.planners.linear_q.ocp import OCP as OCP
    from tensorplan.planners.linear_q.span import SpanPlanner as SpanPlanner
    from tensorplan.planners.linear_q.tensorplan_q import TensorPlanQ as TensorPlanQ
    from tensorplan.planners.printed.constants import Constants as Constants
    from tensorplan.planners.printed.constants import constants as constants
    from tensorplan.planners.registry import make_planner as make_planner
    from tensorplan.planners.tensorplan.planner import PaperTensorPlan as PaperTensorPlan
    from tensorplan.planners.tensorplan.planner import TensorPlan as TensorPlan
    from tensorplan.planners.tensorplan.trace import Iteration as Iteration
    from tensorplan.planners.tensorplan.trace import Trace as Trace
    from tensorplan.problems.catalog import make as make
    from tensorplan.problems.gym.convert import from_gym as from_gym
    from tensorplan.problems.gym.restoring.adapters import register_restore as register_restore
    from tensorplan.problems.random.featurize import featurize as featurize
    from tensorplan.problems.tables.tabular import TabularMDP as TabularMDP
    from tensorplan.problems.tables.tabular import evaluate_tabular as evaluate_tabular
    from tensorplan.problems.tables.tabular import solve_tabular as solve_tabular
    from tensorplan.problems.transforms.binarized import binarize as binarize
    from tensorplan.problems.transforms.delayed import delayed as delayed
    from tensorplan.proofs import Checked as Checked
    from tensorplan.proofs import Proof as Proof
    from tensorplan.proofs import check


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that ``import tensorplan`` stays fast."""
    if name in _ROOMS:
        return _import_module(f"tensorplan.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'tensorplan' has no attribute {name!r}")
    value: object = getattr(_import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return ["__version__", *__all__]
