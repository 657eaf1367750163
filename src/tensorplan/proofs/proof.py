"""The proof of a certificate as plain data, and as a JSON file.

    problem        name, horizon, actions, dimension, bound, reward_range, return_range, discount, delayed,
                   deterministic_transitions, deterministic_rewards
    mode           "exact" or "certified"
    eta            by how much features may miss v*
    zeta           the probability that anything fails, 0 in exact mode
    states         stage, state (as it prints) and phi; the first one is the start state
    answers        exact mode: [state, action, reward, next state or -1 for END]
    rows           exact mode: ["bellman", answer], ["low", state], ["high", state], ["return"], or
                   ["equation", answer of the best action, slack]
    forms          exact mode: states all of whose actions were answered
    measured       certified mode: number, state, and for each action n, the sums of x = [R, γ φ(S')], their scatter
                   around the means of earlier samples, and the bet
    ranged         certified mode: states whose range of values is used
    passes         certified mode: radii of all measured states, directions, and trees that bound θ along them
    radii          certified mode: the same for the bound
    earned         certified mode: whether the lower bound is used, to refute
    sum            certified mode: number, and cases with choices, bet, radius, terms and tree; null if there is none
    tree           the certificate of the optimiser for the rows; null if there is a sum
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

FORMAT = "tensorplan proof 2"


class Proof:
    """What ``tensorplan check`` verifies; see the module for its parts."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def __repr__(self) -> str:
        return f"<proof in {self.data.get('mode')} mode with {len(self.data.get('states', ()))} states>"

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
