"""Local access: metered queries at states seen before.

Only the access object issues nodes: for the states of the episode and the successors returned by queries.  A node of
another access object, a copy, or an imitation raises NotReached: each node carries a seal computed from its address
and a secret of the access object.  This prevents mistakes, not malice: within one Python process a planner that reads
private attributes can still cheat.

If transitions and rewards are declared deterministic, results are cached and charged once per distinct (state, action);
``cache=False`` queries and charges every time.  In both cases a result that contradicts an earlier one is an error.
States that are not hashable cannot be cached.

An access object belongs to one episode.  It cannot be copied or pickled, and the loop closes it at the end of the
episode, after which queries raise NotReached.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from tensorplan.access.batches import BatchAccess
from tensorplan.access.meter import Meter, TimedMeter
from tensorplan.core import END, Array, Batched, Deadline, Outcome, Problem, State, Trail, Vectorised, Walk
from tensorplan.core.errors import BadInput, NotReached, ProblemError, shown
from tensorplan.problems.realizability import Misfit, misfit_of
from tensorplan.problems.simulate import (
    checked_reward,
    contradiction,
    draw_batch,
    draw_many,
    draw_noise,
    generators,
    retry,
    unpack,
    whole_action,
)
from tensorplan.problems.states import equal, hashable, incomparable, pack
from tensorplan.problems.states import unpack as unpack_states

INTERNED = 200_000
"""Most nodes kept, so that a state seen again is the same node with its features computed; bounds memory."""

WATCHED = 64
"""The first so many queries declared deterministic, and one in so many later, are checked for random draws: the check
costs more than the query."""

CLOSED = -1
"""Replaces the secret when the episode is over: no seal matches it."""

Draws = tuple[Array, Sequence[State], NDArray[np.integer[Any]]]
"""Rewards (n,), the distinct next states, and the index of the next state of each sample (n,)."""

_pair = tuple.__new__  # faster than Outcome(reward, next), whose constructor is Python code


class LocalNode:
    """A state as the planner sees it (see :class:`tensorplan.core.Node`)."""

    __slots__ = ("_access", "_phi_q", "_phi_v", "_seal", "_stage", "_state", "note")

    def __init__(self, access: LocalAccess, state: State, stage: int) -> None:
        self._access = access
        self._state = state
        self._stage = stage
        self._seal = 0  # set by the access object that issues the node
        self._phi_v: Array | None = None
        self._phi_q: Array | None = None
        self.note: Any = None

    @property
    def stage(self) -> int:
        """Steps taken so far; always 0 in problems without a horizon."""
        return self._stage

    @property
    def key(self) -> Any:
        """A hashable identity of the state, or None if the state is not hashable."""
        return self._state if hashable(self._state) else None

    @property
    def phi_v(self) -> Array:
        """φ_v of the state, (d,)."""
        if self._phi_v is None:
            self._phi_v = self._access._problem.state_features(self._state, self._stage)
        return self._phi_v

    @property
    def phi_q(self) -> Array:
        """φ_q of the state, (A, d)."""
        if self._phi_q is None:
            self._phi_q = self._access._problem.action_features(self._state, self._stage)
        return self._phi_q

    def __repr__(self) -> str:
        return f"<node {shown(self._state)} at stage {self._stage}>"


class Batch(Sequence[Outcome]):
    """Samples as arrays, and as a sequence of outcomes built on demand (see :class:`tensorplan.core.Sample`)."""

    __slots__ = ("rewards", "successors", "which")

    def __init__(self, rewards: Array, successors: Sequence[Any], which: NDArray[np.integer[Any]]) -> None:
        self.rewards = rewards
        self.successors = successors
        self.which = which

    def __len__(self) -> int:
        return len(self.rewards)

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> Outcome: ...
    @overload
    def __getitem__(self, index: slice, /) -> Batch: ...
    def __getitem__(self, index: SupportsIndex | slice, /) -> Outcome | Batch:
        if isinstance(index, slice):
            return Batch(self.rewards[index], self.successors, self.which[index])
        return Outcome(float(self.rewards[index]), self.successors[self.which[index]])

    def __iter__(self) -> Iterator[Outcome]:
        successors = self.successors
        return (Outcome(r, successors[i]) for r, i in zip(self.rewards.tolist(), self.which.tolist(), strict=True))


class LocalAccess:
    """Local access to a problem for one episode (see :class:`tensorplan.core.Access`)."""

    joint = False
    """A batch of queries is for one action."""
    drew: bool
    """Whether queries declared deterministic drew random numbers, which is a reason to recheck them."""

    def __init__(
        self,
        problem: Problem,
        start: State,
        rng: np.random.Generator,
        *,
        budget: int | None = None,
        cache: bool = True,
    ) -> None:
        problem.check_declarations()
        self.problem_name = problem.name
        self.horizon = problem.horizon
        self.actions = problem.actions
        self.reward_range = problem.reward_range
        self.deterministic_transitions = problem.deterministic_transitions
        self.deterministic_rewards = problem.deterministic_rewards
        self.discount = problem.discount
        self.bound = problem.bound
        self.dimension = problem.dimension
        self.has_phi_v = problem.phi_v is not None
        self.has_phi_q = problem.phi_q is not None
        self.declared_returns = problem.declared_returns

        self._problem = problem
        self._rng = rng
        self._step = problem.mdp.step
        self._low, self._high = problem.reward_range
        self._last = -1 if problem.horizon is None else problem.horizon - 1
        self._stage_step = 0 if problem.horizon is None else 1
        self._meter = Meter(budget)
        self._secret = secrets.randbits(64)
        self._batches: list[BatchAccess] = []
        self._nodes: dict[tuple[int, State], LocalNode] = {}
        self._known: dict[tuple[State, int], tuple[float, State]] = {}
        self._use_cache = cache and problem.deterministic
        self._query_one = self._query_cached if problem.deterministic_transitions else self._query_simulator
        self.drew = not problem.deterministic
        self._watched = self._unwatched = 0
        self._generators = generators(problem.mdp) if problem.deterministic else None
        self.identity = problem.identity
        self.root = self._admit(start, 0)

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        raise BadInput("an access object belongs to one episode: it cannot be copied or pickled")

    @property
    def spent(self) -> int:
        """Queries charged so far in this episode."""
        return self._meter.spent

    @property
    def remaining(self) -> float:
        """Queries left in the budget; ``inf`` without one."""
        return self._meter.remaining

    @property
    def deadline(self) -> Deadline:
        """When planning has to end; queries after it raise TimeSpent."""
        return self._meter.deadline

    def limit_time(self, seconds: float | None) -> None:
        """Set the deadline, so many seconds from now, unless there is an earlier one; None sets none."""
        if seconds is not None:
            self._meter = TimedMeter(self._meter, Deadline(min(seconds, self.deadline.remaining)))

    @property
    def clipped(self) -> bool:
        """Whether features were evaluated outside of their frame, and replaced by those of the nearest point."""
        problem = self._problem
        return any(getattr(part, "clipped", 0) for part in (problem.phi_v, problem.phi_q, problem.mdp))

    def return_range(self, stage: int, discount: float | None = None) -> tuple[float, float]:
        """The range of the return from ``stage`` on, with the problem's discount or another one."""
        return self._problem.return_range(stage, discount)

    def misfit(self, kind: str = "v") -> Misfit | None:
        """The distance of the features from realizing v* ("v") or q* ("q"), if the problem is a small table."""
        return misfit_of(self._problem, kind)

    def query(self, node: Any, action: int, n: int = 1) -> Sequence[Outcome]:
        """n samples of (reward, next) at a node issued before, charged as n queries."""
        if type(node) is not LocalNode or node._seal ^ id(node) != self._secret:
            raise self._not_reached(node)
        if n != 1:
            return self.sample(node, action, n)
        state, stage = node._state, node._stage
        if self.deterministic_transitions:
            reward, following = self._query_cached(state, stage, action)
        else:  # _query_simulator inlined: the call would cost a tenth of a query
            if type(action) is not int or not 0 <= action < self.actions:
                action = whole_action(action, self.actions, state, stage)
            meter = self._meter
            left = meter.left
            if left < 1:
                meter.charge(1)
            meter.left = left - 1
            try:
                result = self._step(state, action, self._rng)
            except Exception as error:
                result = retry(self._problem, state, stage, action, self._rng, error)
            try:
                reward, following = result
            except Exception:
                reward, following = unpack(self._problem, state, stage, action, result)
            if type(reward) is not float or not self._low <= reward <= self._high:
                reward, following = unpack(self._problem, state, stage, action, result)
        if following is END or stage == self._last:
            return [_pair(Outcome, (reward, END))]
        stage += self._stage_step
        try:
            child = self._nodes.get((stage, following))
        except Exception:
            child = None
        return [_pair(Outcome, (reward, self._issue(following, stage) if child is None else child))]

    def follow(self, node: Any, actions: Iterable[int]) -> Trail:
        """Query along a path of given actions, until END or the last of them.

        It is charged like single queries, but issues only the last node.
        """
        if type(node) is not LocalNode or node._seal ^ id(node) != self._secret:
            raise self._not_reached(node)
        state, stage, query, last, stage_step = node._state, node._stage, self._query_one, self._last, self._stage_step
        rewards: list[float] = []
        for action in actions:
            reward, state = query(state, stage, action)
            rewards.append(reward)
            if state is END or stage == last:
                return Trail(rewards, END)
            stage += stage_step
        return Trail(rewards, self._issue(state, stage))

    def walk(self, node: Any, choose: Callable[[Any], int | None]) -> Walk:
        """Query along a path of actions ``choose(node)``, until END or until it returns None."""
        if type(node) is not LocalNode or node._seal ^ id(node) != self._secret:
            raise self._not_reached(node)
        query, nodes, last, stage_step = self._query_one, self._nodes, self._last, self._stage_step
        steps: list[tuple[Any, float]] = []
        while (action := choose(node)) is not None:
            stage = node._stage
            reward, following = query(node._state, stage, action)
            steps.append((node, reward))
            if following is END or stage == last:
                return Walk(steps, END)
            stage += stage_step
            try:
                node = nodes.get((stage, following))
            except Exception:
                node = None
            if node is None:
                node = self._issue(following, stage)
        return Walk(steps, node)

    def sample(self, node: Any, action: int, n: int) -> Batch:
        """Like ``query``, with the samples as arrays."""
        if type(node) is not LocalNode or node._seal ^ id(node) != self._secret:
            raise self._not_reached(node)
        state, stage = node._state, node._stage
        action = whole_action(action, self.actions, state, stage)
        if not isinstance(n, int | np.integer) or isinstance(n, bool) or n < 1:
            raise BadInput(f"the number of samples must be a positive whole number, got {n!r}")
        n = int(n)
        if self._use_cache:
            reward, following = self._query_cached(state, stage, action)
            return Batch(np.full(n, reward), (self._issue_next(following, stage),), np.zeros(n, dtype=np.intp))
        mdp = self._problem.mdp
        if isinstance(mdp, Vectorised | Batched):
            self._meter.charge(n)
            draw = self._draw_batch if isinstance(mdp, Vectorised) else self._draw_many
            rewards, following, which = draw(state, stage, action, n)
            ends = stage == self._last and not isinstance(mdp, Vectorised)  # draw_many says END, whatever follows
            if self.deterministic_transitions and not ends:
                for reward, i in zip(rewards.tolist(), which.tolist(), strict=True):
                    self._record(state, stage, action, reward, following[i])
        else:
            if n > self._meter.left:
                self._meter.charge(n)
            results = [self._query_one(state, stage, action) for _ in range(n)]
            rewards = np.array([reward for reward, _ in results])
            following, which = [successor for _, successor in results], np.arange(n)
        return Batch(rewards, [self._issue_next(s, stage) for s in following], which)

    def _draw_batch(self, state: State, stage: int, action: int, n: int) -> Draws:
        """n samples by ``step_batch``."""
        rewards, following, which = draw_batch(self._problem, state, stage, action, n, self._rng)
        if not self._low <= float(rewards.min()) <= float(rewards.max()) <= self._high:
            rewards = np.array([checked_reward(self._problem, state, stage, action, r) for r in rewards.tolist()])
        return rewards, following, which

    def _draw_many(self, state: State, stage: int, action: int, n: int) -> Draws:
        """n samples by ``step_many``, with each next state listed once."""
        states, noise = np.repeat(pack([state]), n, axis=0), draw_noise(self._problem, n, self._rng)
        rewards, reached, ended = draw_many(self._problem, states, stage, np.full(n, action), noise)
        distinct, places = np.unique(reached[~ended], axis=0, return_inverse=True)
        which = np.full(n, len(distinct))
        which[~ended] = places.reshape(-1)
        return rewards, unpack_states(distinct) + [END] * bool(ended.any()), which

    def batches(self, seed: int) -> BatchAccess:
        """States by number, stepped many at a time with shared noise, and charged like queries."""
        made = BatchAccess(self._problem, self._meter, seed)
        self._batches.append(made)
        return made

    def recheck(self, node: Any, action: int) -> Outcome:
        """One query that bypasses the cache, charged; a result that contradicts an earlier one is an error."""
        if type(node) is not LocalNode or node._seal ^ id(node) != self._secret:
            raise self._not_reached(node)
        state, stage = node._state, node._stage
        reward, following = self._query_watched(state, stage, action)
        self.drew = self.drew or self._generators != generators(self._problem.mdp)
        if self.deterministic_transitions:
            self._record(state, stage, action, reward, following)
        return Outcome(reward, self._issue_next(following, stage))

    def sample_all(self, node: Any, n: int, *, shared: bool = False) -> list[Batch]:
        """n samples of every action, charged as A n queries; with the same random numbers for all if ``shared``."""
        actions = range(self.actions)
        if not shared or self._use_cache:
            return [self.sample(node, action, n) for action in actions]
        own, seed = self._rng, int(self._rng.integers(1 << 63))
        try:
            samples = []
            for action in actions:
                self._rng = np.random.default_rng(seed)
                samples.append(self.sample(node, action, n))
        finally:
            self._rng = own
        return samples

    # ------------------------------------------------------------------ one query

    def _query_simulator(self, state: State, stage: int, action: int) -> tuple[float, State]:
        """One charged and checked query; inlined checks, because this is the hot path of tree search."""
        if type(action) is not int or not 0 <= action < self.actions:
            action = whole_action(action, self.actions, state, stage)
        meter = self._meter
        left = meter.left
        if left < 1:
            meter.charge(1)
        meter.left = left - 1
        try:
            result = self._step(state, action, self._rng)
        except Exception as error:
            result = retry(self._problem, state, stage, action, self._rng, error)
        try:
            reward, following = result
        except Exception:
            reward, following = unpack(self._problem, state, stage, action, result)
        if type(reward) is not float or not self._low <= reward <= self._high:
            reward, following = unpack(self._problem, state, stage, action, result)
        return reward, following

    def _query_cached(self, state: State, stage: int, action: int) -> tuple[float, State]:
        """One query with deterministic transitions: from the cache, or compared with earlier results."""
        if self._use_cache:
            try:
                known = self._known.get((state, action))
            except TypeError:
                known = None
            except Exception as error:
                raise incomparable(state, error) from error
            if known is not None:
                return known
        self._unwatched -= 1
        if self._unwatched >= 0:
            reward, following = self._query_simulator(state, stage, action)
        else:
            reward, following = self._query_watched(state, stage, action)
        self._record(state, stage, action, reward, following)
        return reward, following

    def _query_watched(self, state: State, stage: int, action: int) -> tuple[float, State]:
        """One query that also records whether the simulator drew random numbers."""
        self._watched += 1
        self._unwatched = 0 if self._watched < WATCHED and not self.drew else WATCHED
        before = self._rng.bit_generator.state
        result = self._query_simulator(state, stage, action)
        self.drew = self.drew or self._rng.bit_generator.state != before
        return result

    def _record(self, state: State, stage: int, action: int, reward: float, following: State) -> None:
        """Store the first result at (state, action), and compare later ones with it."""
        try:
            first_reward, first = self._known.setdefault((state, action), (reward, following))
        except TypeError:
            return
        except Exception as error:
            raise incomparable(state, error) from error
        if first is not following and not equal(first, following):
            raise contradiction(state, stage, action, "transition", first, following)
        if self.deterministic_rewards and first_reward != reward:
            raise contradiction(state, stage, action, "reward", first_reward, reward)

    def _issue_next(self, following: State, stage: int) -> Any:
        if following is END or stage == self._last:
            return END
        return self._issue(following, stage + self._stage_step)

    def _issue(self, state: State, stage: int) -> LocalNode:
        """The node of a state, shared if it is already known."""
        keep = len(self._nodes) < INTERNED
        try:
            known = self._nodes.get((stage, state))
        except TypeError:
            known, keep = None, False
        except Exception as error:
            raise incomparable(state, error) from error
        if known is not None:
            return known
        node = LocalNode(self, state, stage)
        node._seal = id(node) ^ self._secret
        if keep:
            self._nodes[stage, state] = node
        return node

    def _not_reached(self, node: object) -> NotReached:
        if self._secret == CLOSED:
            return NotReached("the episode of this access object is over: it answers no more queries")
        if node is END:
            return NotReached("END cannot be queried: it is absorbing")
        if isinstance(node, LocalNode) and node._access is not self:
            return NotReached(f"{node!r} belongs to another access object")
        return NotReached(
            f"{node!r} was not issued by this access object: only the root, and what queries return, may be queried"
        )

    # ------------------------------------------------------------------ for the loop

    def close(self) -> None:
        """End the episode: later queries raise NotReached."""
        self._secret = CLOSED
        for made in self._batches:
            made.closed = True

    def _admit(self, state: State, stage: int) -> LocalNode:
        """The node of the current state of the episode."""
        return self._unchanged(self._issue(state, stage))

    def _unchanged(self, node: LocalNode) -> LocalNode:
        """The node, after checking that its features, computed again, have not changed."""
        for name in ("phi_v", "phi_q"):
            seen = getattr(node, "_" + name)
            if seen is not None:
                setattr(node, "_" + name, None)
                again = getattr(node, name)
                if not np.array_equal(seen, again):
                    at = int(np.argmax((seen != again).ravel()))
                    where = f"{name}(state={shown(node._state)}, stage={node._stage})"
                    raise ProblemError(
                        f"{where} changed between two calls: entry {at} was "
                        f"{seen.ravel()[at]!r} and then {again.ravel()[at]!r}"
                    )
        return node

    def _witness(self, node: LocalNode, action: int, reward: float, following: State) -> None:
        """Compare a step of the episode with what queries returned."""
        if self.deterministic_transitions:
            self._record(node._state, node._stage, action, reward, following)
