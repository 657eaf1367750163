import numpy as np
import pytest

from tensorplan.paper.growth import growth, slope


def noisy(law, sizes, seeds=10, spread=0.3, seed=0):
    rng = np.random.default_rng(seed)
    x = np.repeat(np.asarray(sizes, dtype=float), seeds)
    return x, law(x) * np.exp(spread * rng.standard_normal(len(x)))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("degree", [1.0, 2.0, 3.5])
def test_a_power_is_told_from_an_exponential(degree, seed):
    found = growth(*noisy(lambda x: 50 * x**degree, (2, 4, 8, 16), 20, seed=seed))
    assert found.verdict == "polynomial"
    assert found.evidence > 0
    assert found.degree.low - 0.2 <= degree <= found.degree.high + 0.2


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("rate", [0.1, 0.2, 0.5])
def test_an_exponential_is_told_from_a_power(rate, seed):
    found = growth(*noisy(lambda x: 3 * 2 ** (rate * x), (8, 16, 24, 32, 40, 48), 12, seed=seed))
    assert found.verdict == "exponential"
    assert found.doublings.low - 0.02 <= rate <= found.doublings.high + 0.02


def test_a_cost_that_does_not_grow_is_flat():
    assert growth(*noisy(lambda x: 20 + 0 * x, (4, 16, 64, 256))).verdict == "flat"


def test_a_short_range_leaves_it_open():
    assert growth(*noisy(lambda x: x**2, (4, 5, 6), seeds=3)).verdict == "undecided"
    assert growth([4, 5, 6] * 3, [400, 500, 600, 12400, 15500, 18600, 24400, 30500, 36600]).verdict == "undecided"
    assert growth([1, 1, 2, 2], [3, 4, 5, 6]) is None


def test_exact_costs_and_costs_of_zero():
    assert growth([2, 4, 8], [4, 16, 64]).verdict == "polynomial"
    assert growth([2, 4, 6], [4, 16, 64]).verdict == "exponential"
    assert growth([2, 4, 6], [0, 0, 0]).verdict == "flat"


def test_the_evidence_is_the_difference_of_akaikes_criteria():
    x, y = noisy(lambda x: x**1.5, (2, 3, 5, 9))
    z = np.log2(y)

    def criterion(feature):
        design = np.column_stack([np.ones_like(x), feature])
        rest = z - design @ np.linalg.lstsq(design, z, rcond=None)[0]
        variance = rest @ rest / len(x)  # the likelihood at its maximum, with three parameters
        log_likelihood = -len(x) / 2 * (np.log(2 * np.pi * variance) + 1)
        return 2 * 3 - 2 * log_likelihood

    assert growth(x, y).evidence == pytest.approx(criterion(x) - criterion(np.log2(x)))


def test_intervals_of_slopes_cover_at_their_rate():
    """400 lines with normal errors: 95% of the intervals hold the slope; below 92% or above 98% would be odd."""
    rng, x = np.random.default_rng(1), np.linspace(0, 1, 8)
    held = 0
    for _ in range(400):
        found = slope(x, 2 * x + rng.standard_normal(8))
        held += found.low <= 2 <= found.high
    assert 368 <= held <= 392
