"""What an environment shows of a state: its features, or the state itself where it is made of whole numbers.

Both show END, which is the last observation of an episode, and both are Markov for the numbered states: where a problem
has a horizon, what is best depends on the stage, so the stage is shown unless the state carries it.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from gymnasium import spaces

from tensorplan.core import END, Array, Problem, State
from tensorplan.core.errors import BadInput
from tensorplan.problems.puzzles import ChineseRings, Grid, Hanoi
from tensorplan.problems.random.layered import Procedural
from tensorplan.problems.tables.tabular import TabularMDP

LARGEST = 2**62
"""Spaces count in 64 bits."""


class View(Protocol):
    """Observations of one problem."""

    @property
    def space(self) -> spaces.Space[Any]:
        """Where they lie."""

    def __call__(self, state: State, stage: int) -> Any:
        """What is seen of a state, END included."""


class FeatureView:
    """φ_v(s), or φ_q(s, .) row by row where there is no φ_v; then the stage as a share of the horizon, if there is one.

    Double precision, as the planners see it; zero at END.  Two states with the same features look alike.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        size = problem.dimension * (1 if problem.phi_v is not None else problem.actions)
        low, high = [-1.0] * size, [1.0] * size
        if problem.horizon is not None:
            low, high = [*low, 0.0], [*high, 1.0]
        self.space = spaces.Box(np.array(low), np.array(high), dtype=np.float64)

    def __call__(self, state: State, stage: int) -> Array:
        """(d,) or (A d,), and one more entry with a horizon."""
        problem = self.problem
        features = problem.state_features if problem.phi_v is not None else problem.action_features
        shown: Array = np.clip(features(state, stage).ravel(), -1.0, 1.0)  # norms may be 1 + 1e-9
        return shown if problem.horizon is None else np.append(shown, stage / problem.horizon)


class StateView:
    """The state: a whole number, or several of them; then the stage, if there is one that the state does not carry.

    At END every number is one past its last value.
    """

    space: spaces.Space[Any]

    def __init__(self, problem: Problem) -> None:
        sizes, carries_stage = _sizes(problem)
        self.sizes = sizes
        self.clock = problem.horizon is not None and not carries_stage
        if isinstance(sizes, int) and not self.clock:
            self.space = spaces.Discrete(sizes + 1)
            return
        each = [size + 1 for size in _several(sizes)]
        if problem.horizon is not None and self.clock:
            each.append(problem.horizon + 1)
        self.space = spaces.MultiDiscrete(each)

    def __call__(self, state: State, stage: int) -> Any:
        """An int, or an array of them."""
        numbers: Any = self.sizes if state is END else state
        if isinstance(self.space, spaces.Discrete):
            return int(numbers)
        return np.array([*_several(numbers), stage] if self.clock else _several(numbers), dtype=np.int64)


def _sizes(problem: Problem) -> tuple[int | tuple[int, ...], bool]:
    """How many values each number of a state has, and whether the state carries its stage."""
    mdp: Any = problem.mdp
    sizes: int | tuple[int, ...] | None = None
    carries_stage = False
    if isinstance(mdp, TabularMDP):
        sizes = mdp.states(mdp.horizon - 1 if mdp.layered and mdp.horizon else 0).stop
        carries_stage = mdp.layered
    elif isinstance(mdp, Procedural):
        sizes, carries_stage = mdp.width * mdp.horizon, True
    elif isinstance(mdp, Hanoi):
        sizes = (3,) * mdp.disks
    elif isinstance(mdp, ChineseRings):
        sizes = (2,) * mdp.rings
    elif isinstance(mdp, Grid):
        sizes = mdp.sides
    if sizes is None or max(_several(sizes)) > LARGEST:
        raise BadInput(
            f"the states of problem {problem.name!r} are not whole numbers of a known size: use observation='features'"
        )
    return sizes, carries_stage


def _several(numbers: int | tuple[int, ...]) -> tuple[int, ...]:
    return numbers if isinstance(numbers, tuple) else (numbers,)
