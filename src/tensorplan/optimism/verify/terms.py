"""What (*) is computed from: the rows and forms of a program, and the leaves with their multipliers, as arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorplan.optimism.program import Array, BoundTree, Ints, Program
from tensorplan.optimism.verify.tree import inner_nodes, used_ends

SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)
"""The error of a product that underflows is below this."""

BLOCK = 1 << 21
"""Floats per block of leaves: 16 MiB, which fits into memory, and few enough blocks for NumPy to be fast."""


class Terms:
    """All that can have a multiplier, rows first, then forms: <vector, θ> <= offset (+ end, for a form).

    With it each entry adds y·offset + y·end to the right-hand side of (*), and takes y·vector from c.
    """

    def __init__(self, program: Program) -> None:
        d = program.dimension
        forms = program.forms.reshape(-1, d + 1)
        self.objective = program.objective
        self.radius = program.radius
        self.vector = np.concatenate([program.rows, forms[:, 1:]])
        self.offset = np.concatenate([program.rhs, -forms[:, 0]])
        self.length = norms(self.vector)
        self.scale = scale(program)

    @cached_property
    def integers(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], int]:
        """objective, vector and offset as integers, all times 2^shift: floats are integers over a power of two."""
        whole = np.concatenate([np.append(self.objective, 0.0)[None], np.column_stack([self.vector, self.offset])])
        scaled, shift = dyadic(whole)
        return scaled[0, :-1], scaled[1:, :-1], scaled[1:, -1], shift


@dataclass(frozen=True)
class Leaves:
    """The leaves with their claims; leaf t has the entries start[t] .. start[t+1]-1 of (term, value, end)."""

    node: Ints
    claim: Array
    start: Ints
    term: Ints
    value: Array
    end: Array

    @staticmethod
    def of(program: Program, tree: BoundTree) -> Leaves:
        """The leaves of a tree that was checked."""
        # Inner nodes have no entries, so the entries of successive leaves follow one another without a gap.
        node = np.flatnonzero(~inner_nodes(tree))
        ranged = tree.index < 0
        edge = np.where(ranged, -tree.index, 0)
        term = len(program.rows) + tree.form[edge] * program.alternatives + tree.choice[edge]
        return Leaves(
            node,
            tree.bound[node],
            np.append(tree.start[node], len(tree.index)),
            np.where(ranged, term, tree.index),
            tree.value,
            used_ends(tree),
        )

    @property
    def empty(self) -> NDArray[np.bool_]:
        """Which leaves claim that no θ is there; they are closed with c = 0."""
        return np.isneginf(self.claim)

    def blocks(self, dimension: int) -> Iterator[tuple[int, int]]:
        """Ranges of leaves whose entries, times the dimension, fit comfortably into memory."""
        step = max(1, int(BLOCK / (dimension * (1 + len(self.term) / len(self.node)))))
        for low in range(0, len(self.node), step):
            yield low, min(low + step, len(self.node))


def norms(vectors: Array) -> Array:
    """‖v‖ of each row, within a relative γ_{d+3}; scaled by a power of two, so that no square overflows or vanishes."""
    largest = np.abs(vectors).max(axis=1, initial=0.0)
    _, power = np.frexp(largest)
    with np.errstate(all="ignore"):
        scaled = np.ldexp(vectors, -power[:, None])
        return np.asarray(np.ldexp(np.sqrt((scaled * scaled).sum(axis=1)), power))


def scale(program: Program) -> float:
    """B ‖objective‖: what <objective, θ> can be at most on the ball."""
    return program.radius * float(norms(program.objective[None])[0])


def dyadic(values: Array) -> tuple[NDArray[Any], int]:
    """(integers, shift) with values = integers / 2^shift, exactly."""
    ratios = [v.as_integer_ratio() for v in values.ravel().tolist()]
    shift = max((q.bit_length() - 1 for _, q in ratios), default=0)
    scaled = np.empty(len(ratios), dtype=object)
    scaled[:] = [p << (shift - q.bit_length() + 1) for p, q in ratios]
    return scaled.reshape(values.shape), shift
