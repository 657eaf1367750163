"""Problems as Gymnasium environments: made directly, or by ``gymnasium.make`` once they are registered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tensorplan.core import Problem
from tensorplan.core.errors import BadInput
from tensorplan.loop import MAX_STEPS
from tensorplan.problems.catalog import as_problem

if TYPE_CHECKING:
    from tensorplan.bridges.problem_env import ProblemEnv

ID = "tensorplan/Problem-v0"
"""What :func:`register_envs` registers."""


def to_gym(problem: Problem | str, *, observation: str = "features", max_steps: int = MAX_STEPS) -> ProblemEnv:
    """The Gymnasium environment of a problem, or of a name of the catalog; see the class for what it shows."""
    _need_gymnasium("to_gym")
    from tensorplan.bridges.problem_env import ProblemEnv

    return ProblemEnv(as_problem(problem), observation=observation, max_steps=max_steps)


def register_envs() -> None:
    """Make ``gymnasium.make("tensorplan/Problem-v0", problem="hanoi/8")`` work; the options are those of to_gym."""
    _need_gymnasium("register_envs")
    import gymnasium

    if ID not in gymnasium.registry:
        gymnasium.register(id=ID, entry_point=f"{__name__}:{to_gym.__name__}")


def _need_gymnasium(what: str) -> None:
    try:
        import gymnasium  # noqa: F401
    except ImportError:
        raise BadInput(f"{what} needs Gymnasium: pip install 'tensorplan[gym]'") from None
