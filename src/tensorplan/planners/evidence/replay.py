"""The policy that repeats a path, for problems in which nothing is random."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensorplan.core import Certificate, Node
from tensorplan.planners.evidence.challenge import PathStep, compare


class Replay:
    """The policy that repeats a path, and continues with ``choose`` if planning was cut short.

    With ``loop`` the path leads back to the state of its step of that number, and is repeated from there for ever.
    """

    def __init__(
        self,
        path: list[PathStep],
        certificate: Certificate,
        choose: Callable[[Node], int],
        loop: int | None = None,
    ) -> None:
        self.path, self.certificate, self.choose, self.loop = path, certificate, choose, loop
        self.time = 0

    def again(self) -> Replay:
        """The same policy at the beginning of another episode."""
        return Replay(self.path, self.certificate, self.choose, self.loop)

    def act(self, node: Node) -> int:
        """The next action of the path."""
        if self.time == len(self.path) and self.loop is not None:
            self.time = self.loop
        self.time += 1
        return self.path[self.time - 1].action if self.time <= len(self.path) else self.choose(node)

    def observe(self, action: int, reward: float, node: Any) -> None:
        """Raise unless the step agrees with the simulator's outcome."""
        if self.time <= len(self.path):
            compare(self.path[self.time - 1], reward, node)
