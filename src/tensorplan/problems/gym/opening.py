"""How :func:`tensorplan.from_gym` makes a simulator of an environment."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from tensorplan.core import END
from tensorplan.core.errors import BadInput, shown
from tensorplan.core.specs import suggestion, whole
from tensorplan.problems.gym.mdp import GymMDP, Restoring
from tensorplan.problems.gym.observations import table_view, view
from tensorplan.problems.gym.packages import register_package
from tensorplan.problems.gym.points import Clipping, ObservationPoints, bounded, framed
from tensorplan.problems.gym.restoring.adapters import adapter_of
from tensorplan.problems.gym.restoring.constants import FixedAttributes, Pinned, counters
from tensorplan.problems.gym.restoring.content import Content
from tensorplan.problems.gym.restoring.faithful import (
    Diligence,
    Moment,
    Probe,
    Unfaithful,
    captured,
    play_reference,
    reproducible,
    resampled,
    same,
    verify,
)
from tensorplan.problems.gym.restoring.families import (
    known_limit,
    known_returns,
    known_rewards,
    prepare,
)
from tensorplan.problems.gym.restoring.layers import layers, stripped
from tensorplan.problems.gym.restoring.replay import ActionReplay, Deepcopy
from tensorplan.problems.gym.restoring.ways import Attributes, Functions, Held, Pristine, Way
from tensorplan.problems.gym.spaces import numbered_actions
from tensorplan.problems.gym.table import GymTable, has_table

OWN = "gymnasium.envs."
"""The modules of Gymnasium's own environments."""

KNOWN_RANGES = {"CartPoleEnv": {1: (-6.0, 6.0), 3: (-4.0, 4.0)}}
"""Ranges of unbounded coordinates of Gymnasium's spaces; a search for the fastest CartPole found 5.1 and 3.6."""

OBSERVING = ("FlattenObservation", "FilterObservation", "TransformObservation", "FrameStackObservation")
"""Wrappers that change observations only, so that the known range of rewards is still right."""

AGAIN = 12
"""Steps repeated of the reference of an environment whose id was verified before; its ranges are those of all steps."""

PAIRS = 2000
"""Most pairs of a table compared with steps of the environment."""


class Verified(NamedTuple):
    """What was found out about environments of an id, which another one of them need not repeat."""

    way: str
    fresh: bool
    drew: bool
    steps: int


_VERIFIED: dict[Any, Verified] = {}
"""By the id, its options, and what from_gym was told about restoring."""


class Opened:
    """A private copy of an environment, without neutral wrappers, and what is known about it."""

    def __init__(
        self, env: Any, options: dict[str, Any], frame: Any = None, clip: bool = False, observation: Any = "auto"
    ) -> None:
        made = _make(env, options)
        prepare(made.unwrapped)
        self.frame, self.clip, self.observation = frame, clip, observation
        self._made_from = (env, repr(sorted(options.items()))) if isinstance(env, str) else None
        self.env, limit = stripped(made)
        self.limit = known_limit(made.unwrapped) if limit is None else limit
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
        effort: Diligence,
        ignore: Sequence[str] = (),
    ) -> GymMDP | GymTable:
        """The simulator, by the fastest way of restoring that is faithful."""
        steps = self._horizon(horizon)
        request = (self._made_from, restore, tuple(ignore))
        known = _VERIFIED.get(request) if effort == Diligence() and functions is None else None
        if known is not None:
            effort, restore = replace(effort, compare=False), known.way
        probe = self.probe = Probe(self.env, self.actions, seed, effort, Pinned(ignore))
        moments, readings = self._reference(probe, known is None or known.fresh)
        probe.drew |= known is not None and known.drew
        table = None if functions or ignore or restore not in ("auto", "table") else self._table(probe, steps)
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
        rewards = self._reward_range(reward_range, moments)
        points = [self.view.point(moment.observation) for moment in moments]
        if known is not None:
            moments = moments[:AGAIN]
        way, constants, held = self._way(probe, moments, restore, functions)
        if isinstance(way, Attributes | Functions):  # which know the content of states
            self._warn_if_partially_observed(moments, held)
        verified = Verified(way.name, probe.fresh is not None, probe.drew, probe.steps if effort.compare else 0)
        if effort == Diligence() and functions is None and self._made_from is not None:
            _VERIFIED[request] = verified
        made = GymMDP(
            probe.env,
            Restoring(
                way,
                probe.fresh,
                probe.pinned,
                constants,
                (known or verified).steps,
                self._counters(probe, way, moments, held, counters(readings)),
            ),
            self.actions,
            self._framed(bounded(self._known_ends(), points)),
            steps,
            rewards,
            self._deterministic(deterministic, probe, way, moments, held),
            not probe.drew,
            self._look(probe, moments),
        )
        made.return_range = known_returns(self.env) if reward_range is None else None
        return made

    def _reference(self, probe: Probe, refresh: bool) -> tuple[list[Moment], list[list[dict[str, float]]]]:
        """A reference that can be repeated: with resets from a fresh state, or just as the environment resets."""
        difference: str | None = None
        for fresh in dict.fromkeys([self._fresh() if refresh else None, None]):
            probe.fresh = fresh
            found = play_reference(probe, self.name)
            difference = reproducible(probe, found[0]) if probe.effort.compare else None
            if difference is None:
                return found
        raise BadInput(
            f"{self.name} is not reproducible ({difference}): its steps depend on something that is neither "
            "in its attributes nor drawn from a generator in them"
        )

    def _fresh(self) -> Pristine | None:
        """The state before the first reset, if it can be captured."""
        try:
            return Pristine(self.env)
        except Exception:
            return None

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
    ) -> tuple[Way, FixedAttributes, list[Held]]:
        """The first faithful way to restore states, the attributes that stayed constant, and the captured states."""
        reasons = []
        for way in self._ways(restore, functions):
            try:
                probe.env = way.opened(self.env, probe.fresh)
                constants = FixedAttributes(self.env)
                held = captured(probe, way, moments, constants)
                if probe.effort.compare:
                    verify(probe, way, moments, held)
            except Unfaithful as reason:
                reasons.append(f"{way.name}: {str(reason)[:300]}")
                continue
            if isinstance(way, ActionReplay) and restore == "auto":
                warnings.warn(
                    f"{self.name} is restored by taking its actions again from the reset on ({'; '.join(reasons)}): "
                    "going back to a state t steps after it takes t steps; get_state and set_state may be faster",
                    stacklevel=4,
                )
            return way, constants, held
        hint = "" if functions else "; give get_state(env) and set_state(env, state)"
        raise BadInput(f"{self.name} cannot be restored ({'; '.join(reasons)}){hint}")

    def _ways(self, restore: str, functions: Any) -> list[Way]:
        """The ways to try, fastest first."""
        if functions:
            return [Functions(functions[0], functions[1], "functions")]
        adapter = adapter_of(type(self.env)) if self.env is self.env.unwrapped else None
        ways: list[Way] = [Attributes(), Deepcopy(), ActionReplay()]
        if adapter is not None:
            ways.insert(0, Functions(adapter.get_state, adapter.set_state, "adapter"))
        elif restore == "adapter":
            raise BadInput(f"{self.name} has no adapter as a whole: register one for its class (tp.register_restore)")
        return [way for way in ways if restore in ("auto", way.name)]

    def _counters(
        self, probe: Probe, way: Way, moments: Sequence[Moment], held: Sequence[Held], found: Sequence[str]
    ) -> tuple[str, ...]:
        """The counters without which states of the reference would recur; a warning names them."""
        if not found or not isinstance(way, Attributes | Functions) or not probe.effort.compare:
            return ()
        given, probe.pinned = probe.pinned, Pinned([*probe.pinned.paths, *found])
        try:
            without = [way.capture(probe.env) for _ in probe.replay(moments)]
        except Exception:  # steps depend on them
            return ()
        finally:
            probe.pinned = given
        if len(set(without)) >= len(set(held)):
            return ()
        warnings.warn(
            f"states of {self.name} differ by {' and '.join(found)}, counting steps, on which nothing else was seen to "
            f"depend: from_gym(..., ignore={list(found)!r}) keeps it at its value after a reset",
            stacklevel=4,
        )
        return tuple(found)

    def _deterministic(
        self, given: bool | None, probe: Probe, way: Way, moments: Sequence[Moment], held: Sequence[Held]
    ) -> bool:
        """Whether the environment is deterministic: as given, unless refuted, or as observed in random episodes."""
        if not way.exact:
            warnings.warn(
                f"set_state restores {self.name} up to rounding only, so that steps from one state vary slightly: "
                "restore all that the next step depends on (of MuJoCo, mjSTATE_INTEGRATION)",
                stacklevel=4,
            )
        if given is None:
            return way.exact and not probe.drew
        if given and not way.exact:
            raise BadInput(f"{self.name} is not deterministic: it is restored up to rounding only")
        if given and probe.drew and (difference := resampled(probe, way, moments, held)):
            raise BadInput(f"{self.name} is not deterministic: {difference}")
        return bool(given)

    def _look(self, probe: Probe, moments: Sequence[Moment]) -> Callable[[Any], Any] | None:
        """A function that returns the last observation, if a common one agrees with the reference; else None."""
        for look in (_get_obs, _get_ob, _gen_obs, _state):
            try:
                if all(same(look(self.env), moment.observation) for moment in probe.replay(moments)):
                    return look
            except (AttributeError, TypeError, ValueError, Unfaithful):
                continue
        return None

    def _reward_range(self, given: tuple[float, float] | str | None, moments: Sequence[Moment]) -> tuple[float, float]:
        rewards = [moment.result[1] for moment in moments]
        if given == "probe":
            return min(rewards), max(rewards)
        if given is not None:
            return given  # type: ignore[return-value]  # checked by Problem
        if all(type(layer).__name__ in OBSERVING for layer in layers(self.env)[:-1]):
            found = known_rewards(self.env.unwrapped)
            if found is not None:
                return found
        raise BadInput(
            f"the range of the rewards of {self.name} is not known: give reward_range=(low, high); "
            f"random episodes saw {min(rewards):g} to {max(rewards):g} (reward_range='probe' takes that)"
        )

    def _warn_if_partially_observed(self, moments: Sequence[Moment], held: Sequence[Held]) -> None:
        first: dict[bytes, Held] = {}
        content = Content(lambda layer, name: False)
        for moment, state in zip(moments, held, strict=True):
            if first.setdefault(content.write_value(moment.observation), state) != state:
                warnings.warn(
                    f"the observation of {self.name} is not its state: {shown(moment.observation)} was seen in "
                    "different states; plans use the whole state, features only what is observed",
                    stacklevel=4,
                )
                return


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
    plain = name.rpartition(":")[2]
    if plain not in gymnasium.registry and register_package(plain):
        name = plain
    if ":" not in name and name not in gymnasium.registry:
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


def _gen_obs(env: Any) -> Any:
    return env.gen_obs()


def _state(env: Any) -> Any:
    return np.array(env.state, dtype=env.observation_space.dtype)
