import itertools

import numpy as np
import pytest
from scipy import stats

from tensorplan.access.noise import Noise, Purpose, episode


def test_a_stream_is_the_same_whenever_it_is_asked_for():
    noise = Noise(3)
    first = noise.at(Purpose.TEST, 5, 7).random(4)
    noise.at(Purpose.PILOT, 1).random(100)
    noise.at(Purpose.TEST, 5, 7).integers(2, dtype=np.int32)  # half of a word is left over
    assert np.array_equal(noise.at(Purpose.TEST, 5, 7).random(4), first)
    assert np.array_equal(Noise(3).at(Purpose.TEST, 5, 7).random(4), first)
    assert not np.array_equal(Noise(4).at(Purpose.TEST, 5, 7).random(4), first)


def test_streams_do_not_overlap():
    """Any two of them differ in every number, also where their names are close."""
    noise, seen = Noise(0), set()
    names = list(itertools.product(Purpose, (0, 1, 2, 1 << 40), (0, 1, 1 << 32, 1 << 48)))
    for name in names:
        seen.update(noise.at(*name).integers(2**63, size=50).tolist())
    assert len(seen) == 50 * len(names)


def test_numbers_of_neighbouring_streams_are_uniform_and_independent():
    """False alarm 1e-6 each."""
    noise = Noise(1)
    firsts = np.array([[noise.at(Purpose.TEST, i, j).random() for j in range(60)] for i in range(60)])
    assert stats.kstest(firsts.ravel(), "uniform").pvalue > 1e-6
    for one, other in ((firsts[1:], firsts[:-1]), (firsts[:, 1:], firsts[:, :-1])):
        assert stats.pearsonr(one.ravel(), other.ravel()).pvalue > 1e-6


def test_episodes_of_different_purposes_have_different_numbers():
    assert len({episode(purpose, index) for purpose in Purpose for index in (0, 1, 1 << 40)}) == 3 * len(Purpose)


@pytest.mark.parametrize("seed", [0, 2**63 - 1, 2**100])
def test_any_seed(seed):
    assert 0 <= Noise(seed).at(Purpose.TEST, 0).random() < 1
