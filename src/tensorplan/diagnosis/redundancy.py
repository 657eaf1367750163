"""Which features say nothing that the ones before them do not say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tensorplan.core import Array

TOLERANCE = 1e-9
"""What may be left of a feature, relative to its length over all places, for it to count as a combination."""


@dataclass(frozen=True)
class Redundant:
    """A feature that is zero everywhere, or a linear combination of earlier ones."""

    index: int
    name: str
    zero: bool
    """Zero at all places; else a combination."""
    left: float
    """The length of what earlier features leave of it, relative to its own."""


def redundant(phi: Array, names: Sequence[str] | None = None) -> tuple[Redundant, ...]:
    """The columns of phi (n, d) that are linear combinations of earlier ones, in their order.

    The triangle of Householder's QR decomposition has the same inner products between columns as phi, each accurate
    relative to its column; in it the columns are made orthogonal to the kept ones before them, twice.
    """
    columns, found = np.asarray(np.linalg.qr(phi, mode="r")).T, []
    basis, rank = np.zeros((min(phi.shape), columns.shape[1])), 0
    for index, column in enumerate(columns):
        size = float(np.linalg.norm(column))
        rest = column / size if size else column
        for _ in range(2 if size else 0):
            rest = rest - (basis[:rank] @ rest) @ basis[:rank]
        left = float(np.linalg.norm(rest))
        if left > TOLERANCE:
            basis[rank] = rest / left
            rank += 1
        else:
            name = names[index] if names is not None else f"feature {index}"
            found.append(Redundant(index, name, size == 0, left))
    return tuple(found)
