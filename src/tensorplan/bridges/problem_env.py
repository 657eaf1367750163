"""The Gymnasium environment of a problem, for libraries that learn."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium import spaces

from tensorplan.bridges.views import FeatureView, StateView, View
from tensorplan.core import END, Problem, State
from tensorplan.core.errors import BadInput
from tensorplan.core.specs import one_of, suggestion, whole
from tensorplan.loop import MAX_STEPS
from tensorplan.problems.simulate import draw, draw_start, whole_action
from tensorplan.problems.states import own

VIEWS: dict[str, type[FeatureView] | type[StateView]] = {"features": FeatureView, "state": StateView}


class ProblemEnv(gymnasium.Env[Any, Any]):
    """A problem as an environment; ``problem``, ``state``, ``stage`` and ``steps`` can be read at any time.

    ``observation``: ``"features"``, φ_v(s) (else φ_q(s, .) row by row) in [-1, 1], or ``"state"``, where states are
    whole numbers; see :mod:`tensorplan.bridges.views`.  With a horizon the last entry tells the stage, unless the state
    carries it.  Rewards are those of the problem, and its discount is left to who learns.

    ``terminated``: END was reached, by a step or by the horizon, which belongs to the MDP: nothing comes after it.
    ``truncated``: ``max_steps`` were made, which the MDP knows nothing of.  ``info`` holds ``"stage"``, ``"state"``
    except at END, and at the start ``"optimal_value"``, v*(s0), where it is known.
    ``reset(options={"state": s, "stage": h})`` starts there.  Copies share the problem, whose simulator keeps nothing
    between steps; all chance is drawn from ``np_random``.
    """

    __slots__ = ("max_steps", "problem", "view")  # so that vars(env) holds what changes, which from_gym captures

    def __init__(self, problem: Problem, *, observation: str = "features", max_steps: int = MAX_STEPS) -> None:
        self.problem = problem
        self.max_steps = whole("max_steps", max_steps, 1)
        self.view: View = VIEWS[one_of("observation", observation, VIEWS)](problem)
        self.observation_space = self.view.space
        self.action_space = spaces.Discrete(problem.actions)
        self.state: State = END
        self.stage = 0
        self.steps = 0
        """Since the last reset."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """The first observation and its info, from a start state of the problem or from the one in the options."""
        super().reset(seed=seed)
        state, stage = self._first(options or {})
        seen = self.view(state, stage)
        if seen not in self.observation_space:
            raise BadInput(f"{state!r} is no state of problem {self.problem.name!r} at stage {stage}")
        self.state, self.stage, self.steps = state, stage, 0
        info = self._info()
        if self.problem.solution is not None:
            info["optimal_value"] = float(self.problem.optimal_value(state, stage))
        return seen, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """The next observation, the reward, terminated, truncated and info."""
        problem, state, stage = self.problem, self.state, self.stage
        if state is END:
            raise BadInput(f"the environment of problem {problem.name!r} is not in an episode: call reset()")
        action = whole_action(action, problem.actions, state, stage)
        reward, following = draw(problem, state, stage, action, self.np_random)
        self.state, self.stage = problem.arrive(following, stage), problem.next_stage(stage)
        self.steps += 1
        terminated = self.state is END
        truncated = not terminated and self.steps >= self.max_steps
        return self._get_obs(), reward, terminated, truncated, self._info()

    def __deepcopy__(self, memo: dict[int, Any]) -> ProblemEnv:
        twin = memo[id(self)] = object.__new__(type(self))
        for name in self.__slots__:
            setattr(twin, name, getattr(self, name))
        memo[id(self.problem)] = self.problem  # as an argument in the spec
        vars(twin).update(copy.deepcopy(vars(self), memo))
        return twin

    def _get_obs(self) -> Any:
        """What is seen now, by the name that Gymnasium's environments have for it."""
        return self.view(self.state, self.stage)

    def _first(self, options: Mapping[str, Any]) -> tuple[State, int]:
        """The state and the stage to start at."""
        problem = self.problem
        for key in options:
            if key not in ("state", "stage"):
                raise BadInput(f"reset has no option {key!r}; {suggestion(key, ('state', 'stage'))}")
        if "state" not in options:
            if "stage" in options:
                raise BadInput("the option 'stage' of reset needs the option 'state'")
            return draw_start(problem, self.np_random), 0
        state = own(options["state"])
        stage = whole("the option 'stage' of reset", options.get("stage", 0), 0, (problem.horizon or 1) - 1)
        if state is END:
            raise BadInput("an episode cannot start at END")
        (problem.state_features if problem.phi_v is not None else problem.action_features)(state, stage)  # or an error
        return state, stage

    def _info(self) -> dict[str, Any]:
        """What is not to be learned from; END is left out, since vectors of environments stack what they find."""
        return {"stage": self.stage} if self.state is END else {"stage": self.stage, "state": own(self.state)}
