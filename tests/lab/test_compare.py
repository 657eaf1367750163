import pytest

import tensorplan as tp
from tensorplan.lab import compare as module


def test_all_planners_meet_the_same_instances():
    result = tp.compare("layered/2x3:states=20:horizon=4", ["oracle", "random", "uct:simulations=50"], seeds=4)
    assert len(result.rows) == 12
    optimal = {(r.seed, r.optimal) for r in result.rows}
    assert len(optimal) == 4  # one instance per seed, and they differ
    by_name = {s.planner: s for s in result.summaries}
    assert by_name["oracle"].regret.mean == pytest.approx(0.0, abs=1e-12)
    assert by_name["random"].regret.mean > by_name["uct:simulations=50"].regret.mean >= -1e-12
    for row in result.rows:
        assert row.regret == pytest.approx(row.optimal - row.total_reward)


def test_a_refusal_keeps_the_rows_before_it():
    result = tp.compare("hanoi/3", ["oracle", "sparse-sampling"], seeds=2)
    assert [r.planner for r in result.rows] == ["oracle"]
    assert "needs a horizon or a depth" in result.stopped
    assert isinstance(result.error, tp.Refused)


def test_ctrl_c_keeps_the_rows_before_it(monkeypatch):
    runs = iter(range(100))

    def interrupted(*args, **kwargs):
        if next(runs) == 3:
            return tp.Run("p", "q", 0, (tp.Episode(0, (), (), (), "interrupted", 0.0),))
        return tp.run(*args, **kwargs)

    monkeypatch.setattr(module, "run", interrupted)
    result = tp.compare("hanoi/2", ["oracle", "random"], seeds=3)
    assert result.stopped == "interrupted"
    assert len(result.rows) == 3


def test_unknown_names_are_found_before_anything_runs():
    with pytest.raises(tp.BadInput, match="unknown planner"):
        tp.compare("hanoi/2", ["oracle", "magic"])
    with pytest.raises(tp.BadInput, match="name at least one planner"):
        tp.compare("hanoi/2", [])
