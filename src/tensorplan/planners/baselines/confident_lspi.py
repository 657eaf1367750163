"""Confident MC-LSPI (Yin, Hao, Abbasi-Yadkori, Lazić and Szepesvári 2022), for problems with a horizon.

A core set of pairs (s, a) is measured by rollouts, and weights are fitted to what was measured.  Along the way every
action of every visited state is tested: with Φ the features of the core set, a pair is uncertain where

    φ(s, a)ᵀ (λ I + ΦᵀΦ)^{-1} φ(s, a) > τ.

An uncertain pair joins the core set, and the policy iteration starts again.  A core set of n pairs has
n ln(1 + τ) <= d ln(1 + n/(d λ)): each of them multiplies the determinant of λ I + ΦᵀΦ by more than 1 + τ, and that is
at most (λ + n/d)^d.  So it terminates, whatever the number of states.

The paper treats discounted problems, with one weight vector.  Here each stage has a core set C_h and weights w_h, and
rollouts run to the end of the episode.  The value of a pair of stage h depends on the policy at later stages only, so
policy iteration is one backward pass, h = H-1, .., 0: the policy after stage h is final when stage h is measured.
Iterations over all stages, as published, agree with it after H of them up to sampling noise, at H times the queries.
A new pair of stage g leaves the measurements of stages >= g valid, so a restart goes back to stage g only.

    restart at h:  for each pair of C_h: q = mean return of m rollouts, after the first step greedy for w_{h+1}, ..;
                   if a state that they visit, of stage g, has uncertain actions: add them to C_g, restart at g
                   w_h = (λ I + ΦᵀΦ)^{-1} Φᵀ q;  on to h - 1

The guarantee is for problems where q^π is linear for every policy π: if q^π(s, a) = <φ(s, a), w> and all of the n means
of a stage are within ε of it, then <φ(s, a), w_h> is within sqrt(τ) (sqrt(λ) ‖w‖ + ε sqrt(n)) at all pairs that are not
uncertain.  Where only v* or only q* is linear there is NO guarantee: the policy of later stages is not quite optimal,
its q^π is not linear, and the error of the fit can grow from stage to stage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tensorplan.core import END, NORM_SLACK, Access, Array, Certificate, Node
from tensorplan.core.errors import BadInput, Refused, TensorplanError
from tensorplan.core.specs import number, undiscounted, whole
from tensorplan.planners.anytime import Planning


@dataclass(frozen=True, kw_only=True)
class ConfidentLSPI:
    """Confident MC-LSPI: ``rollouts`` m per pair of the core set, ``threshold`` τ, ``ridge`` λ.

    Deterministic problems need one rollout instead of m.  Each episode starts with empty core sets, since their pairs
    can be queried only through the access object that reached them.
    """

    rollouts: int = 100
    threshold: float = 1.0
    ridge: float = 1e-6
    about: ClassVar[str] = "Confident MC-LSPI; guarantee only where q^π is linear for all π, none for v* or q* alone"

    def __post_init__(self) -> None:
        whole("rollouts", self.rollouts, 1)
        for name in ("threshold", "ridge"):
            if not number(name, getattr(self, name), 0.0) > 0:
                raise BadInput(f"{name} must be positive, got {getattr(self, name)!r}")
        if self.threshold * self.ridge >= 1:
            raise BadInput(
                f"threshold times ridge must be below 1, got {self.threshold:g} times {self.ridge:g}: "
                "features have norm 1 at most, so no pair would ever be uncertain"
            )

    def begin(self, access: Access, rng: np.random.Generator) -> LspiPolicy:
        """Start an episode; all of the planning is done here."""
        name = f"problem {access.problem_name!r}"
        if not access.has_phi_q:
            raise Refused(f"confident LSPI plans with phi_q, and {name} has none")
        if access.horizon is None:
            raise Refused(f"confident LSPI needs a horizon, and {name} has none")
        undiscounted("confident LSPI", access.problem_name, access.discount)
        return LspiPlanning(self, access, access.horizon).plan()


def core_bound(d: int, threshold: float, ridge: float) -> int:
    """The largest n with n ln(1 + τ) <= d ln(1 + n/(d λ)): no core set has more pairs."""

    def possible(n: int) -> bool:
        return n * math.log1p(threshold) <= d * math.log1p(n * (1 + NORM_SLACK) ** 2 / (d * ridge))

    low, high = 0, 1  # linear <= concave, with equality at 0: the possible n are an interval from 0 on
    while possible(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if possible(middle) else (low, middle)
    return low


@dataclass(slots=True, eq=False)
class CorePair:
    """A pair (s, a) of a core set, with the number of rollouts from it and the sum of their returns."""

    node: Node
    action: int
    count: int = 0
    total: float = 0.0


class Core:
    """The core set C_h of one stage, and the weights fitted to it."""

    def __init__(self, d: int, ridge: float) -> None:
        self.pairs: list[CorePair] = []
        self.root = np.eye(d) / math.sqrt(ridge)
        """S with S Sᵀ = (λ I + ΦᵀΦ)^{-1}, (d, d)."""
        self.weights: Array = np.zeros(d)
        self.fits = 0
        """How often the weights have changed."""

    def uncertainty(self, phi: Array) -> Array:
        """φᵀ (λ I + ΦᵀΦ)^{-1} φ of each row, (A,); phi (A, d)."""
        rows = phi @ self.root
        return np.asarray(np.einsum("ad,ad->a", rows, rows))

    def add(self, node: Node, action: int) -> None:
        """Add a pair.  Potter's update of the root: S (I - γ f fᵀ), with f = Sᵀφ."""
        self.pairs.append(CorePair(node, action))
        f = node.phi_q[action] @ self.root
        shrink = 1 / (1 + f @ f)
        self.root -= np.outer(self.root @ f, f * (shrink / (1 + math.sqrt(shrink))))

    def forget(self) -> None:
        """Drop the rollouts: the policy that they follow has changed."""
        for pair in self.pairs:
            pair.count, pair.total = 0, 0.0

    def fit(self) -> None:
        """w = (λ I + ΦᵀΦ)^{-1} Φᵀ q."""
        products: Array = np.zeros(len(self.weights))
        for pair in self.pairs:
            products += (pair.total / pair.count) * pair.node.phi_q[pair.action]
        self.weights = self.root @ (products @ self.root)
        self.fits += 1


class LspiPolicy:
    """The greedy policy of the weights w_h."""

    def __init__(self, planning: LspiPlanning, certificate: Certificate | None) -> None:
        self.planning, self.cores, self.bound = planning, planning.cores, planning.bound
        self.certificate = certificate
        """None, or the declared range of returns if planning was cut short."""

    def act(self, node: Node) -> int:
        """argmax_a <φ(s, a), w_h>."""
        return self.planning.choose(node)


class LspiPlanning(Planning[LspiPolicy]):
    """Confident MC-LSPI in one episode."""

    def __init__(self, config: ConfidentLSPI, access: Access, horizon: int) -> None:
        self.config, self.access = config, access
        self.rollouts = 1 if access.deterministic_transitions and access.deterministic_rewards else config.rollouts
        self.bound = core_bound(access.dimension, config.threshold, config.ridge)
        self.cores = [Core(access.dimension, config.ridge) for _ in range(horizon)]

    def choose(self, node: Node) -> int:
        """argmax_a <φ(s, a), w_h>, the smallest a among ties; no queries."""
        core = self.cores[node.stage]
        if node.note is None or node.note[0] != core.fits:
            node.note = (core.fits, int(np.argmax(node.phi_q @ core.weights)))
        action: int = node.note[1]
        return action

    def _bracket(self, status: str) -> Certificate:
        low, high = self.access.return_range(0)
        return Certificate(high, low, status)

    def _policy(self, certificate: Certificate) -> LspiPolicy:
        return LspiPolicy(self, None if certificate.status == "done" else certificate)

    # ------------------------------------------------------------------ policy iteration

    def _search(self) -> str:
        self._uncertain(self.access.root)
        stage = len(self.cores) - 1
        while stage >= 0:
            again = self._measure(self.cores[stage])
            if again is None:
                self.cores[stage].fit()
                stage -= 1
            else:
                for core in self.cores[:again]:
                    core.forget()
                stage = again
        return "done"

    def _measure(self, core: Core) -> int | None:
        """None once every pair has m rollouts, or the stage whose core set an uncertain pair has joined.

        The batches of rollouts double, so that little is lost when one of them meets an uncertain pair.
        """
        for pair in core.pairs:
            while pair.count < self.rollouts:
                n = min(max(pair.count, 1), self.rollouts - pair.count)
                total, again = self._roll_out(pair, n)
                if again is not None:
                    return again
                pair.total += total
                pair.count += n
        return None

    def _roll_out(self, pair: CorePair, n: int) -> tuple[float, int | None]:
        """The sum of the returns of n rollouts, batched by state, and the stage whose core set has grown, if any."""
        total = 0.0
        crowd = {pair.node: n}
        action: int | None = pair.action
        while crowd:
            following: dict[Node, int] = {}
            for node, count in crowd.items():
                for reward, successor in self.access.query(
                    node, self.choose(node) if action is None else action, count
                ):
                    total += reward
                    if successor is not END:
                        following[successor] = following.get(successor, 0) + 1
            met = [node for node in following if self._uncertain(node)]
            if met:
                return total, met[0].stage
            crowd, action = following, None
        return total, None

    def _uncertain(self, node: Node) -> bool:
        """Whether some action is uncertain; those that are join the core set, the most uncertain one first.

        A state needs one test only, since core sets only grow.
        """
        if node.note is not None:
            return False
        node.note = (-1, 0)
        core = self.cores[node.stage]
        before = len(core.pairs)
        while (uncertainty := core.uncertainty(node.phi_q)).max() > self.config.threshold:
            if len(core.pairs) == self.bound:
                raise TensorplanError(
                    f"the core set of stage {node.stage} of problem {self.access.problem_name!r} outgrows its bound of "
                    f"{self.bound:,} pairs, which is impossible but for rounding: "
                    f"ridge={self.config.ridge:g} is too small for double precision"
                )
            core.add(node, int(np.argmax(uncertainty)))
        return len(core.pairs) > before
