"""The cost of search against the bound, and planners on the hard MDPs."""

import numpy as np
import pytest
from inline import Inline

import tensorplan as tp
from tensorplan.game import cost
from tensorplan.paper.hardness import HardnessExperiment, StrategyUnit, hardness, parse_sizes
from tensorplan.paper.table1 import Table1Experiment, rows_of, table1
from tensorplan.report.figures import hardness_figure


def measured(sizes, *strategies, planners=False, **options):
    names = strategies or ("uniform", "best")
    return hardness(HardnessExperiment(tuple(sizes), names, with_planners=planners, **options), engine=Inline())


def test_the_cost_grows_as_the_number_of_guesses_does():
    """Each interval covers with probability 0.95: of 5, more than 3 miss with probability 3e-5 if that is true."""
    result = measured([16, 24, 32, 40, 48], "uniform", seeds=25)
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
    for c in measured([16, 32], "best", "covering", "pairs", seeds=25).costs:
        assert c.mean.high >= float(c.bound.sharp)


def test_tensorplan_finds_the_optimum_of_small_hard_problems():
    found = measured([8], "uniform", seeds=1, planners=True).attempts
    assert [row.planner for row in found] == ["tensorplan"] * 3 + ["uct"] * 3
    attempts = found[:3]
    assert [row.actions for row in attempts] == [2, 3, 4]
    assert [row.dimension for row in attempts] == [4, 8, 16]
    for row in attempts:
        assert row.regret <= 1e-9
        assert 1 <= row.failed_states <= row.queries
        assert row.nodes >= row.failed_states
    assert attempts[2].nodes > 20 * attempts[0].nodes  # the optimistic step is what grows


def test_seeds_reproduce():
    result = measured([12, 20], "uniform", "best", seeds=3, seed=4, rounds=30)
    assert list(result.costs) == [cost(s, p, 30, range(4, 7)) for p in (12, 20) for s in ("uniform", "best")]


def test_processes_measure_the_same_and_the_folder_remembers(tmp_path):
    experiment = HardnessExperiment((8, 12), seeds=2, with_planners=False)
    result = hardness(experiment, tmp_path, workers=2)
    assert result == measured([8, 12], seeds=2)
    more = HardnessExperiment((8, 12), seeds=3, with_planners=False)
    engine = Inline()
    assert hardness(more, tmp_path, engine=engine) == measured([8, 12], seeds=3)
    assert len(engine.asked) == 4  # one more game at each point
    with pytest.raises(tp.BadInput, match="holds the results of 'hardness', not of 'table1'"):
        table1(Table1Experiment(rows_of([4]), quick=True), tmp_path)


def test_ctrl_c_says_what_is_missing(tmp_path):
    experiment = HardnessExperiment((8, 12), seeds=2)
    result = hardness(experiment, tmp_path, engine=Inline(interrupt=6))
    assert [(c.strategy, c.p) for c in result.costs] == [("uniform", 8), ("best", 8)]
    assert result.stopped == "interrupted"
    assert result.missing[:3] == ("uniform at p = 12", "best at p = 12", "tensorplan on hard/2x9")
    result = hardness(experiment, tmp_path, engine=Inline())
    assert (len(result.costs), len(result.attempts), result.missing, result.stopped) == (4, 6, (), None)


def test_a_game_is_a_unit_with_an_id():
    units = [StrategyUnit("uniform", 8, 8, 0), StrategyUnit("uniform", 8, 9, 0), StrategyUnit("best", 8, 8, 0)]
    assert len({unit.row.id for unit in units}) == 3
    row = units[0].run(lambda facts: None).row
    assert (row.problem, row.planner, row.stopped) == ("game/8x8", "uniform", "end")
    assert (row.queries,) == cost("uniform", 8, 8, [0]).costs


def test_a_figure(tmp_path):
    path = tmp_path / "hardness.png"
    hardness_figure(measured([16, 20, 24], seeds=2), str(path))
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
        HardnessExperiment((16,), ("unform",))
    with pytest.raises(tp.BadInput, match="p must be a whole number >= 2, got 1"):
        HardnessExperiment((1,))
    with pytest.raises(tp.BadInput, match="at least one p"):
        HardnessExperiment(())
    assert np.isfinite(measured([5], seeds=2).costs[0].mean.mean)
