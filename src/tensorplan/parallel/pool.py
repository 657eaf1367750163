"""Servers that answer requests in parallel: processes of this machine, or actors of a Ray cluster (the extra ``ray``).

A server is a function from a request to a reply, made by ``make()`` where it runs.  One that dies is replaced, and its
request is sent to another.
"""

from __future__ import annotations

import pickle
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection
from typing import Any

from tensorplan.core.errors import BadInput, raised
from tensorplan.core.specs import one_of, whole
from tensorplan.parallel.clusters import connect
from tensorplan.parallel.processes import Child, processors

Server = Callable[[Any], Any]

DEATHS = 3
"""Servers that may die over one request before it is an error."""

GLANCE = 0.1
"""Seconds after which a wait for replies is interrupted, to see whether it should end."""

AHEAD = 2
"""Requests in flight or answered out of order, per server: enough to keep all of them busy."""


class ServerDied(Exception):
    """Several servers died over the same request."""


class Pool:
    """Up to ``workers`` servers, each with one request at a time; subclasses start, call and end them.

    ``_submit`` returns the handle of the pending reply, ``_ready`` waits for replies, for a moment, and returns their
    handles, and ``_reply`` is the reply of such a handle, None if the server died.
    """

    def __init__(self, make: Callable[[], Server], workers: int) -> None:
        self.make, self.workers = make, workers
        self.idle: list[Any] = []
        self.busy: dict[Any, tuple[int, Any]] = {}  # (index of the request, server) by the handle of the pending reply

    @property
    def free(self) -> bool:
        """Whether another request can be sent."""
        return len(self.busy) < self.workers

    def send(self, at: int, request: Any) -> None:
        """Send the request with index ``at`` to a server."""
        server = self.idle.pop() if self.idle else self._start()
        try:
            self.busy[self._submit(server, request)] = at, server
        except BaseException:
            self._end(server)
            raise

    def receive(self) -> list[tuple[int, Any]]:
        """Wait for replies, for a moment, by the index of the request; None if the server died."""
        received: list[tuple[int, Any]] = []
        for handle in self._ready():
            at, server = self.busy.pop(handle)
            reply = self._reply(handle)
            if reply is None:
                self._end(server)
            else:
                self.idle.append(server)
            received.append((at, reply))
        return received

    def replies(
        self,
        requests: Iterable[Any],
        sending: Callable[[Any], None] | None = None,
        waiting: Callable[[], None] | None = None,
    ) -> Iterator[Any]:
        """The replies in the order of the requests; an error that a server returns is raised.

        ``sending`` is called with every request that is sent, repeated ones included, and ``waiting`` ten times a
        second or more often, to end the wait by an error.  A request that ends
        :data:`DEATHS` servers raises ServerDied.  When the iterator is closed, busy servers end.
        """
        coming, sent, done = enumerate(requests), dict[int, Any](), dict[int, Any]()
        again, deaths, next_one = deque[int](), Counter[int](), 0
        try:
            while True:
                while self.free and (again or len(sent) < AHEAD * self.workers):
                    if again:
                        at = again.popleft()
                    else:
                        at, request = next(coming, (-1, None))
                        if at < 0:
                            break
                        sent[at] = request
                    if sending is not None:
                        sending(sent[at])
                    self.send(at, sent[at])
                if not sent:
                    return
                if waiting is not None:
                    waiting()
                for at, reply in self.receive():
                    if reply is not None:
                        done[at] = reply
                        continue
                    deaths[at] += 1
                    if deaths[at] >= DEATHS:
                        raise ServerDied
                    again.append(at)
                while next_one in done:
                    reply = done.pop(next_one)
                    del sent[next_one]
                    next_one += 1
                    if isinstance(reply, Exception):
                        raise reply
                    yield reply
        finally:
            self.drop()

    def drop(self) -> None:
        """End the busy servers, and with them their requests."""
        for _, server in self.busy.values():
            self._end(server)
        self.busy = {}

    def close(self) -> None:
        """End all servers."""
        self.drop()
        for server in self.idle:
            self._end(server)
        self.idle = []

    def _start(self) -> Any: ...
    def _submit(self, server: Any, request: Any) -> Any: ...
    def _ready(self) -> Any: ...
    def _reply(self, handle: Any) -> Any: ...
    def _end(self, server: Any) -> None: ...


class LocalPool(Pool):
    """Servers in processes of this machine; the handle of a reply is the pipe."""

    def _start(self) -> Child:
        return Child(_serve, self.make)

    def _submit(self, server: Child, request: Any) -> Any:
        with suppress(BrokenPipeError, ConnectionResetError):  # it died while idle, which _reply reports
            server.pipe.send(request)
        return server.pipe

    def _ready(self) -> Any:
        ready = set(connection.wait(list(self.busy), GLANCE))
        return [pipe for pipe in self.busy if pipe in ready]

    def _reply(self, handle: Any) -> Any:
        try:
            return handle.recv()
        except (EOFError, OSError):
            return None

    def _end(self, server: Child) -> None:
        server.end()


def _serve(pipe: Any, make: Callable[[], Server]) -> None:
    """Reply to the requests from the pipe until it is closed."""
    server = _made(make)
    while True:
        pipe.send(server(pipe.recv()))


def _made(make: Callable[[], Server]) -> Server:
    """The server; if it cannot be made here, one that replies with the reason."""
    try:
        return make()
    except Exception as error:
        reason = BadInput(f"another process cannot make what it was sent: this {raised(error)}")
        return lambda request: reason


class RayPool(Pool):
    """Servers in the actors of a Ray cluster; the handle of a reply is its reference."""

    def __init__(self, make: Callable[[], Server], workers: int | None, address: str | None) -> None:
        self.ray, self.started = connect(address, workers)
        cpus = max(1, int(self.ray.cluster_resources().get("CPU", 1)))
        super().__init__(make, cpus if workers is None else min(workers, cpus))

    def close(self) -> None:
        """End all servers, and the connection to the cluster if it was made here."""
        super().close()
        if self.started:
            self.ray.shutdown()

    def _start(self) -> Any:
        return self.ray.remote(num_cpus=1)(_Actor).remote(self.make)

    def _submit(self, server: Any, request: Any) -> Any:
        return server.reply.remote(request)

    def _ready(self) -> Any:
        return self.ray.wait(list(self.busy), num_returns=1, timeout=GLANCE)[0]

    def _reply(self, handle: Any) -> Any:
        try:
            return self.ray.get(handle)
        except self.ray.exceptions.RayError:
            return None

    def _end(self, server: Any) -> None:
        with suppress(self.ray.exceptions.RayError):
            self.ray.kill(server)


class _Actor:
    """A server in an actor."""

    def __init__(self, make: Callable[[], Server]) -> None:
        self.server = _made(make)

    def reply(self, request: Any) -> Any:
        """The reply to a request."""
        return self.server(request)


def make_pool(make: Callable[[], Server], engine: str, workers: int | None, address: str | None) -> Pool:
    """A pool of the engine ``"local"``, or ``"ray"`` at an address or started here."""
    if workers is not None:
        workers = whole("workers", workers, 1)
    if one_of("engine", engine, ("local", "ray")) == "ray":
        return RayPool(make, workers, address)
    if address is not None:
        raise BadInput(f"the address {address!r} is that of a Ray cluster, and the engine is 'local'")
    return LocalPool(make, workers or processors())


@dataclass(frozen=True)
class Shipped:
    """Something pickled, that is made again where it is called."""

    data: bytes

    @classmethod
    def of(cls, thing: Callable[[], Server], what: str) -> Shipped:
        """By cloudpickle where it is installed, which can send functions of scripts and notebooks, else by pickle."""
        try:
            from cloudpickle import dumps
        except ImportError:
            dumps = pickle.dumps
        try:
            return cls(dumps(thing))
        except Exception as error:
            raise BadInput(
                f"{what} cannot be sent to another process: pickling it {raised(error)}; give problems and planners by "
                "name, functions from a module, or install cloudpickle"
            ) from error

    def __call__(self) -> Server:
        """The server, made here."""
        thing: Callable[[], Server] = pickle.loads(self.data)
        return thing()
