"""Slow simulators in parallel: an MDP whose samples are drawn by replicas of it.

A replica is a copy of the simulator in a process of its own, or in a Ray actor (the extra ``ray``).  A batch is split
into pieces of ``batch`` samples, distributed over the replicas, so that n samples at one pair
(:meth:`tensorplan.core.Access.sample`) take the time of n / (workers × batch) pieces.

The samples depend neither on the number of replicas nor on their timing: piece i of a batch is drawn from a generator
seeded with (a number drawn for the batch, i).  A replica that dies is replaced and its piece is drawn again with the
same seed; the meter of the access object counts each sample of the planner once.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from multiprocessing import connection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import MDP, Array, State, Vectorised
from tensorplan.core.errors import BadInput, ProblemError
from tensorplan.core.specs import one_of, truth, whole
from tensorplan.parallel.clusters import connect
from tensorplan.parallel.processes import Child, processors
from tensorplan.problems.transforms.forwarding import Forwarding

DEATHS = 3
"""Replicas that may die while drawing one piece before it is an error."""
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
        if workers is not None:
            workers = whole("workers", workers, 1)
        if one_of("engine", engine, ("local", "ray")) == "ray":
            self._pool: _Pool = _Actors(make, workers, address)
        elif address is not None:
            raise BadInput(f"the address {address!r} is that of a Ray cluster, and the engine is 'local'")
        else:
            self._pool = _Processes(make, workers or processors())

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
        todo, replies, deaths = deque(range(len(pieces))), dict[int, Reply](), Counter[int]()
        try:
            while len(replies) < len(pieces):
                while todo and self._pool.free:
                    at = todo.popleft()
                    self.calls += pieces[at].n
                    self._pool.send(at, pieces[at])
                for at, reply in self._pool.receive():
                    if reply is None:
                        deaths[at] += 1
                        if deaths[at] >= DEATHS:
                            raise ProblemError(f"{DEATHS} replicas of the simulator died during the same query")
                        todo.appendleft(at)
                    elif reply.error is not None:
                        raise reply.error
                    else:
                        replies[at] = reply
        except BaseException:
            self._pool.drop()
            raise
        if certain and any(reply.drew for reply in replies.values()):
            rng.random()  # access objects detect undeclared randomness by the state of the generator
        return [replies[at] for at in range(len(pieces))]


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


# ------------------------------------------------------------------------------------------------- the replicas


class _Pool:
    """Up to ``workers`` replicas, each drawing one piece at a time; subclasses start, call and end them.

    ``_submit`` returns the handle of the pending reply, ``_ready`` waits for replies and returns their handles, and
    ``_reply`` is the reply of such a handle, None if the replica died.
    """

    def __init__(self, make: Callable[[], MDP], workers: int) -> None:
        self.make, self.workers = make, workers
        self.idle: list[Any] = []
        self.busy: dict[Any, tuple[int, Any]] = {}  # (index of the piece, replica) by the handle of the pending reply

    @property
    def free(self) -> bool:
        """Whether another piece can be sent."""
        return len(self.busy) < self.workers

    def send(self, at: int, piece: Piece) -> None:
        """Send the piece with index ``at`` to a replica."""
        replica = self.idle.pop() if self.idle else self._start()
        try:
            self.busy[self._submit(replica, piece)] = at, replica
        except BaseException:
            self._end(replica)
            raise

    def receive(self) -> list[tuple[int, Reply | None]]:
        """Wait for replies, by the index of the piece; None if the replica died."""
        received: list[tuple[int, Reply | None]] = []
        for handle in self._ready():
            at, replica = self.busy.pop(handle)
            reply = self._reply(handle)
            if reply is None:
                self._end(replica)
            else:
                self.idle.append(replica)
            received.append((at, reply))
        return received

    def drop(self) -> None:
        """End the busy replicas, and with them their pieces."""
        for _, replica in self.busy.values():
            self._end(replica)
        self.busy = {}

    def close(self) -> None:
        """End all replicas."""
        self.drop()
        for replica in self.idle:
            self._end(replica)
        self.idle = []

    def _start(self) -> Any: ...
    def _submit(self, replica: Any, piece: Piece) -> Any: ...
    def _ready(self) -> Any: ...
    def _reply(self, handle: Any) -> Any: ...
    def _end(self, replica: Any) -> None: ...


class _Processes(_Pool):
    """Replicas in processes of this machine; the handle of a reply is the pipe."""

    def _start(self) -> Child:
        return Child(_serve, self.make)

    def _submit(self, replica: Child, piece: Piece) -> Any:
        with suppress(BrokenPipeError, ConnectionResetError):  # it died while idle, which _reply reports
            replica.pipe.send(piece)
        return replica.pipe

    def _ready(self) -> Any:
        ready = set(connection.wait(list(self.busy)))
        return [pipe for pipe in self.busy if pipe in ready]

    def _reply(self, handle: Any) -> Any:
        try:
            return handle.recv()
        except (EOFError, OSError):
            return None

    def _end(self, replica: Child) -> None:
        replica.end()


def _serve(pipe: Any, make: Callable[[], MDP]) -> None:
    """Reply to the pieces from the pipe until it is closed."""
    mdp = make()
    while True:
        pipe.send(draw(mdp, pipe.recv()))


class _Actors(_Pool):
    """Replicas in the actors of a Ray cluster; the handle of a reply is its reference."""

    def __init__(self, make: Callable[[], MDP], workers: int | None, address: str | None) -> None:
        self.ray, self.started = connect(address, workers)
        cpus = max(1, int(self.ray.cluster_resources().get("CPU", 1)))
        super().__init__(make, cpus if workers is None else min(workers, cpus))

    def close(self) -> None:
        """End all replicas, and the connection to the cluster if it was made here."""
        super().close()
        if self.started:
            self.ray.shutdown()

    def _start(self) -> Any:
        return self.ray.remote(num_cpus=1)(_Replica).remote(self.make)

    def _submit(self, replica: Any, piece: Piece) -> Any:
        return replica.draw.remote(piece)

    def _ready(self) -> Any:
        return self.ray.wait(list(self.busy), num_returns=1)[0]

    def _reply(self, handle: Any) -> Any:
        try:
            return self.ray.get(handle)
        except self.ray.exceptions.RayError:
            return None

    def _end(self, replica: Any) -> None:
        with suppress(self.ray.exceptions.RayError):
            self.ray.kill(replica)


class _Replica:
    """The simulator in an actor."""

    def __init__(self, make: Callable[[], MDP]) -> None:
        self.mdp = make()

    def draw(self, piece: Piece) -> Reply:
        """The reply to a piece."""
        return draw(self.mdp, piece)
