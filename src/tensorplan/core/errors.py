"""The exceptions of the package, and how objects of the user are quoted in their messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

LONGEST = 300
"""Most characters of a message: it stays one sentence, whatever a simulator contributes to it."""

OFFER = "; tp.Hindsight (--planner hindsight) plans with any features if returns have a finite range"
"""The end of every refutation of realizability: what to do without features that realize v*."""

QUOTED = 80
"""Most characters of a quoted object or of another library's error message."""


class TensorplanError(Exception):
    """The base class of all errors of the package; ``str(error)`` is one sentence.

    When the error ended a :func:`tensorplan.run`, ``run`` holds the episodes completed so far and ``certificate`` the
    bracket reached by planning; otherwise both are None.
    """

    run: Any = None
    certificate: Any = None

    def __init__(self, sentence: str = "", offer: str = "") -> None:
        super().__init__(shortened(sentence, LONGEST) + offer)


class BadInput(TensorplanError, ValueError):
    """An invalid argument: an unknown name, a wrong type, or a value out of range."""


class ProblemError(TensorplanError, ValueError):
    """The problem violates its contract: features, rewards, declared determinism, or a step that raises."""


class Refused(TensorplanError):
    """The problem does not satisfy the planner's conditions."""


class NotRealizable(TensorplanError):
    """The measurements contradict realizability: no parameter in the ball is consistent with all of them.

    The loop finishes the episode with ``policy``, the best one found, before it raises this.
    """

    def __init__(
        self, sentence: str, places: Sequence[tuple[int, Any]], eta: float | None, bound: float | None, policy: Any
    ) -> None:
        super().__init__(sentence, OFFER)
        self.sentence = shortened(sentence, LONGEST)
        """The message without its offer of another planner."""
        self.places = tuple(places)
        """(stage, state) of states whose measurements contradict each other."""
        self.eta = eta
        """The least misspecification consistent with the measurements, to a hundredth; None if Ctrl-C or the time
        limit ended the search for it.  It is a lower bound: other states may require more."""
        self.bound = bound
        """The least B consistent with the measurements, likewise; None also if no larger ball is."""
        self.policy = policy


class NotReached(TensorplanError, LookupError):
    """A query at a node that this access object did not issue."""


class BudgetSpent(TensorplanError):
    """The query would exceed the budget; it was not made."""


class TimeSpent(BudgetSpent):
    """The time limit of planning has passed; the query was not made."""


class ProgramError(TensorplanError, ValueError):
    """An invalid program of the optimiser, or an invalid limit of its search."""


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
    """``raised KeyError: 'x'``: an error of another library on one line, shortened."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return f"raised {type(error).__name__}" + (f": {shortened(text, QUOTED)}" if text.strip() else "")


def shortened(text: str, most: int) -> str:
    """The text on one line of encodable characters, with the middle left out where it is longer than ``most``."""
    written = str(text).encode("utf-8", "backslashreplace").decode("utf-8")
    line = " ".join(part.strip() for part in written.splitlines() if part.strip())
    if len(line) <= most:
        return line
    head = (most - 5) * 2 // 3
    return f"{line[:head]} ... {line[len(line) - (most - 5 - head) :]}"
