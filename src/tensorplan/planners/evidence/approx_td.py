"""ApproxTD: averages of [R, γ φ(S') - φ(s)] over samples, for every action (Weisz et al. 2022, Algorithm ApproxTD)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import END, Access, Array, Node, Sample

CHUNK = 1_000_000
"""Samples drawn at a time, which bounds the memory."""


WIDE = 128
"""From this dimension on, second moments are kept as the rows of a factor while there are fewer rows than columns."""


ROUNDED = 1e-13
"""How much a matrix is shifted, relative to its trace, so that it is positive definite."""


class Moments:
    """Sums over samples of x = [R, γ φ(S')], and of x xᵀ, for every action of one state."""

    __slots__ = ("counts", "squares", "sums")

    def __init__(self, actions: int, dimension: int) -> None:
        self.counts = np.zeros(actions, dtype=np.int64)
        """The number of samples of each action, (A,)."""
        self.sums = np.zeros((actions, dimension + 1))
        self.squares: list[Squares] = [Squares(dimension + 1) for _ in range(actions)]
        """Σ x xᵀ, by action."""

    @property
    def n(self) -> int:
        """The number of samples of the action that has the fewest."""
        return int(self.counts.min())

    def add(self, other: Moments) -> None:
        """Add more samples of the same state."""
        self.counts += other.counts
        self.sums += other.sums
        for own, more in zip(self.squares, other.squares, strict=True):
            own.add(more)

    def deltas(self, phi: Array) -> Array:
        """The estimates Δ_a of a state with features φ, (A, d+1): the TD of a under θ is <Δ_a, [1, θ]>."""
        deltas = self.sums / self.counts[:, None]
        deltas[:, 1:] -= phi
        return deltas

    def covariance(self, action: int) -> Array:
        """The sample covariance of x, (d+1, d+1), from n >= 2 samples."""
        n = int(self.counts[action])
        mean = self.sums[action] / n
        return np.asarray((self.squares[action].matrix() - n * np.outer(mean, mean)) / (n - 1))

    def variance(self, action: int, vector: Array) -> float:
        """The sample variance of <x, vector>, from n >= 2 samples."""
        n = int(self.counts[action])
        mean = float(self.sums[action] @ vector) / n
        return max(self.squares[action].form(vector) - n * mean**2, 0.0) / (n - 1)

    def second(self, action: int, origin: Array) -> Array:
        """Σ (x - origin)(x - origin)ᵀ over the samples of an action, (d+1, d+1)."""
        cross = np.outer(origin, self.sums[action])
        return np.asarray(
            self.squares[action].matrix() - cross - cross.T + self.counts[action] * np.outer(origin, origin)
        )


class Squares:
    """Σ x xᵀ over samples of x = [R, φ], as a matrix; in many dimensions as a factor, while it has few rows.

    A matrix for every state and action would not fit into the memory: 1 MB each for d = 360.
    """

    __slots__ = ("_dense", "_rest", "_rows", "_size")

    def __init__(self, size: int) -> None:
        self._size = size
        self._dense: Array | None = np.zeros((size, size)) if size <= WIDE else None
        self._rows: list[Array] = []
        """Weighted rows x: their outer products add up to what is not in the matrix, but for the rest."""
        self._rest = 0.0
        """Of the first entry, Σ R²."""

    def count(self, square: float, counts: NDArray[Any], rewards: NDArray[Any], phi: Array) -> None:
        """Add samples: Σ R² of all, and of each successor how many, Σ R and φ; END has no φ."""
        if self._dense is not None:
            self._fill(self._dense, square, counts, rewards, phi)
            return
        if len(counts):
            weights = np.sqrt(counts)
            self._rows.append(np.column_stack([rewards / weights, phi * weights[:, None]]))
            square -= float(np.sum(rewards**2 / counts))
        self._rest += square
        self._condense()

    def add(self, other: Squares) -> None:
        """Add other samples."""
        if other._dense is not None and self._dense is not None:
            self._dense += other._dense
        elif other._dense is not None:
            self._dense = other._dense.copy()
        self._rows += other._rows
        self._rest += other._rest
        self._condense()

    def form(self, vector: Array) -> float:
        """Σ <x, vector>²."""
        total = self._rest * float(vector[0]) ** 2
        if self._dense is not None:
            total += float(vector @ self._dense @ vector)
        return total + math.fsum(float(np.sum((rows @ vector) ** 2)) for rows in self._rows)

    def matrix(self) -> Array:
        """Σ x xᵀ."""
        made = np.zeros((self._size, self._size)) if self._dense is None else self._dense.copy()
        for rows in self._rows:
            made += rows.T @ rows
        made[0, 0] += self._rest
        return made

    def factor(self) -> Array:
        """Rows whose outer products add up to Σ x xᵀ, up to rounding."""
        rows = list(self._rows)
        if self._dense is not None:
            regular = self._dense + ROUNDED * max(float(np.trace(self._dense)), ROUNDED) * np.eye(self._size)
            rows.append(np.asarray(np.linalg.cholesky(regular).T))
        rest = np.zeros((1, self._size))
        rest[0, 0] = math.sqrt(max(self._rest, 0.0))
        return np.concatenate([*rows, rest])

    def _condense(self) -> None:
        """Keep the matrix instead of the factor, where that is smaller."""
        if sum(map(len, self._rows)) > self._size:
            self._dense, self._rows, self._rest = self.matrix(), [], 0.0

    @staticmethod
    def _fill(matrix: Array, square: float, counts: NDArray[Any], rewards: NDArray[Any], phi: Array) -> None:
        matrix[0, 0] += square
        if len(counts):
            cross = rewards @ phi
            matrix[0, 1:] += cross
            matrix[1:, 0] += cross
            matrix[1:, 1:] += (phi * counts[:, None]).T @ phi


def approx_td(access: Access, node: Node, n: int, discount: float = 1.0) -> Array:
    """Δ_a for every action, (A, d+1), from n samples each."""
    return sample_moments(access, node, [n] * access.actions, discount).deltas(node.phi_v)


def sample_moments(
    access: Access,
    node: Node,
    counts: Sequence[int],
    discount: float = 1.0,
    record: Callable[[Node, int, Sample], None] | None = None,
    *,
    shared: bool = False,
) -> Moments:
    """The moments of so many fresh samples of each action; each batch of them is passed to ``record``.

    If all counts are the same, and the random numbers ``shared``, differences between actions vary less.
    """
    moments = Moments(access.actions, access.dimension)
    for action, sample in _samples(access, node, counts, shared):
        _add(sample, discount, moments.sums[action], moments.squares[action])
        moments.counts[action] += len(sample)
        if record is not None:
            record(node, action, sample)
    return moments


def _samples(access: Access, node: Node, counts: Sequence[int], shared: bool) -> Iterator[tuple[int, Sample]]:
    """Batches of samples, with their actions."""
    least, most = min(counts), max(counts)
    if access.joint:  # a batch for one action serves the others too
        least = most
    for start in range(0, least, CHUNK):
        yield from enumerate(access.sample_all(node, min(CHUNK, least - start), shared=shared))
    for action, n in enumerate(counts):
        for start in range(least, n, CHUNK):
            yield action, access.sample(node, action, min(CHUNK, n - start))


def _add(sample: Sample, discount: float, sums: Array, squares: Squares) -> None:
    """Add Σ x and Σ x xᵀ of a sample."""
    counts = np.bincount(sample.which, minlength=len(sample.successors))
    rewards = np.bincount(sample.which, weights=sample.rewards, minlength=len(sample.successors))
    reached = [i for i in np.flatnonzero(counts).tolist() if sample.successors[i] is not END]
    sums[0] += rewards.sum()
    phi = discount * np.array([sample.successors[i].phi_v for i in reached])
    if reached:
        sums[1:] += counts[reached] @ phi
    squares.count(float(sample.rewards @ sample.rewards), counts[reached], rewards[reached], phi)
