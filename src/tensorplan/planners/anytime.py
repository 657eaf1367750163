"""The skeleton of every planning run, and the statuses with which one ends.

However it ends there is a policy, and the status of its certificate says why planning stopped:

* ``"certified"``: the bounds have met; ``"eta"``: up to a gap that a misspecification of η explains;
  ``"doubtful"``: they have met, but there is a reason not to rely on it.
* ``"budget"``: the queries are spent; ``"time"``: the time limit has passed.
* ``"interrupted"``: Ctrl-C.
* ``"stopped"``: the callback returned true.
* ``"limit"``: neither more queries nor more search would change the bracket.
* ``"refuted"``: no parameter agrees with the measurements; most planners raise NotRealizable, which carries the policy.
* ``"failed"``: an error was raised, which carries the bracket reached by then.
* ``"done"``: an algorithm without bounds of its own has finished; its policy has no certificate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from tensorplan.core import Access, Certificate, Policy
from tensorplan.core.errors import BudgetSpent, NotRealizable, TensorplanError, TimeSpent
from tensorplan.planners.evidence.claims import warn

P = TypeVar("P", bound=Policy)


class Planning(ABC, Generic[P]):
    """The planning of one episode: :meth:`plan` makes the queries, searches and may raise; the constructor does not."""

    access: Access

    def plan(self) -> P:
        """The policy with its certificate; raises NotRealizable, which carries the policy, if that is refuted.

        The deadline of the access object holds until here: acting is not limited by it.
        """
        try:
            return self._plan()
        finally:
            self.access.deadline.lift()

    def _plan(self) -> P:
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
        """The status with which ``work`` ends; an error gets the bracket attached.

        After the deadline searches end at once, so that nothing can be said about what more of them would change.
        """
        try:
            status = work()
            return "time" if status == "limit" and self.access.deadline.passed else status
        except TimeSpent:
            return "time"
        except BudgetSpent:
            return "budget"
        except KeyboardInterrupt:
            return "interrupted"
        except TensorplanError as error:
            error.certificate = self._bracket("failed")
            raise

    def _attacked(self, status: str, attack: Callable[[], str]) -> str:
        """The status after an attempt to refute the bracket; one that is refuted stays so when the time is over."""
        after = self._ended(attack)
        return status if status == "refuted" and after == "time" else after

    def _begin(self) -> None:
        """Look at the start state, and refuse a problem that does not fit; no queries yet."""
        return

    @abstractmethod
    def _search(self) -> str:
        """Alternate queries and search until planning ends; its status."""

    def _finish(self, status: str) -> str:
        """The status after attempts to refute what the search has found."""
        return status

    @abstractmethod
    def _bracket(self, status: str) -> Certificate:
        """The current bracket on v*(s0)."""

    def _certificate(self, status: str) -> Certificate:
        """The final bracket, with its proof if there is one."""
        return self._bracket(status)

    @abstractmethod
    def _policy(self, certificate: Certificate) -> P:
        """The policy to act with."""

    def _refutation(self, policy: P) -> NotRealizable | None:
        """The error for status ``"refuted"``; None if the certificate suffices."""
        return None
