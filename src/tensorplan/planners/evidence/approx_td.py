"""ApproxTD: averages of [R, γ φ(S') - φ(s)] over samples, for every action (Weisz et al. 2022, Algorithm ApproxTD)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensorplan.core import END, Access, Array, Node, Sample

CHUNK = 1_000_000
"""Samples drawn at a time, which bounds the memory."""


class Moments:
    """Sums over n samples of x = [R, γ φ(S')], and of x xᵀ, for every action of one state."""

    __slots__ = ("n", "squares", "sums")

    def __init__(self, actions: int, dimension: int) -> None:
        self.n = 0
        self.sums = np.zeros((actions, dimension + 1))
        self.squares = np.zeros((actions, dimension + 1, dimension + 1))

    def add(self, other: Moments) -> None:
        """Add more samples of the same state."""
        self.n += other.n
        self.sums += other.sums
        self.squares += other.squares

    def deltas(self, phi: Array) -> Array:
        """The estimates Δ_a of a state with features φ, (A, d+1): the TD of a under θ is <Δ_a, [1, θ]>."""
        deltas = self.sums / self.n
        deltas[:, 1:] -= phi
        return deltas

    def covariance(self, action: int) -> Array:
        """The sample covariance of x, (d+1, d+1), from n >= 2 samples."""
        mean = self.sums[action] / self.n
        return np.asarray((self.squares[action] - self.n * np.outer(mean, mean)) / (self.n - 1))


def approx_td(access: Access, node: Node, n: int, discount: float = 1.0) -> Array:
    """Δ_a for every action, (A, d+1), from n samples each."""
    return sample_moments(access, node, n, discount).deltas(node.phi_v)


def sample_moments(
    access: Access, node: Node, n: int, discount: float = 1.0, record: Callable[[Node, int, Sample], None] | None = None
) -> Moments:
    """The moments of n fresh samples of every action, each of which is passed to ``record``."""
    moments = Moments(access.actions, access.dimension)
    for start in range(0, n, CHUNK):
        for action, sample in enumerate(access.sample_all(node, min(CHUNK, n - start))):
            _add(sample, discount, moments.sums[action], moments.squares[action])
            if record is not None:
                record(node, action, sample)
    moments.n = n
    return moments


def _add(sample: Sample, discount: float, sums: Array, squares: Array) -> None:
    """Add Σ x and Σ x xᵀ of a sample."""
    counts = np.bincount(sample.which, minlength=len(sample.successors))
    rewards = np.bincount(sample.which, weights=sample.rewards, minlength=len(sample.successors))
    reached = [i for i in np.flatnonzero(counts).tolist() if sample.successors[i] is not END]
    sums[0] += rewards.sum()
    squares[0, 0] += float(sample.rewards @ sample.rewards)
    if reached:
        phi = discount * np.array([sample.successors[i].phi_v for i in reached])
        sums[1:] += counts[reached] @ phi
        cross = rewards[reached] @ phi
        squares[0, 1:] += cross
        squares[1:, 0] += cross
        squares[1:, 1:] += (phi * counts[reached, None]).T @ phi
