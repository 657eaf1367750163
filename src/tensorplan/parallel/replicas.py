"""Slow simulators in parallel: an MDP whose samples are drawn by replicas of it.

A replica is a copy of the simulator in a process of its own, or in a Ray actor (the extra ``ray``).  A batch is split
into pieces of ``batch`` samples, distributed over the replicas, so that n samples at one pair
(:meth:`tensorplan.core.Access.sample`) take the time of n / (workers × batch) pieces.

The samples depend neither on the number of replicas nor on their timing: piece i of a batch is drawn from a generator
seeded with (a number drawn for the batch, i).  A replica that dies is replaced and its piece is drawn again with the
same seed; the meter of the access object counts each sample of the planner once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import MDP, Array, State, Vectorised
from tensorplan.core.errors import BadInput, ProblemError
from tensorplan.core.specs import truth, whole
from tensorplan.parallel.pool import DEATHS, ServerDied, make_pool
from tensorplan.problems.transforms.forwarding import Forwarding

PREFETCHED = 100_000
"""Most results kept that were drawn ahead of time; bounds memory."""


class Piece(NamedTuple):
    """A request to a replica: n samples at (state, action), drawn with a seed."""

    state: State
    action: int
    n: int
    seed: tuple[int, int]


class Reply(NamedTuple):
    """The samples of a piece, as in ``step_batch``, or the error of the simulator."""

    rewards: Sequence[float]
    successors: Sequence[State]
    which: Sequence[int]
    drew: bool
    """Whether the simulator drew random numbers."""
    error: Exception | None = None


class ReplicatedMDP(Forwarding):
    """The MDP ``make()``, simulated by ``workers`` replicas.

    ``make`` must be importable by another process: a function or class of a module.  ``engine``: ``"local"`` or
    ``"ray"``, the latter at ``address`` or started here.  ``ahead``: at the first query at a state, draw all of its
    actions; the other results are kept, and metered only when they are queried.  This needs a deterministic MDP, and
    helps planners that make one query at a time.
    """

    def __init__(
        self,
        make: Callable[[], MDP],
        workers: int | None = None,
        *,
        batch: int = 1,
        engine: str = "local",
        address: str | None = None,
        ahead: bool = False,
    ) -> None:
        super().__init__(make())
        self.calls = 0
        """Samples drawn by replicas, including those drawn ahead of time or repeated."""
        self._batch = whole("batch", batch, 1)
        self._ahead = truth("ahead", ahead)
        if self._ahead and not (self.deterministic_transitions and self.deterministic_rewards):
            raise BadInput("ahead=True needs an MDP that declares deterministic transitions and rewards")
        self._known: dict[tuple[Hashable, int], tuple[float, State]] = {}
        self._pool = make_pool(_Replica(make), engine, workers, address)

    def start(self, rng: np.random.Generator) -> State:
        """Draw an initial state, in this process."""
        return self.mdp.start(rng)

    def step(self, state: State, action: int, rng: np.random.Generator) -> tuple[float, State]:
        """Draw (reward, next state), by a replica."""
        if not self._ahead:
            return _single(self._draw([(state, action, 1)], rng)[0])
        try:
            if (state, action) not in self._known:
                if len(self._known) + self.actions > PREFETCHED:
                    self._known.clear()
                replies = self._draw([(state, a, 1) for a in range(self.actions)], rng)
                self._known.update({(state, a): _single(reply) for a, reply in enumerate(replies)})
            return self._known.pop((state, action))  # a repeated query is drawn again
        except TypeError:
            raise ProblemError(f"ahead=True needs states that can be hashed, got {state!r}") from None

    def step_batch(
        self, state: State, action: int, n: int, rng: np.random.Generator
    ) -> tuple[Array, Sequence[State], NDArray[np.integer[Any]]]:
        """Draw n samples, by all replicas in parallel."""
        sizes = [min(self._batch, n - at) for at in range(0, n, self._batch)]
        replies = self._draw([(state, action, size) for size in sizes], rng)
        offsets = np.cumsum([0, *(len(reply.successors) for reply in replies)])
        which = [np.asarray(reply.which) + offset for reply, offset in zip(replies, offsets, strict=False)]
        rewards = np.concatenate([np.asarray(reply.rewards, dtype=np.float64) for reply in replies])
        return rewards, [s for reply in replies for s in reply.successors], np.concatenate(which)

    def close(self) -> None:
        """End the replicas."""
        self._pool.close()

    def __enter__(self) -> ReplicatedMDP:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def _draw(self, requests: Sequence[tuple[State, int, int]], rng: np.random.Generator) -> list[Reply]:
        """The replies to requests (state, action, n), in the same order."""
        certain = self.deterministic_transitions and self.deterministic_rewards
        drawn = self.calls if certain else int(rng.integers(2**63))
        pieces = [Piece(*request, (drawn, i)) for i, request in enumerate(requests)]
        replies = list[Reply]()
        try:
            for reply in self._pool.replies(pieces, self._count):
                if reply.error is not None:
                    raise reply.error
                replies.append(reply)
        except ServerDied:
            raise ProblemError(f"{DEATHS} replicas of the simulator died during the same query") from None
        if certain and any(reply.drew for reply in replies):
            rng.random()  # access objects detect undeclared randomness by the state of the generator
        return replies

    def _count(self, piece: Piece) -> None:
        self.calls += piece.n


def _single(reply: Reply) -> tuple[float, State]:
    return reply.rewards[0], reply.successors[reply.which[0]]


def draw(mdp: MDP, piece: Piece) -> Reply:
    """The reply of a replica to a piece."""
    state, action, n, seed = piece
    rng = np.random.default_rng(seed)
    before = rng.bit_generator.state
    try:
        if n > 1 and isinstance(mdp, Vectorised):
            rewards, successors, which = mdp.step_batch(state, action, n, rng)
            return Reply(rewards.tolist(), list(successors), which.tolist(), rng.bit_generator.state != before)
        steps = [mdp.step(state, action, rng) for _ in range(n)]
        drew = rng.bit_generator.state != before
        return Reply([reward for reward, _ in steps], [following for _, following in steps], range(n), drew)
    except Exception as error:
        return Reply((), (), (), False, RuntimeError(f"{type(error).__name__}: {error}"))


@dataclass(frozen=True)
class _Replica:
    """The simulator as a server: ``_Replica(make)()`` answers pieces."""

    make: Callable[[], MDP]

    def __call__(self) -> Callable[[Piece], Reply]:
        return partial(draw, self.make())
