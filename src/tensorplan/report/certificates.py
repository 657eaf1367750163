"""Certificates in words: the claim, its assumption, its confidence, and reasons to doubt it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tensorplan.core import Certificate

if TYPE_CHECKING:
    from tensorplan.proofs import Checked, Proof

MEANINGS = {
    "certified": "the gap is as small as requested, and an attempt to refute the bracket has failed",
    "budget": "the queries ran out",
    "time": "the time limit was reached",
    "interrupted": "Ctrl-C ended the planning",
    "stopped": "a callback ended the planning",
    "limit": "more queries would not narrow the bracket",
    "eta": "the misspecification eta explains the rest of the gap",
    "doubtful": "the gap has closed, but there is reason to think that this proves little",
    "refuted": "the measurements contradict the assumption of the upper bound",
    "failed": "an error ended the planning",
}
"""The meaning of each status."""


def certificate_lines(alike: Sequence[Certificate]) -> list[str]:
    """The claim of certificates with one status and one assumption, their confidence and their doubts."""
    widest, several = max(alike, key=lambda c: c.gap), len(alike) > 1
    parts = [] if widest.status == "refuted" else [("the largest gap is " if several else "gap ") + _gap(widest)]
    parts.append(confidences(widest.failure, widest.lower_failure, widest.assumes))
    if widest.status != "certified":
        parts.append(MEANINGS.get(widest.status, ""))
    return [
        f"{widest.status}, {len(alike)} episodes: {_brackets(widest)}"
        if several
        else f"{widest.status}: {widest.sentence}",
        "; ".join(part for part in parts if part),
        *(f"doubt: {reason}" for reason in dict.fromkeys(reason for c in alike for reason in c.warnings)),
        *dict.fromkeys(note for c in alike for note in c.notes),
    ]


def _brackets(certificate: Certificate) -> str:
    sure = f", at confidence {1 - certificate.failure:.4g}" if certificate.failure else ""
    if certificate.status == "refuted":
        return f"the features do not realize the values as declared{sure}; each policy earns at least its lower bound"
    rests = f"if {certificate.assumes}" if certificate.assumes else "whatever the features"
    return f"each v*(s0) is in its bracket{sure}, {rests}"


def confidences(failure: float, lower_failure: float, assumes: str) -> str:
    """The confidences of the two bounds; empty if they are certain."""
    if not failure:
        return ""
    free = ", whatever the features" if assumes else ""
    return (
        f"the lower bound holds at confidence {1 - lower_failure:.4g}{free}, "
        f"the upper one at {1 - (failure - lower_failure):.4g}"
    )


def _gap(certificate: Certificate) -> str:
    return _short(certificate.gap) + (
        f", of which eta explains {_short(certificate.explained)}" if certificate.explained else ""
    )


def _short(x: float) -> str:
    return "0" if abs(x) < 5e-10 else "infinite" if math.isinf(x) else f"{x:.3g}"


# ------------------------------------------------------------------------------------- checked proofs


def checked_row(proof: Proof, checked: Checked) -> dict[str, Any]:
    """The result of checking a proof, as plain data."""
    return {
        "problem": checked.problem,
        "mode": proof.data["mode"],
        **_counts(proof, checked),
        "refuted": checked.upper is None,
        "upper": checked.upper,
        "lower": checked.lower,
        "gap": None if checked.upper is None else checked.upper - checked.lower,
        "failure": checked.failure,
        "assumes": checked.assumes,
        "sentence": checked.sentence,
    }


def checked_lines(proof: Proof, checked: Checked) -> list[str]:
    """The same in words."""
    counts = ", ".join(f"{what} {n:,}" for what, n in _counts(proof, checked).items())
    return [f"{checked.problem}, {proof.data['mode']} mode: {counts}", *_proved(checked)]


def _proved(checked: Checked) -> list[str]:
    sure = f"at confidence {1 - checked.failure:.6g}" if checked.failure else "for certain"
    earns = f"a policy earns at least {checked.lower:.8g}, whatever the features"
    if checked.upper is None:
        return [f"refuted, {sure}: {earns}", f"it is not true that {checked.assumes}"]
    bracket = f"[{checked.lower:.8g}, {checked.upper:.8g}], gap {_short(checked.upper - checked.lower)}"
    rests = f"the upper end assumes that {checked.assumes}" if checked.assumes else "the upper end assumes nothing"
    return [f"proved, {sure}: v*(s0) is in {bracket}", rests, earns]


def _counts(proof: Proof, checked: Checked) -> dict[str, int]:
    """The size of the proof, without the parts that its mode does not use."""
    parts = ("states", "answers" if proof.data["mode"] == "exact" else "measured")
    sizes = {name: len(part) for name in parts if isinstance(part := proof.data.get(name), list)}
    return {**sizes, "rows": checked.rows, "disjunctions": checked.disjunctions, "leaves": checked.leaves}
