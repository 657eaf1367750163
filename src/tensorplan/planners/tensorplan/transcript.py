"""The data of a planning run as the proof of its certificate (:mod:`tensorplan.proofs`)."""

from __future__ import annotations

from typing import Any

from tensorplan.access.delayed import DelayedAccess
from tensorplan.core import Access, Array, Certificate
from tensorplan.core.errors import shown
from tensorplan.optimism import BoundTree
from tensorplan.planners.evidence.place import Place
from tensorplan.planners.tensorplan.facts import Fact, Rollout
from tensorplan.planners.tensorplan.sol import Sol, Source
from tensorplan.proofs.proof import Proof, plain_tree, written


class Transcript:
    """The states of a proof, numbered in order of appearance; the first one is the start state."""

    def __init__(self, access: Access, sol: Sol, discount: float, root: Place, phi: Array) -> None:
        self.access, self.sol, self.discount = access, sol, discount
        self.states: list[dict[str, Any]] = []
        self._numbers: dict[Any, int] = {}
        self.number(root, phi)

    def number(self, place: Place, phi: Array, own: Any = None) -> int:
        """The number of a state; ``own`` distinguishes states with the same place."""
        key = (place, own)
        if key not in self._numbers:
            self._numbers[key] = len(self.states)
            self.states.append({"stage": place.stage, "state": shown(place.state), "phi": phi.tolist()})
        return self._numbers[key]

    def proof(
        self, mode: str, zeta: float, certificate: Certificate, parts: dict[str, Any], tree: dict[str, Any] | None
    ) -> Proof:
        """The proof with these parts and the tree of the last search, if it has one."""
        return Proof(
            {
                "mode": mode,
                "problem": self._problem(),
                "eta": self.sol.eta,
                "zeta": zeta,
                "states": self.states,
                **parts,
                "tree": tree,
                "claim": {
                    "upper": written(certificate.upper),
                    "lower": written(certificate.lower),
                    "status": certificate.status,
                },
            }
        )

    def _problem(self) -> dict[str, Any]:
        access, delayed = self.access, isinstance(self.access, DelayedAccess)
        horizon, declared = access.horizon, access.declared_returns
        return {
            "name": access.problem_name,
            "horizon": horizon - 1 if delayed and horizon is not None else horizon,
            "actions": access.actions,
            "dimension": access.dimension,
            "bound": access.bound,
            "reward_range": list(access.reward_range),
            "return_range": None if declared is None or self.discount != access.discount else list(declared),
            "discount": self.discount,
            "delayed": delayed,
            "deterministic_transitions": access.deterministic_transitions,
            "deterministic_rewards": access.deterministic_rewards,
        }


def exact_proof(
    access: Access,
    sol: Sol,
    discount: float,
    root: Fact,
    best: Rollout,
    certificate: Certificate,
    tree: BoundTree | None = None,
) -> Proof:
    """The proof of the exact mode: every answer that a row uses, and the path of the lower bound."""
    transcript = Transcript(access, sol, discount, root.place, root.phi)
    facts, answers = {root: 0}, dict[tuple[Fact, int], int]()
    listed: list[list[Any]] = []

    def state(fact: Fact) -> int:
        if fact not in facts:
            facts[fact] = transcript.number(fact.place, fact.phi, fact)
        return facts[fact]

    def answer(fact: Fact, action: int) -> int:
        if (fact, action) not in answers:
            known = fact.answers[action]
            assert known is not None
            reward, following = known
            answers[fact, action] = len(listed)
            listed.append([state(fact), action, reward, -1 if following is None else state(following)])
        return answers[fact, action]

    def row(source: Source) -> list[Any]:
        if source.kind == "bellman":
            return ["bellman", answer(source.about, source.action)]
        if source.kind == "equation":
            for action in range(access.actions):
                answer(source.about, action)
            return ["equation", answer(source.about, source.action), source.slack]
        return ["return"] if source.kind == "return" else [source.kind, state(source.about)]

    rows = [row(source) for source in sol.row_sources]
    forms = [state(source.about) for source in sol.form_sources]
    path = [answer(fact, action) for fact, action in best.steps]
    returns = {"kind": "path", "answers": path, "loop": best.loop} if path else {"kind": "none"}
    parts = {"answers": listed, "rows": rows, "forms": forms, "returns": returns}
    return transcript.proof("exact", 0.0, certificate, parts, plain_tree(tree or sol.proof().certificate))
