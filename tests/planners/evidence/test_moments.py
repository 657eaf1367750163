"""Moments of samples, against their definition; in many dimensions they are kept in another form."""

from types import SimpleNamespace

import numpy as np
import pytest

from tensorplan.access.local import Batch
from tensorplan.core import END
from tensorplan.planners.evidence.approx_td import Moments, sample_moments


class Access:
    """Samples with random rewards and one of seven successors, END among them."""

    actions, dimension, joint = 2, 3, False

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.places = [SimpleNamespace(phi_v=self.rng.normal(size=3)) for _ in range(6)]
        self.seen = [[], []]

    def sample_all(self, node, n, shared):
        return [self.sample(node, action, n) for action in range(2)]

    def sample(self, node, action, n):
        which, rewards = self.rng.integers(7, size=n), self.rng.normal(size=n)
        for reward, i in zip(rewards, which, strict=True):
            phi = np.zeros(3) if i == 6 else 0.9 * self.places[i].phi_v
            self.seen[action].append([reward, *phi])
        return Batch(rewards, [*self.places, END], which)


@pytest.mark.parametrize("wide", [1, 128], ids=["factor", "matrix"])
@pytest.mark.parametrize("pieces", [((2, 2),), ((1, 1), (1, 3), (3, 0)), ((40, 40), (0, 2))])
def test_moments_by_their_definition(monkeypatch, wide, pieces):
    monkeypatch.setattr("tensorplan.planners.evidence.approx_td.WIDE", wide)
    access = Access(len(pieces))
    moments = Moments(2, 3)
    for counts in pieces:
        moments.add(sample_moments(access, None, counts, 0.9))
    vector, origin = access.rng.normal(size=(2, 4))
    for action, seen in enumerate(access.seen):
        x = np.array(seen)
        np.testing.assert_allclose(moments.sums[action], x.sum(axis=0))
        np.testing.assert_allclose(moments.squares[action].matrix(), x.T @ x, atol=1e-12)
        factor = moments.squares[action].factor()
        np.testing.assert_allclose(factor.T @ factor, x.T @ x, atol=1e-12)
        np.testing.assert_allclose(moments.covariance(action), np.cov(x.T), atol=1e-12)
        assert moments.counts[action] == len(x)
        assert moments.variance(action, vector) == pytest.approx(np.var(x @ vector, ddof=1))
        np.testing.assert_allclose(moments.second(action, origin), (x - origin).T @ (x - origin), atol=1e-12)
    assert moments.n == min(map(len, access.seen))
