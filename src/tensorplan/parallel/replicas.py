"""Simulators that take their time, many at once: an MDP whose queries are answered by replicas of it.

A replica is a copy of the simulator in a process of its own, or in a Ray actor (the extra ``ray``).  A batch of queries
is cut into pieces of ``batch`` samples that the replicas take in turn, so that n samples of one pair, which is what
:meth:`tensorplan.core.Access.sample` asks for, take the time of n / (workers × batch) pieces.

What comes back does not depend on the number of replicas, nor on who answered: piece i of a batch is drawn from a
generator made from (a number drawn for the batch, i).  A replica that dies is replaced and its piece is asked again
with the same seed; the meter of the access object counts the samples that the planner asked for, each once.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from multiprocessing import connection
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import MDP, Array, State, Vectorised
from tensorplan.core.errors import BadInput, ProblemError
from tensorplan.core.specs import one_of, truth, whole
from tensorplan.parallel.clusters import connect
from tensorplan.parallel.processes import Child, processors
from tensorplan.problems.transforms.forwarding import Forwarding

DEATHS = 3
"""How often replicas may die of one piece before it is an error."""
REMEMBERED = 100_000
"""Answers that are kept, where they were asked for ahead of time."""


class Piece(NamedTuple):
    """What one replica draws at a time."""

    state: State
    action: int
    n: int
    seed: tuple[int, int]


class Reply(NamedTuple):
    """Rewards, successors, and which of them each sample went to; or what went wrong."""

    rewards: Sequence[float]
    successors: Sequence[State]
    which: Sequence[int]
    drew: bool
    """Whether the simulator drew random numbers."""
    error: Exception | None = None


class ReplicatedMDP(Forwarding):
    """The MDP that ``make()`` gives, simulated by ``workers`` replicas.

    ``make`` must be importable by another process: a function or class of a module.  ``engine``: ``"local"`` or
    ``"ray"``, the latter at ``address`` or started here.  ``ahead``: ask for all actions of a state at once as soon as
    one of them is asked for; the other answers are kept until a planner asks, and only then does its meter count them.
    It needs a deterministic MDP, and helps planners that ask one thing after the other.
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
        """Samples drawn by replicas, those that were drawn ahead of time or twice included."""
        self._batch = whole("batch", batch, 1)
        self._ahead = truth("ahead", ahead)
        if self._ahead and not (self.deterministic_transitions and self.deterministic_rewards):
            raise BadInput("asking ahead needs an MDP that declares deterministic transitions and rewards")
        self._known: dict[tuple[Hashable, int], tuple[float, State]] = {}
        if workers is not None:
            workers = whole("workers", workers, 1)
        if one_of("engine", engine, ("local", "ray")) == "ray":
            self._crew: _Crew = _Actors(make, workers, address)
        elif address is not None:
            raise BadInput(f"the address {address!r} is that of a Ray cluster, and the engine is 'local'")
        else:
            self._crew = _Processes(make, workers or processors())

    def start(self, rng: np.random.Generator) -> State:
        """Draw an initial state, here."""
        return self.mdp.start(rng)

    def step(self, state: State, action: int, rng: np.random.Generator) -> tuple[float, State]:
        """Draw (reward, next state), by a replica."""
        if not self._ahead:
            return _single(self._ask([(state, action, 1)], rng)[0])
        try:
            if (state, action) not in self._known:
                if len(self._known) + self.actions > REMEMBERED:
                    self._known.clear()
                answers = self._ask([(state, a, 1) for a in range(self.actions)], rng)
                self._known.update({(state, a): _single(answer) for a, answer in enumerate(answers)})
            return self._known.pop((state, action))  # asked once more, it is asked of a replica
        except TypeError:
            raise ProblemError(f"asking ahead needs states that can be hashed, got {state!r}") from None

    def step_batch(
        self, state: State, action: int, n: int, rng: np.random.Generator
    ) -> tuple[Array, Sequence[State], NDArray[np.integer[Any]]]:
        """Draw n samples, by all replicas."""
        sizes = [min(self._batch, n - at) for at in range(0, n, self._batch)]
        answers = self._ask([(state, action, size) for size in sizes], rng)
        offsets = np.cumsum([0, *(len(answer.successors) for answer in answers)])
        which = [np.asarray(answer.which) + offset for answer, offset in zip(answers, offsets, strict=False)]
        rewards = np.concatenate([np.asarray(answer.rewards, dtype=np.float64) for answer in answers])
        return rewards, [s for answer in answers for s in answer.successors], np.concatenate(which)

    def close(self) -> None:
        """End the replicas."""
        self._crew.close()

    def __enter__(self) -> ReplicatedMDP:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    def _ask(self, questions: Sequence[tuple[State, int, int]], rng: np.random.Generator) -> list[Reply]:
        """The answers, in the order of the questions."""
        certain = self.deterministic_transitions and self.deterministic_rewards
        drawn = self.calls if certain else int(rng.integers(2**63))
        pieces = [Piece(*question, (drawn, i)) for i, question in enumerate(questions)]
        todo, answers, deaths = deque(range(len(pieces))), dict[int, Reply](), Counter[int]()
        try:
            while len(answers) < len(pieces):
                while todo and self._crew.free:
                    at = todo.popleft()
                    self.calls += pieces[at].n
                    self._crew.send(at, pieces[at])
                for at, answer in self._crew.receive():
                    if answer is None:
                        deaths[at] += 1
                        if deaths[at] >= DEATHS:
                            raise ProblemError(f"{DEATHS} replicas of the simulator died of this one query")
                        todo.appendleft(at)
                    elif answer.error is not None:
                        raise answer.error
                    else:
                        answers[at] = answer
        except BaseException:
            self._crew.drop()
            raise
        if certain and any(answer.drew for answer in answers.values()):
            rng.random()  # whoever watches the generator is to know
        return [answers[at] for at in range(len(pieces))]


def _single(answer: Reply) -> tuple[float, State]:
    return answer.rewards[0], answer.successors[answer.which[0]]


def draw(mdp: MDP, piece: Piece) -> Reply:
    """What a replica answers."""
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


# ------------------------------------------------------------------------------------------------- who answers


class _Crew(Protocol):
    """Replicas, each at one piece at a time."""

    @property
    def free(self) -> bool:
        """Whether one has nothing to do."""

    def send(self, at: int, piece: Piece) -> None:
        """Give it a piece."""

    def receive(self) -> list[tuple[int, Reply | None]]:
        """Wait for answers; None where a replica died."""

    def drop(self) -> None:
        """Forget what is under way."""

    def close(self) -> None:
        """End them all."""


class _Processes:
    """Replicas in processes of this machine."""

    def __init__(self, make: Callable[[], MDP], workers: int) -> None:
        self.make, self.workers = make, workers
        self.idle: list[Child] = []
        self.busy: dict[Child, int] = {}

    @property
    def free(self) -> bool:
        return len(self.busy) < self.workers

    def send(self, at: int, piece: Piece) -> None:
        child = self.idle.pop() if self.idle else Child(_serve, self.make)
        self.busy[child] = at
        with suppress(BrokenPipeError, ConnectionResetError):  # it died while idle: receive hears of it
            child.pipe.send(piece)

    def receive(self) -> list[tuple[int, Reply | None]]:
        ready = set(connection.wait([child.pipe for child in self.busy]))
        over: list[tuple[int, Reply | None]] = []
        for child in [child for child in self.busy if child.pipe in ready]:
            at = self.busy.pop(child)
            try:
                over.append((at, child.pipe.recv()))
                self.idle.append(child)
            except (EOFError, OSError):
                child.end()
                over.append((at, None))
        return over

    def drop(self) -> None:
        for child in self.busy:
            child.end()
        self.busy = {}

    def close(self) -> None:
        self.drop()
        for child in self.idle:
            child.end()
        self.idle = []


def _serve(pipe: Any, make: Callable[[], MDP]) -> None:
    """Pieces in, answers out, until nobody asks any more."""
    mdp = make()
    while True:
        pipe.send(draw(mdp, pipe.recv()))


class _Actors:
    """Replicas in the actors of a Ray cluster."""

    def __init__(self, make: Callable[[], MDP], workers: int | None, address: str | None) -> None:
        self.ray, self.started = connect(address, workers)
        there = max(1, int(self.ray.cluster_resources().get("CPU", 1)))
        self.make, self.workers = make, there if workers is None else min(workers, there)
        self.idle: list[Any] = []
        self.busy: dict[Any, tuple[int, Any]] = {}

    @property
    def free(self) -> bool:
        return len(self.busy) < self.workers

    def send(self, at: int, piece: Piece) -> None:
        actor = self.idle.pop() if self.idle else self.ray.remote(num_cpus=1)(_Replica).remote(self.make)
        self.busy[actor.answer.remote(piece)] = at, actor

    def receive(self) -> list[tuple[int, Reply | None]]:
        ready, _ = self.ray.wait(list(self.busy), num_returns=1)
        over: list[tuple[int, Reply | None]] = []
        for reference in ready:
            at, actor = self.busy.pop(reference)
            try:
                over.append((at, self.ray.get(reference)))
                self.idle.append(actor)
            except self.ray.exceptions.RayError:
                self._end(actor)
                over.append((at, None))
        return over

    def drop(self) -> None:
        for _, actor in self.busy.values():
            self._end(actor)
        self.busy = {}

    def close(self) -> None:
        self.drop()
        for actor in self.idle:
            self._end(actor)
        self.idle = []
        if self.started:
            self.ray.shutdown()

    def _end(self, actor: Any) -> None:
        with suppress(self.ray.exceptions.RayError):
            self.ray.kill(actor)


class _Replica:
    """The simulator in an actor."""

    def __init__(self, make: Callable[[], MDP]) -> None:
        self.mdp = make()

    def answer(self, piece: Piece) -> Reply:
        """What it draws."""
        return draw(self.mdp, piece)
