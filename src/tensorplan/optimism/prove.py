"""The proof of a bound: the tree of a search with the multipliers of its leaves, in the units of the program."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tensorplan.optimism.kernels.relax import UNIT
from tensorplan.optimism.kernels.state import NODES, SearchTree
from tensorplan.optimism.kernels.tree import INNER, VOID
from tensorplan.optimism.program import Array, BoundTree
from tensorplan.optimism.scale import Scaled

BLURRED = 1e-10
"""Rounding, relative to B ‖c‖, from which on what a leaf proves is computed exactly: a tenth of verify's ``CLAIM``."""

ROOT_DIGITS = 128
"""Binary digits of a root in exact arithmetic: far more than a float has."""


def bound_tree(scaled: Scaled, tree: SearchTree) -> BoundTree:
    """The tree with what the multipliers of its leaves prove of the program."""
    return _Writer(scaled, tree).write()


class _Writer:
    def __init__(self, scaled: Scaled, tree: SearchTree) -> None:
        self.scaled, self.program, self.searched = scaled, scaled.program, tree

    def write(self) -> BoundTree:
        program, searched, used = self.program, self.searched, int(self.searched.counters[NODES])
        state = searched.state[:used]
        length = self.scaled.size / program.radius if program.radius > 0 else 0.0
        ends: list[int] = [0]
        index: list[int] = []
        value: list[float] = []
        bound = np.where(state == VOID, -np.inf, np.nan)
        for node in range(used):
            if state[node] != INNER:
                entries = self._multipliers(node, 1.0 if state[node] == VOID else length)
                index.extend(entries)
                value.extend(entries.values())
                if state[node] != VOID:
                    bound[node] = self._proved(entries)
            ends.append(len(index))
        form = searched.form[:used].astype(np.int64)
        return BoundTree(
            parent=searched.parent[:used].astype(np.int64),
            form=np.where(form < 0, -1, form // program.alternatives),
            choice=np.where(form < 0, -1, form % program.alternatives),
            low=searched.low[:used].copy(),
            high=searched.high[:used].copy(),
            bound=bound,
            start=np.array(ends, dtype=np.int64),
            index=np.array(index, dtype=np.int64),
            value=np.array(value, dtype=np.float64),
        )

    def _multipliers(self, node: int, factor: float) -> dict[int, float]:
        """The multipliers of a leaf in the units of the program, by the index that a BoundTree uses.

        Where both ends of a range have one, their difference proves no less.
        """
        searched, edges = self.searched, self._edges(node)
        entries: dict[int, float] = {}
        for i in range(searched.active[node]):
            name, y = int(searched.row[node, i]), float(searched.y[node, i]) * factor * float(searched.side[node, i])
            if y != 0.0:
                y /= self.scaled.norm(name)
                # The sign says which end is meant: that of an equality, whose ends two edges may give, is free.
                place = name if name >= 0 else -edges[-1 - name, y > 0]
                entries[place] = entries.get(place, 0.0) + y
        return {place: y for place, y in entries.items() if y != 0.0}

    def _edges(self, node: int) -> dict[tuple[int, bool], int]:
        """For each form with a range on the path, and each of its ends, the node whose edge has it narrowest."""
        edges: dict[tuple[int, bool], int] = {}
        searched = self.searched
        while node > 0:
            form = int(searched.form[node])
            if (form, True) not in edges or searched.high[node] < searched.high[edges[form, True]]:
                edges[form, True] = node
            if (form, False) not in edges or searched.low[node] > searched.low[edges[form, False]]:
                edges[form, False] = node
            node = int(searched.parent[node])
        return edges

    def _proved(self, entries: dict[int, float]) -> float:
        """b·y + B ‖c - Aᵀy‖, rounded up: what these multipliers prove."""
        program, searched, d = self.program, self.searched, self.program.dimension
        place, y = np.array(list(entries), dtype=np.int64), np.array(list(entries.values()))
        row, edge = place[place >= 0], -place[place < 0]
        forms = program.forms.reshape(-1, d + 1)[searched.form[edge]]
        end = np.where(y[place < 0] > 0, searched.high[edge], searched.low[edge])
        normals, b = np.empty((len(y), d)), np.empty(len(y))
        normals[place >= 0], b[place >= 0] = program.rows[row], program.rhs[row]
        normals[place < 0], b[place < 0] = forms[:, 1:], end - forms[:, 0]
        size = np.abs(y) @ (np.abs(b) + program.radius * np.linalg.norm(normals, axis=1))
        size += self.scaled.size
        rounding = (2 * len(y) + d + 8) * UNIT * size
        if rounding > BLURRED * self.scaled.size:
            return self._proved_exactly(y, normals, b)
        rest = program.radius * math.hypot(*(program.objective - y @ normals).tolist())
        return float(y @ b + rest + rounding)

    def _proved_exactly(self, y: Array, normals: Array, b: Array) -> float:
        """The same for multipliers so large that rounding would hide it."""
        weights = [Fraction(v) for v in y.tolist()]
        scalar = sum((w * Fraction(v) for w, v in zip(weights, b.tolist(), strict=True)), Fraction(0))
        rest = [
            Fraction(c) - sum(w * Fraction(v) for w, v in zip(weights, column, strict=True))
            for c, column in zip(self.program.objective.tolist(), normals.T.tolist(), strict=True)
        ]
        square = Fraction(self.program.radius) ** 2 * sum(r * r for r in rest)
        digits = max(0, ROOT_DIGITS + (square.denominator.bit_length() - square.numerator.bit_length()) // 2)
        root = Fraction(math.isqrt((square.numerator << 2 * digits) // square.denominator) + 1, 1 << digits)
        return math.nextafter(float(scalar + root), math.inf)
