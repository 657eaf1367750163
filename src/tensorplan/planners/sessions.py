"""The check that a planner with a memory is used with one problem only."""

from __future__ import annotations

from tensorplan.core import Access
from tensorplan.core.errors import BadInput


class OneProblem:
    """Refuses any problem object but the first, whatever its name: data about one prove nothing about another."""

    def __init__(self) -> None:
        self._identity: object = None

    def check(self, access: Access) -> None:
        """Raise BadInput unless ``access`` belongs to the problem of the first call."""
        if self._identity is None:
            self._identity = access.identity
        elif self._identity is not access.identity:
            raise BadInput(
                f"this session remembers another problem than {access.problem_name!r}, which is a new object: "
                "begin a new session"
            )
