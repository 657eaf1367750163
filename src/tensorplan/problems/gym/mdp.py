"""A Gymnasium environment as a simulator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorplan.core import END, Array, State
from tensorplan.core.errors import BadInput
from tensorplan.problems.gym.points import ObservationPoints, Viewed
from tensorplan.problems.gym.restoring.constants import FixedAttributes, Pinned
from tensorplan.problems.gym.restoring.faithful import copied, first_observation, number_of, unusable
from tensorplan.problems.gym.restoring.families import refuse_foreign
from tensorplan.problems.gym.restoring.layers import stripped
from tensorplan.problems.gym.restoring.randomness import FORBIDDEN, Randomness
from tensorplan.problems.gym.restoring.replay import generator_in, saved_generator
from tensorplan.problems.gym.restoring.ways import Held, Pristine, Way


@dataclass(frozen=True)
class Restoring:
    """How an environment gets back to its states, and what was found out about that."""

    way: Way
    fresh: Pristine | None
    """What it is set back to before each reset."""
    pinned: Pinned
    constants: FixedAttributes
    steps: int
    """Steps that were compared with an undisturbed environment."""
    counters: tuple[str, ...]
    """Attributes that make every state a new one, since they count steps."""

    def __str__(self) -> str:
        how = f"restored by {self.way.name}{'' if self.way.exact else ', up to rounding'}"
        return f"{how}, verified over {self.steps:,} steps" if self.steps else f"{how}, not verified"


class GymMDP(Viewed):
    """An environment that is restored to the state of each query."""

    return_range: tuple[float, float] | None = None
    """See :class:`tensorplan.core.MDP`."""

    def __init__(
        self,
        env: Any,
        restoring: Restoring,
        actions: Sequence[Any],
        view: ObservationPoints,
        horizon: int | None,
        reward_range: tuple[float, float],
        deterministic: bool,
        never_drew: bool,
        look: Callable[[Any], Any] | None,
    ) -> None:
        self.restoring = restoring
        self.way = restoring.way
        self.constants = restoring.constants
        self.view = view
        self.horizon = horizon
        self.actions = len(actions)
        self.reward_range = reward_range
        self.deterministic_transitions = self.deterministic_rewards = deterministic
        self._actions = list(actions)
        self._guarded = deterministic and never_drew
        self._look = look
        self._env = env
        self._bare = env.unwrapped
        self._randomness = Randomness(env)
        self._simple = not self._randomness.elsewhere
        self._pinned = restoring.pinned if restoring.pinned.paths else None
        self._large = view.large
        self._capture = restoring.way.capture
        self._exact = restoring.way.exact
        self._here: Held | None = None
        """The state that an environment is in, which need not be restored."""
        self._there = env
        """That environment."""

    def start(self, rng: np.random.Generator) -> Held:
        """The state after a reset."""
        self._here = None
        if self.restoring.fresh is not None:
            self.restoring.fresh.put(rng)
        self._randomness.set(self._env, rng)
        observation = first_observation(self._env)
        if self._pinned is not None:
            self._pinned.set(self._env)
        return self._held(self._env, observation)

    def step(self, state: Held, action: int, rng: np.random.Generator) -> tuple[float, State]:
        """One step of the environment from a captured state; the end of an episode, truncated or not, is END."""
        env = self._there if self._here == state else self.way.restore(self._env, state, rng)
        self._here = None
        chance: Any = FORBIDDEN if self._guarded else rng
        if self._simple and env is self._env:  # the common case, inlined for speed
            self._bare._np_random = chance
        else:
            self._randomness.set(env, chance)
        generator = saved_generator(chance) if self._large else None
        result = env.step(self._actions[action])
        try:
            observation, reward, terminated, truncated, _ = result
        except (TypeError, ValueError):
            raise unusable(result) from None
        if type(reward) is not float:
            reward = number_of(reward)
        if terminated or truncated:
            return reward, END
        if self._pinned is not None:
            self._pinned.set(env)
        following = self._held(env, observation)
        if self._large:
            del following.observation
            following.origin = (state, action, generator)
        if self._exact:
            self._here, self._there = following, env
        return reward, following

    def _held(self, env: Any, observation: Any) -> Held:
        state = self._capture(env)
        state.observation = observation.copy() if type(observation) is np.ndarray else copied(observation)
        if self._large:
            state.point = self.view.point(observation)
        return state

    # ----------------------------------------------------------------- as an environment

    def capture(self, env: Any, observation: Any = None) -> Held:
        """The current state of an environment of this kind, which is not changed.

        ``observation``: its last observation; required unless the environment can return it again.
        """
        bare = stripped(env)[0]
        refuse_foreign(bare.unwrapped)
        if observation is None:
            if self._look is None:
                raise BadInput(f"{env} cannot return its last observation: pass the observation as well")
            observation = self._look(bare)
        return self._held(bare, observation)

    def changed(self, env: Any, fresh: bool) -> str | None:
        """The name of an attribute that changed since this object was made, such as gravity; None if there is none.

        ``fresh``: whether the environment was just reset.  If not, only known constants are checked: other attributes
        may change within an episode, even if they did not in the reference.
        """
        return self.constants.changed(env) if fresh or self.constants.sure else None

    def observation(self, state: Held) -> Any:
        """The observation in a state; where they are large, the step that showed it is taken again."""
        if hasattr(state, "observation"):
            return state.observation
        before, action, generator = state.origin
        self._here = None
        rng = generator_in(generator)
        env = self.way.restore(self._env, before, rng)
        self._randomness.set(env, rng)
        return copied(env.step(self._actions[action])[0])

    def point(self, state: Held) -> Array:
        """The observation as a point for feature maps, (n,)."""
        return state.point if self._large else self.view.point(state.observation)
