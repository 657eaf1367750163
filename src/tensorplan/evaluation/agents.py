"""Trained agents and networks as functions of state and stage, through the observations of a problem.

The observation of a state is what the MDP's method ``observation(state)`` gives, as that of a Gymnasium environment
does, or the state itself where it has none.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorplan.core import Problem, State


def predicted(problem: Problem, agent: Any) -> Callable[[State, int], Any]:
    """The actions of an agent with ``predict(observation)``, without exploration where it can be asked for."""
    options = {"deterministic": True} if "deterministic" in inspect.signature(agent.predict).parameters else {}
    look = _observer(problem)

    def action(state: State, stage: int) -> Any:
        found = agent.predict(look(state), **options)
        found = found[0] if isinstance(found, tuple) else found  # (action, recurrent state), as in Stable-Baselines3
        return found.item() if isinstance(found, np.ndarray) and found.size == 1 else found

    return action


def best_output(problem: Problem, network: Any) -> Callable[[State, int], int]:
    """The action with the largest output of a network with one output for each action."""
    output = _output(problem, network)
    return lambda state, stage: int(output(state).argmax())


def only_output(problem: Problem, network: Any) -> Callable[[State, int], float]:
    """The value that a critic with one output gives a state."""
    output = _output(problem, network)
    return lambda state, stage: float(output(state))


def _output(problem: Problem, network: Any) -> Callable[[State], Any]:
    """What a network makes of the observation of a state."""
    torch, look = sys.modules["torch"], _observer(problem)

    def output(state: State) -> Any:
        with torch.no_grad():
            return network(torch.as_tensor(np.asarray(look(state), dtype=np.float32)[None]))[0]

    return output


def _observer(problem: Problem) -> Callable[[State], Any]:
    return getattr(problem.mdp, "observation", lambda state: state)
