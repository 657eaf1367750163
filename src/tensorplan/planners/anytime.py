"""What ends a planning, said once.

Whatever ends it, a policy acts, and its certificate says how it came to an end:

* ``"certified"``: the bounds have met; ``"eta"``: but for a gap that features which miss v* by η explain;
  ``"doubtful"``: they have met, and there is a reason not to rely on it.
* ``"budget"``: the queries are spent.
* ``"interrupted"``: Ctrl-C.
* ``"stopped"``: the callback has had enough.
* ``"limit"``: more queries, or more searching, would change nothing.
* ``"refuted"``: no parameter agrees with what was measured; most planners raise NotRealizable, which has the policy.
* ``"failed"``: an error, which leaves with the bracket that was reached by then.
* ``"done"``: an algorithm without bounds of its own has run to its end; its policy has no certificate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from tensorplan.core import Access, Certificate, Policy
from tensorplan.core.errors import BudgetSpent, NotRealizable, TensorplanError
from tensorplan.planners.evidence.claims import warn

P = TypeVar("P", bound=Policy)


class Planning(ABC, Generic[P]):
    """A planner at work before it acts: :meth:`plan` asks, searches and may raise, and its constructor does not."""

    access: Access

    def plan(self) -> P:
        """The policy, with its certificate; raises NotRealizable where that is refuted, which has the policy too."""
        self._begin()
        status = self._finish(self._ended(self._search))
        certificate = self._certificate(status)
        policy = self._policy(certificate)
        warn(self.access.problem_name, certificate)
        refutation = self._refutation(policy) if status == "refuted" else None
        if refutation is not None:
            raise refutation
        return policy

    def _ended(self, work: Callable[[], str]) -> str:
        """How some work ended; an error leaves with the bracket."""
        try:
            return work()
        except BudgetSpent:
            return "budget"
        except KeyboardInterrupt:
            return "interrupted"
        except TensorplanError as error:
            error.certificate = self._bracket("failed")
            raise

    def _begin(self) -> None:
        """Look at the start state, and refuse a problem that does not fit; nothing is asked yet."""
        return

    @abstractmethod
    def _search(self) -> str:
        """Ask, search, and ask again; how that ended."""

    def _finish(self, status: str) -> str:
        """The status after what follows the search: attempts to refute what was found."""
        return status

    @abstractmethod
    def _bracket(self, status: str) -> Certificate:
        """What is known of v*(s0) as it stands."""

    def _certificate(self, status: str) -> Certificate:
        """The bracket at the end, with its proof where there is one."""
        return self._bracket(status)

    @abstractmethod
    def _policy(self, certificate: Certificate) -> P:
        """The policy that acts."""

    def _refutation(self, policy: P) -> NotRealizable | None:
        """The error for the status ``"refuted"``; None where the certificate says enough."""
        return None
