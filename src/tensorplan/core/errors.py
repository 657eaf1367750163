"""Every error that the package raises on purpose, and how foreign objects are quoted in its messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

LONGEST = 300
"""Characters of a message at most: one sentence, whatever a simulator puts into it."""

QUOTED = 80
"""Characters that a quoted object or a foreign error message takes at most."""


class TensorplanError(Exception):
    """The root of every error that the package raises on purpose; ``str(error)`` is one clear sentence.

    ``run`` holds what was finished when the error ended a :func:`tensorplan.run`, else None, and ``certificate`` the
    bracket that planning had reached by then.
    """

    run: Any = None
    certificate: Any = None

    def __init__(self, sentence: str = "") -> None:
        super().__init__(shortened(sentence, LONGEST))


class BadInput(TensorplanError, ValueError):
    """An argument that cannot be used: an unknown name, a wrong type, a value out of its range."""


class ProblemError(TensorplanError, ValueError):
    """The problem broke its own contract: a feature, a reward, a declared determinism, a failing step."""


class Refused(TensorplanError):
    """The planner's conditions do not hold for this problem."""


class NotRealizable(TensorplanError):
    """What was measured contradicts realizability: no parameter in the ball agrees with all of it.

    The loop plays the episode on with ``policy``, the best one found, before it raises this.
    """

    def __init__(
        self, sentence: str, places: Sequence[tuple[int, Any]], eta: float | None, bound: float | None, policy: Any
    ) -> None:
        super().__init__(sentence)
        self.places = tuple(places)
        """(stage, state) of a set of states that cannot all be right."""
        self.eta = eta
        """The least misspecification that agrees with what was measured, to a hundredth; None if Ctrl-C ended the
        search for it.  States that were not measured may need more."""
        self.bound = bound
        """The least B that agrees with what was measured, likewise; None also if no larger ball does."""
        self.policy = policy


class NotReached(TensorplanError, LookupError):
    """A query at a node that this access object did not issue."""


class BudgetSpent(TensorplanError):
    """The query would go over the budget; nothing was asked."""


class ProgramError(TensorplanError, ValueError):
    """A program of the optimiser, or a limit of its search, that makes no sense."""


class CertificateError(TensorplanError, ValueError):
    """A certificate that does not prove what it claims."""


# -------------------------------------------------------------------------------------------- quoting


def shown(thing: Any, most: int = QUOTED) -> str:
    """``repr(thing)`` on one line, shortened; a ``__repr__`` that raises is replaced by the name of the type."""
    try:
        text = repr(thing)
    except Exception:
        text = f"<{type(thing).__name__} object whose repr raises>"
    return shortened(text, most)


def raised(error: BaseException) -> str:
    """``raised KeyError: 'x'``: a foreign error on one line, shortened."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return f"raised {type(error).__name__}" + (f": {shortened(text, QUOTED)}" if text.strip() else "")


def shortened(text: str, most: int) -> str:
    """The text on one line, its middle left out where it is too long, and only characters that can be written."""
    written = str(text).encode("utf-8", "backslashreplace").decode("utf-8")
    line = " ".join(part.strip() for part in written.splitlines() if part.strip())
    if len(line) <= most:
        return line
    head = (most - 5) * 2 // 3
    return f"{line[:head]} ... {line[len(line) - (most - 5 - head) :]}"
