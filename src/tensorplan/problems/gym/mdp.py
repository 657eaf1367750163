"""A Gymnasium environment as a simulator, and how :func:`tensorplan.from_gym` makes one."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium import wrappers

from tensorplan.core import END, Array, State
from tensorplan.core.errors import BadInput, shown
from tensorplan.core.specs import suggestion, whole
from tensorplan.problems.gym.faithful import Moment, Probe, Unfaithful, reference, resampled, same, verify
from tensorplan.problems.gym.observations import table_view, view
from tensorplan.problems.gym.points import Clipping, ObservationPoints, Viewed, bounded, framed
from tensorplan.problems.gym.restore import (
    FORBIDDEN,
    Attributes,
    Deepcopy,
    FixedAttributes,
    Functions,
    Held,
    Known,
    Nameless,
    Randomness,
    Way,
    hold,
    layers,
)
from tensorplan.problems.gym.spaces import numbered_actions
from tensorplan.problems.gym.table import GymTable, has_table

OWN = "gymnasium.envs."
"""The modules of Gymnasium's own environments."""

NEUTRAL = (
    *("TimeLimit", "OrderEnforcing", "PassiveEnvChecker"),
    *("RecordEpisodeStatistics", "RecordVideo", "HumanRendering"),
)
"""Wrappers that do not change dynamics, rewards or observations; the time limit becomes the horizon."""

KNOWN_REWARDS = {
    "CartPoleEnv": (0.0, 1.0),
    "MountainCarEnv": (-1.0, -1.0),
    "AcrobotEnv": (-1.0, 0.0),
    "BlackjackEnv": (-1.0, 1.5),
}
"""The reward ranges of Gymnasium's environments without a table."""

KNOWN_RANGES = {"CartPoleEnv": {1: (-6.0, 6.0), 3: (-4.0, 4.0)}}
"""Ranges of unbounded coordinates of Gymnasium's spaces; a search for the fastest CartPole found 5.1 and 3.6."""

PAIRS = 2000
"""Most pairs of a table compared with steps of the environment."""

Captured = Held | Nameless


class GymMDP(Viewed):
    """An environment that is restored to the state of each query."""

    return_range: tuple[float, float] | None = None
    """See :class:`tensorplan.core.MDP`."""

    def __init__(
        self,
        env: Any,
        way: Way,
        actions: Sequence[Any],
        view: ObservationPoints,
        horizon: int | None,
        reward_range: tuple[float, float],
        deterministic: bool,
        never_drew: bool,
        look: Callable[[Any], Any] | None,
        constants: FixedAttributes,
    ) -> None:
        self.way = way
        self.constants = constants
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

    def start(self, rng: np.random.Generator) -> Captured:
        """The state after a reset."""
        self._randomness.set(self._env, rng)
        observation, _ = self._env.reset()
        return self._held(self._env, observation)

    def step(self, state: Captured, action: int, rng: np.random.Generator) -> tuple[float, State]:
        """One step of the environment from a captured state; the end of an episode, truncated or not, is END."""
        env = self.way.restore(self._env, state.value)
        chance: Any = FORBIDDEN if self._guarded else rng
        if self._simple and env is self._env:  # the common case, inlined for speed
            self._bare._np_random = chance
        else:
            self._randomness.set(env, chance)
        observation, reward, terminated, truncated, _ = env.step(self._actions[action])
        if terminated or truncated:
            return float(reward), END
        return float(reward), self._held(env, observation)

    def _held(self, env: Any, observation: Any) -> Captured:
        value, key = self.way.capture(env)
        return hold(value, observation, key)

    # ----------------------------------------------------------------- as an environment

    def capture(self, env: Any, observation: Any = None) -> Captured:
        """The current state of an environment of this kind, which is not changed.

        ``observation``: its last observation; required unless the environment can return it again.
        """
        bare = stripped(env)[0]
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

    def observation(self, state: Captured) -> Any:
        """The observation in a state."""
        return state.observation

    def point(self, state: Captured) -> Array:
        """The observation as a point for feature maps, (n,)."""
        return self.view.point(state.observation)


# ------------------------------------------------------------------------------------------ opening


class Opened:
    """A private copy of an environment, without neutral wrappers, and what is known about it."""

    def __init__(
        self, env: Any, options: dict[str, Any], frame: Any = None, clip: bool = False, observation: Any = "auto"
    ) -> None:
        made = _make(env, options)
        self.frame, self.clip, self.observation = frame, clip, observation
        self.env, self.limit = stripped(made)
        spec = getattr(made, "spec", None)
        self.name: str = spec.id if spec is not None else type(made.unwrapped).__name__
        self.actions = numbered_actions(self.env.action_space, self.name)
        self.view = view(self.env.observation_space, self.name, observation)
        self.probe: Probe | None = None

    @property
    def probed(self) -> int:
        """The number of steps used to probe the environment."""
        return 0 if self.probe is None else self.probe.steps

    def mdp(
        self,
        *,
        horizon: int | str | None,
        reward_range: tuple[float, float] | str | None,
        deterministic: bool | None,
        restore: str,
        functions: tuple[Callable[[Any], Any], Callable[[Any, Any], Any]] | None,
        seed: int,
    ) -> GymMDP | GymTable:
        """The simulator, by the fastest way of restoring that is faithful."""
        steps = self._horizon(horizon)
        probe = self.probe = Probe(self.env, self.actions, seed)
        moments = reference(probe, self.name)
        table = None if functions or restore not in ("auto", "table") else self._table(probe, steps)
        if table is not None:
            if deterministic and not (table.deterministic_transitions and table.deterministic_rewards):
                raise BadInput(f"{self.name} is not deterministic: its transition table has several outcomes")
            if not (reward_range in (None, "probe") or _inside(table.reward_range, reward_range)):
                low, high = table.reward_range
                span = f"the rewards of {self.name} go from {low:g} to {high:g}"
                raise BadInput(f"{span}, not reward_range={reward_range}")
            return table
        if restore == "table":
            raise BadInput(f"{self.name} has no transition table (env.P, env.s) that its steps follow")
        way, constants, captured = self._way(probe, moments, restore, functions)
        self._warn_if_partially_observed(moments, [key for _, key in captured])
        points = [self.view.point(moment.observation) for moment in moments]
        return GymMDP(
            self.env,
            way,
            self.actions,
            self._framed(bounded(self._known_ends(), points)),
            steps,
            self._reward_range(reward_range, moments),
            self._deterministic(deterministic, probe, way, moments, captured),
            not probe.drew,
            self._look(probe, moments),
            constants,
        )

    def _known_ends(self) -> ObservationPoints:
        """The view, with known ranges for unbounded coordinates."""
        bare = self.env.unwrapped
        if callable(self.observation):
            return self.view
        if not type(bare).__module__.startswith(OWN) or self.env.observation_space != bare.observation_space:
            return self.view
        low, high = list(self.view.low), list(self.view.high)
        for coordinate, ends in KNOWN_RANGES.get(type(bare).__name__, {}).items():
            low[coordinate], high[coordinate] = ends
        return replace(self.view, low=tuple(low), high=tuple(high))

    def _framed(self, found: ObservationPoints) -> ObservationPoints:
        """The view with the user's frame, and with clipping if requested."""
        if self.frame is not None:
            found = framed(found, self.frame, self.name)
        return replace(found, point=Clipping(found)) if self.clip else found

    def _horizon(self, horizon: int | str | None) -> int | None:
        if horizon == "limit":
            return self.limit
        if horizon is None:
            return None
        steps = whole("horizon", horizon, 1)
        if self.limit is not None and steps > self.limit:
            raise BadInput(f"horizon={steps} is longer than the time limit of {self.name}, {self.limit} steps")
        return steps

    def _table(self, probe: Probe, horizon: int | None) -> GymTable | None:
        """The table, if the environment has one, is not wrapped, and its steps follow the table; else None."""
        env = self.env
        if env is not env.unwrapped or not has_table(env) or getattr(env, "fickle_passenger", False):
            return None
        table = GymTable(env, horizon, self._framed(table_view(env, len(env.P), self.name, self.observation)))
        pairs = np.random.default_rng([probe.seed, 2]).permutation(len(env.P) * table.actions)[:PAIRS]
        for number, pair in enumerate(pairs.tolist()):
            state, action = divmod(pair, table.actions)
            env.s = state
            observation, reward, terminated, truncated = probe.step(env, 0, number, action)
            expected = table.step(state, action, probe.generator(0, number + 1))
            if expected != (reward, END if terminated or truncated else observation):
                return None
        return table

    def _way(
        self, probe: Probe, moments: Sequence[Moment], restore: str, functions: Any
    ) -> tuple[Way, FixedAttributes, list[Any]]:
        """The first faithful way to restore states, the attributes that stayed constant, and the captured states."""
        attributes = Known(self.env) if Known.fits(self.env) else Attributes()
        ways: list[Way] = [Functions(*functions)] if functions else [attributes, Deepcopy()]
        reasons = []
        for way in ways:
            if restore in ("auto", way.name) or functions:
                try:
                    constants = FixedAttributes(self.env)
                    return way, constants, verify(probe, way, moments, constants)
                except Unfaithful as reason:
                    reasons.append(f"{way.name}: {str(reason)[:300]}")
        hint = "" if functions else "; give get_state(env) and set_state(env, state)"
        raise BadInput(f"{self.name} cannot be restored ({'; '.join(reasons)}){hint}")

    def _deterministic(
        self, given: bool | None, probe: Probe, way: Way, moments: Sequence[Moment], captured: Sequence[Any]
    ) -> bool:
        """Whether the environment is deterministic: as given, unless refuted, or as observed in random episodes."""
        rounded = isinstance(way, Functions) and not way.exact
        if rounded:
            warnings.warn(
                f"set_state restores {self.name} up to rounding only, so that steps from one state vary slightly: "
                "restore all that the next step depends on (of MuJoCo, mjSTATE_INTEGRATION)",
                stacklevel=4,
            )
        if given is None:
            return not (probe.drew or probe.randomness.seeded or rounded)
        if given and rounded:
            raise BadInput(f"{self.name} is not deterministic: it is restored up to rounding only")
        if given and probe.drew and (difference := resampled(probe, way, moments, captured)):
            raise BadInput(f"{self.name} is not deterministic: {difference}")
        return bool(given)

    def _look(self, probe: Probe, moments: Sequence[Moment]) -> Callable[[Any], Any] | None:
        """A function that returns the last observation, if a common one agrees with the reference; else None."""
        for look in (_get_obs, _get_ob, _state):
            try:
                if all(same(look(self.env), moment.observation) for moment in probe.replay(moments)):
                    return look
            except (AttributeError, TypeError, ValueError):
                continue
        return None

    def _reward_range(self, given: tuple[float, float] | str | None, moments: Sequence[Moment]) -> tuple[float, float]:
        rewards = [moment.result[1] for moment in moments]
        if given == "probe":
            return min(rewards), max(rewards)
        if given is not None:
            return given  # type: ignore[return-value]  # checked by Problem
        kind = type(self.env)
        if self.env is self.env.unwrapped and kind.__module__.startswith(OWN):
            found = KNOWN_REWARDS.get(kind.__name__)
            if found is not None and not getattr(self.env, "_sutton_barto_reward", False):
                return found
        raise BadInput(
            f"the range of the rewards of {self.name} is not known: give reward_range=(low, high); "
            f"random episodes saw {min(rewards):g} to {max(rewards):g} (reward_range='probe' takes that)"
        )

    def _warn_if_partially_observed(self, moments: Sequence[Moment], keys: Sequence[Any]) -> None:
        first: dict[bytes, Any] = {}
        for moment, key in zip(moments, keys, strict=True):
            if key is None:
                continue
            if first.setdefault(self.view.point(moment.observation).tobytes(), key) != key:
                warnings.warn(
                    f"the observation of {self.name} is not its state: {shown(moment.observation)} was seen in "
                    "different states; plans use the whole state, features only what is observed",
                    stacklevel=4,
                )
                return


def stripped(env: Any) -> tuple[Any, int | None]:
    """The environment without neutral wrappers, and its time limit."""
    stack = layers(env)
    limits = [layer._max_episode_steps for layer in stack if isinstance(layer, wrappers.TimeLimit)]
    for layer in stack:
        if isinstance(layer, wrappers.Autoreset):
            raise BadInput(f"{env} resets itself at the end of an episode (Autoreset), which hides the end: unwrap it")
    kept = [layer for layer in stack if type(layer).__name__ not in NEUTRAL or layer is env.unwrapped]
    if len(kept) < len(stack) and len(kept) > 1:  # relink the remaining layers, in copies of the wrappers
        relinked = [copy.copy(layer) for layer in kept[:-1]]
        for layer, inner in zip(relinked, [*relinked[1:], kept[-1]], strict=True):
            layer.env = inner
        kept = [*relinked, kept[-1]]
    return kept[0], min(limits, default=None)


def _make(env: Any, options: dict[str, Any]) -> Any:
    """A private environment."""
    if isinstance(env, str):
        return _by_id(env, options)
    if options:
        raise BadInput(f"options for gymnasium.make ({', '.join(options)}) go with an id, not with {env!r}")
    if isinstance(env, gymnasium.Env):
        return _copied(env)
    if not callable(env):
        raise BadInput(f"expected a Gymnasium id, an environment, or a function that makes one, got {env!r}")
    try:
        made = env()
    except Exception as error:
        raise BadInput(f"the function that makes the environment raised {type(error).__name__}: {error}") from error
    if not isinstance(made, gymnasium.Env):
        raise BadInput(f"the function must return a gymnasium.Env, got {type(made).__name__}")
    return made


def _by_id(name: str, options: dict[str, Any]) -> Any:
    if name.partition(":")[2] == "" and name not in gymnasium.registry:
        raise BadInput(f"Gymnasium has no environment {name!r}; {suggestion(name, gymnasium.registry)}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about outdated versions
            return gymnasium.make(name, **options)
    except Exception as error:
        raise BadInput(f"gymnasium.make({name!r}) failed: {str(error).splitlines()[0]}") from error


def _copied(env: Any) -> Any:
    """A copy; EzPickle environments are made again from the spec, since copying them would do the same."""
    try:
        if env.spec is not None and isinstance(env.unwrapped, gymnasium.utils.EzPickle):
            return gymnasium.make(env.spec)
        return copy.deepcopy(env)
    except Exception as error:
        raise BadInput(f"{env} cannot be copied ({error}): give a function that makes it") from error


def _inside(found: tuple[float, float], given: Any) -> bool:
    return bool(given[0] <= found[0] and found[1] <= given[1])


def _get_obs(env: Any) -> Any:
    return env._get_obs()


def _get_ob(env: Any) -> Any:
    return env._get_ob()


def _state(env: Any) -> Any:
    return np.array(env.state, dtype=env.observation_space.dtype)
