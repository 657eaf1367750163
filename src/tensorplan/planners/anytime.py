"""What ends a planning, said once: a result, a spent budget, Ctrl-C, or an error, which keeps the bracket."""

from __future__ import annotations

from collections.abc import Callable

from tensorplan.core import Certificate
from tensorplan.core.errors import BudgetSpent, TensorplanError


def ended(plan: Callable[[], str], bracket: Callable[[str], Certificate]) -> str:
    """How the planning ended; an error leaves with the bracket that was reached by then."""
    try:
        return plan()
    except BudgetSpent:
        return "budget"
    except KeyboardInterrupt:
        return "interrupted"
    except TensorplanError as error:
        error.certificate = bracket("failed")
        raise
