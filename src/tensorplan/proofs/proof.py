"""The proof of a certificate as plain data, and as a JSON file.

    problem        name, horizon, actions, dimension, bound, reward_range, return_range, discount, delayed,
                   deterministic_transitions, deterministic_rewards
    mode           "exact" or "certified"
    eta            by how much features may miss v*
    zeta           the probability that anything fails, 0 in exact mode
    states         stage, state (as it prints) and phi; the first one is the start state
    answers        exact mode: [state, action, reward, next state or -1 for END]
    measurements   certified mode: number, state, n, the sums of [R, γ φ(S')] for each action, and its radius; where
                   that rests on a variance, the sums of squares and the proof of the variance
    rows           ["bellman", answer] or ["bellman", measurement, action], ["low", state], ["high", state], ["return"],
                   or, in exact mode, ["equation", answer of the best action, slack]
    forms          exact mode: a state all of whose actions were answered; certified mode: a measurement
    tree           the certificate of the optimiser for these rows and forms
    returns        what the lower bound rests on: a path of answers, or the returns of a policy, or nothing
    claim          upper, lower and status

Numbers are written so that they are read again to the bit.  ``digest`` is a hash of all the rest: a file that was
changed by accident is noticed before anything is derived from it.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

from tensorplan.core.errors import CertificateError, raised
from tensorplan.optimism.program import KINDS

FORMAT = "tensorplan proof 1"


class Proof:
    """What ``tensorplan check`` verifies; see the module for its parts."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def __repr__(self) -> str:
        counts = (len(self.data.get(name, ())) for name in ("rows", "forms"))
        return "<proof with {} rows and {} disjunctions>".format(*counts)

    def save(self, path: str | Path) -> None:
        """Write it as JSON."""
        text = _text(self.data)
        data = {"format": FORMAT, "digest": _digest(text), **self.data}
        Path(path).write_text(json.dumps(data, allow_nan=False), encoding="utf-8")

    @staticmethod
    def load(path: str | Path) -> Proof:
        """Read what :meth:`save` wrote; refused where the file was changed."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"), parse_constant=_refuse_constant)
            stated = {name: data.pop(name, None) for name in ("format", "digest")} if isinstance(data, dict) else {}
            digest = _digest(_text(data))
        except (OSError, ValueError, RecursionError) as error:
            raise CertificateError(f"{path} cannot be read as a proof: reading it {raised(error)}") from None
        if stated.get("format") != FORMAT:
            raise CertificateError(f"{path} is not a file of the format {FORMAT!r}")
        if stated["digest"] != digest:
            raise CertificateError(f"{path} was changed after it was written: its digest does not match")
        return Proof(data)


def _text(data: Any) -> str:
    return json.dumps(data, sort_keys=True, allow_nan=False)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _refuse_constant(name: str) -> float:
    raise ValueError(f"the number {name} is not allowed")


def plain_tree(tree: Any) -> dict[str, list[Any]]:
    """The arrays of a :class:`tensorplan.optimism.BoundTree` as lists; infinities and NaN become words."""
    return {name: [written(x) for x in getattr(tree, name).tolist()] for name in KINDS}


def written(x: Any) -> Any:
    """A number as JSON can have it: infinities and NaN are words."""
    if isinstance(x, float) and not math.isfinite(x):
        return "nan" if math.isnan(x) else "inf" if x > 0 else "-inf"
    return x
