"""What all planners with a memory share: they know the problem that it is about."""

from __future__ import annotations

from tensorplan.core import Access
from tensorplan.core.errors import BadInput


class OneProblem:
    """Refuses any problem other than the first, however alike the two look: a memory of one proves nothing in another.

    A problem is recognised by its object, not by its name or shape.
    """

    def __init__(self) -> None:
        self._identity: object = None

    def check(self, access: Access) -> None:
        """Raise BadInput unless the access object is to the problem of the first call."""
        if self._identity is None:
            self._identity = access.identity
        elif self._identity is not access.identity:
            raise BadInput(
                f"this session remembers another problem than {access.problem_name!r}, which is a new object: "
                "begin a new session"
            )
