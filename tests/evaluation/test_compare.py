import numpy as np
import pytest
from clocks import set_clock

import tensorplan as tp
from tensorplan.evaluation import runner
from tensorplan.problems import catalog


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

    monkeypatch.setattr(runner, "run", interrupted)
    result = tp.compare("hanoi/2", ["oracle", "random"], seeds=3)
    assert result.stopped == "interrupted"
    assert len(result.rows) == 3


class Long:
    """Too long for its states to be listed on the side; one step of a planner is enough to end it."""

    horizon, actions = None, 2
    reward_range = (-1.0, 0.0)
    deterministic_transitions = deterministic_rewards = True

    def start(self, rng):
        return 0

    def step(self, state, action, rng):
        return -1.0, tp.END if action or state == 12_000 else state + 1


def test_rows_without_regret_say_why_once(monkeypatch):
    def instance(name, seed):
        return tp.Problem(Long(), lambda state, stage: np.ones(1), bound=1.0, name=name)

    monkeypatch.setattr(catalog, "instance", instance)
    result = tp.compare("long", ["random", "uct:simulations=2"], seeds=2)
    assert [row.regret for row in result.rows] == [None] * 4
    assert [row.unmetered for row in result.rows] == [20_000] * 4
    (note,) = result.notes
    assert note.startswith("v* of problem 'long' is not known: its states could not be listed within 20,000 steps")
    assert result.as_json()["notes"] == [note]
    result = tp.compare("long", ["oracle", "random"], seeds=1)
    assert (result.rows[0].regret, result.notes) == (0.0, ())  # the oracle was asked for v*, and now it is known
    assert result.rows[1].regret is not None


def test_unknown_names_are_found_before_anything_runs():
    with pytest.raises(tp.BadInput, match="unknown planner"):
        tp.compare("hanoi/2", ["oracle", "magic"])
    with pytest.raises(tp.BadInput, match="name at least one planner"):
        tp.compare("hanoi/2", [])


def test_problems_and_planners_as_objects():
    problem, planner = tp.make("layered/2x3:states=20:horizon=4", seed=2), tp.UCT(simulations=50)
    result = tp.compare(problem, [planner, "random"], seeds=2, seed=2)
    assert [s.planner for s in result.summaries] == [repr(planner), "random"]
    assert {row.problem for row in result.rows} == {result.problem} == {problem.name}
    named = tp.compare("layered/2x3:states=20:horizon=4", ["uct:simulations=50", "random"], seeds=1, seed=2)
    assert [(r.queries, r.regret) for r in result.rows[:2]] == [(r.queries, r.regret) for r in named.rows]
    assert len(tp.compare(problem, "random", seeds=3).rows) == 3


def test_what_is_neither_a_name_nor_the_thing_itself():
    with pytest.raises(tp.BadInput, match="expected a problem, or the name of one such as 'hanoi/3', got 3"):
        tp.compare(3, ["random"])
    with pytest.raises(tp.BadInput, match="expected a planner, or the name of one such as 'uct', got"):
        tp.compare("hanoi/3", [tp.UCT])


def test_a_time_limit_goes_to_the_planners_that_take_it(monkeypatch):
    set_clock(monkeypatch, 1e-3)
    planners = [tp.TensorPlan(delta=0.001), tp.RandomPlanner()]
    found = tp.compare("layered-stochastic/2x3", planners, seeds=1, time_limit=0.5)
    assert [(row.planner, row.certificate) for row in found.rows] == [
        ("TensorPlan(delta=0.001)", "time"),
        ("RandomPlanner()", None),
    ]
    with pytest.raises(tp.BadInput, match="time_limit must be a positive number of seconds, got 0"):
        tp.compare("layered-stochastic/2x3", "random", time_limit=0)
