"""The cost of search against the bound, and planners on the hard MDPs."""

import numpy as np
import pytest

import tensorplan as tp
from tensorplan.paper.hardness import hardness, parse_sizes
from tensorplan.report.figures import hardness_figure


def test_the_cost_grows_as_the_number_of_guesses_does():
    """Each interval covers with probability 0.95: of 5, more than 3 miss with probability 3e-5 if that is true."""
    result = hardness([16, 24, 32, 40, 48], ["uniform"], seeds=25, planners=False)
    guesses = [float(c.bound.guesses) for c in result.costs]
    missed = sum(not c.mean.low <= g <= c.mean.high for c, g in zip(result.costs, guesses, strict=True))
    assert missed <= 3
    (growth,) = result.growth
    assert growth.doublings.low <= growth.guesses <= growth.doublings.high
    assert growth.guesses > 0.15  # exponential
    for c in result.costs:
        assert c.mean.high >= float(c.bound.sharp)
        assert float(c.bound.sharp) >= float(c.bound.forced)


def test_no_strategy_beats_what_is_forced():
    for c in hardness([16, 32], ["best", "covering", "pairs"], seeds=25, planners=False).costs:
        assert c.mean.high >= float(c.bound.sharp)


def test_tensorplan_finds_the_optimum_of_small_hard_problems():
    attempts = [a for a in hardness([8], ["uniform"], seeds=1).attempts if a.planner == "tensorplan"]
    assert [a.p for a in attempts] == [2, 3, 4]
    assert [a.d for a in attempts] == [4, 8, 16]
    for a in attempts:
        assert a.loss <= 1e-9
        assert 1 <= a.failures <= a.queries
        assert a.nodes >= a.failures
    assert attempts[2].nodes > 20 * attempts[0].nodes  # the optimistic step is what grows


def test_seeds_reproduce():
    first, again = (hardness([12, 20], seeds=3, planners=False).costs for _ in range(2))
    assert [c.costs for c in first] == [c.costs for c in again]


def test_a_figure(tmp_path):
    path = tmp_path / "hardness.png"
    hardness_figure(hardness([16, 20, 24], seeds=2, planners=False), str(path))
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("text", "sizes"),
    [("16", [16]), ("16:96", [16, 32, 48, 64, 80, 96]), ("16:96:40", [16, 56, 96]), ("4:6", [4, 5, 6])],
)
def test_sizes_as_people_type_them(text, sizes):
    assert parse_sizes(text) == sizes


@pytest.mark.parametrize("text", ["", "a", "9:3", "1:2:3:4", "1:9:0"])
def test_sizes_that_make_no_sense(text):
    with pytest.raises(tp.BadInput, match="--p must be like"):
        parse_sizes(text)


def test_bad_input():
    with pytest.raises(tp.BadInput, match="unknown strategy 'unform'; did you mean 'uniform'"):
        hardness([16], ["unform"])
    with pytest.raises(tp.BadInput, match="p must be a whole number >= 2, got 1"):
        hardness([1])
    with pytest.raises(tp.BadInput, match="at least one p"):
        hardness([])
    assert np.isfinite(hardness([5], seeds=2, planners=False).costs[0].mean.mean)
