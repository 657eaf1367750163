import dataclasses
import json
from functools import partial

import numpy as np
import pytest

import tensorplan as tp
from tensorplan.core.errors import BadInput
from tensorplan.paper import table1 as lab
from tensorplan.paper.table1 import Point, Scored, Unit, measure, rows_of, table1, units
from tensorplan.paper.table1_rows import ROWS, Family, Player, Row
from tensorplan.problems.tables.solution import exact_solution
from tensorplan.problems.tables.tabular import TabularMDP

SIZES = (4, 8, 16, 32)


def family(*names, sizes=SIZES, delta=0.5):
    players = tuple(Player(name, tp.RandomPlanner) for name in names)
    return Family("made up", "n", lambda size, seed: None, players, delta, sizes, sizes, (3, 3))


@pytest.fixture
def judged(monkeypatch):
    """The verdict on a made-up row whose measurements follow given laws of (size, seed)."""

    def judge(laws, *, families=1, paper=True, sizes=SIZES):
        row = Row(1, "nobody", "any", "made up", paper, tuple(family(*laws, sizes=sizes) for _ in range(families)))
        monkeypatch.setattr(lab, "ROWS", (row,))

        def measured(todo, workers):
            for unit in todo:
                queries, loss = laws[unit.player](unit.family, unit.size, unit.seed)
                yield unit, Point(round(queries), loss, False, 0.0)

        monkeypatch.setattr(lab, "_measured", measured)
        return table1(quick=True, workers=1).rows[0]

    return judge


def power(_, n, s):
    return 100 * n**2 * (1 + 0.1 * s), 0.1


def exponential(_, n, s):
    return 100 * 2 ** (n / 2) * (1 + 0.1 * s), 0.1


def unsound(_, n, s):
    return 100 * n, 0.1 if n < 32 else 0.6


def test_the_verdict_is_read_off_the_measurements(judged):
    for paper in (True, False):
        assert judged({"a": power}, paper=paper).verdict is True
        assert judged({"a": exponential}, paper=paper).verdict is False
        assert judged({"a": unsound}, paper=paper).verdict is False
        assert judged({"a": exponential, "b": power}, paper=paper).verdict is True
        assert judged({"a": unsound, "b": exponential}, paper=paper).verdict is False


def test_the_cheapest_planner_that_decides_is_named(judged):
    assert judged({"a": exponential, "b": power}).best == "b"
    assert judged({"a": unsound, "b": exponential}).best == "b"
    assert judged({"a": power, "b": lambda f, n, s: (n, 0.0)}).best == "b"


def test_every_family_must_agree(judged):
    def half(family, n, s):
        return power(family, n, s) if family == 0 else exponential(family, n, s)

    assert judged({"a": half}, families=2).verdict is False
    assert judged({"a": power}, families=2).verdict is True


def test_a_short_range_or_a_wide_interval_leaves_it_open(judged):
    def wild(_, n, s):
        return 100 * n * (1 + 30 * (s % 3)), 0.1

    assert judged({"a": wild}, sizes=(4, 5, 6)).verdict is None

    def doubtful(_, n, s):
        return 100 * n**2, 0.4 + 0.3 * (s % 2)

    assert not judged({"a": doubtful}).curves("a")[0].sound


def test_a_planner_that_was_not_run_at_all_sizes_does_not_decide(judged, monkeypatch):
    result = judged({"a": exponential, "b": power})
    part = result.families[0]
    partial_curve = dataclasses.replace(part.curves[1], whole=False)
    cut = dataclasses.replace(result, families=(dataclasses.replace(part, curves=(part.curves[0], partial_curve)),))
    assert cut.verdict is False


# ----------------------------------------------------------------------------------------------- the rows


def test_there_are_the_ten_rows_of_the_paper():
    assert [row.number for row in ROWS] == list(range(1, 11))
    assert [row.paper for row in ROWS] == [True, True, True, False, False, False, False, True, True, True]
    assert all(len(set(f.quick)) >= 3 and len(set(f.full)) >= 3 for row in ROWS for f in row.families)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"row {row.number}")
def test_instances_are_in_their_class(row):
    for part in row.families:
        for size in part.quick[:2]:
            problem = part.problem(size, 3, **({"features": "reduced"} if part.symbol == "p" else {}))
            assert problem.deterministic_transitions or "det" not in row.members
            assert problem.deterministic_rewards or "∩ det" not in row.members
            assert ("v*" in row.members) == (problem.phi_v is not None)
            assert ("q*" in row.members) == (problem.phi_q is not None)
            assert np.linalg.norm(problem.theta) <= problem.bound * (1 + 1e-9)
            right, wrong = misfit(problem)
            assert right < 1e-9
            assert (wrong > 0.01) == ("reach" in row.members and wrong is not None) or "det" in row.members


def misfit(problem, most=300):
    """The largest error of the features at states that can be reached, and at the others."""
    solution, mdp = exact_solution(problem), problem.mdp
    rng, horizon = np.random.default_rng(0), problem.horizon
    reached = set()
    for _ in range(200):
        state, stage = mdp.start(rng), 0
        while state is not tp.END and len(reached) < most:
            reached.add((stage, state))
            _, following = mdp.step(state, int(rng.integers(problem.actions)), rng)
            state, stage = problem.arrive(following, stage), stage + 1
    every = {(h, s) for h in range(horizon) for s in mdp.states(h)} if isinstance(mdp, TabularMDP) else reached
    errors = {True: [0.0], False: [0.0]}
    reachable = closure(problem) if isinstance(mdp, TabularMDP) else reached
    for stage, state in every:
        here = errors[(stage, state) in reachable]
        if problem.phi_v is not None:
            here.append(abs(problem.state_features(state, stage) @ problem.theta - solution.value(state, stage)))
        if problem.phi_q is not None:
            values = problem.action_features(state, stage) @ problem.theta
            truth = [solution.action_value(state, a, stage) for a in range(problem.actions)]
            here.extend(np.abs(values - truth))
    return max(errors[True]), max(errors[False])


def closure(problem):
    """All (stage, state) that can be reached, by following every successor of positive probability."""
    mdp = problem.mdp
    layer = {s for s, weight in mdp.start_weights() if weight > 0}
    found = set()
    for stage in range(problem.horizon):
        found |= {(stage, s) for s in layer}
        pairs = [(s, a) for s in layer for a in range(problem.actions)]
        layer = {
            problem.arrive(t, stage) for s, a in pairs for t in mdp.step_batch(s, a, 1, np.random.default_rng(0))[1]
        }
        layer -= {tp.END}
    return found


# -------------------------------------------------------------------------------------------- measuring


def test_the_loss_is_that_of_the_policy():
    problem = tp.make("layered", actions=3, d=3, states=20, horizon=5, seed=1)
    scored = Scored(tp.UCT(simulations=30), problem)
    run = tp.run(problem, scored, episodes=3)
    losses = [problem.optimal_value(e.start) - e.total_reward for e in run.episodes]
    assert max(losses) > 0.01
    np.testing.assert_allclose(scored.losses, losses, atol=1e-9)


def test_the_loss_is_unbiased_where_steps_are_random():
    problem = tp.make("layered-stochastic/2x3")
    scored = Scored(tp.RandomPlanner(), problem)
    run = tp.run(problem, scored, episodes=4000)
    plain = [problem.optimal_value(e.start) - e.total_reward for e in run.episodes]
    error = np.std(plain) / np.sqrt(len(plain))
    assert abs(np.mean(scored.losses) - np.mean(plain)) < 4 * error
    assert np.std(scored.losses) < np.std(plain)


def test_a_refuted_problem_is_a_measurement_too(monkeypatch):
    part = Family(
        "reach",
        "n",
        lambda size, seed: tp.make("layered", actions=3, d=3, horizon=3, states=20, kind="vq", reach=True, seed=seed),
        (Player("bilin-ucb", partial(tp.make_planner, "bilin-ucb")),),
        0.5,
        (2, 3, 4),
        (2, 3, 4),
        (1, 1),
    )
    monkeypatch.setattr(lab, "ROWS", (Row(1, "nobody", "any", "reach", True, (part,)),))
    point = measure(Unit(1, 0, "bilin-ucb", 2, 0))
    assert point.refuted
    assert np.isfinite(point.loss)


def test_units_take_the_large_sizes_first_and_more_seeds_at_small_ones():
    found = list(units(rows_of([4]), quick=True))
    sizes = [u.size for u in found]
    assert sizes == sorted(sizes, reverse=True)
    assert [sizes.count(s) for s in sorted(set(sizes))] == [48, 48, 48, 48, 24, 12]
    assert len(set(found)) == len(found)


@pytest.fixture
def small(monkeypatch):
    part = dataclasses.replace(ROWS[0].families[0], quick=(2, 3, 4), seeds=(1, 1))
    monkeypatch.setattr(lab, "ROWS", (dataclasses.replace(ROWS[0], families=(part,)),))


def untimed(path):
    header, *lines = path.read_text().splitlines()
    return header, sorted(json.dumps({k: v for k, v in json.loads(x).items() if k != "seconds"}) for x in lines)


def test_two_processes_measure_the_same(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    first = table1(quick=True, rows=[4], out=one, workers=1)
    second = table1(quick=True, rows=[4], out=two, workers=2)
    assert untimed(one) == untimed(two)
    assert first.as_json() == second.as_json()
    assert first.rows[0].verdict is False


def test_what_was_measured_is_not_measured_again(tmp_path, small, monkeypatch):
    out = tmp_path / "book"
    whole = table1(quick=True, out=out, workers=1)
    text = out.read_text()
    lines = text.splitlines(keepends=True)
    for kept in (1, 5, len(lines) - 1):
        asked = []

        def counting(unit, asked=asked):
            asked.append(unit)
            return measure(unit)

        out.write_text("".join(lines[:kept]) + '{"row": 1, "fam')  # cut off while the next was written
        monkeypatch.setattr(lab, "measure", counting)
        again = table1(quick=True, out=out, workers=1)
        assert len(asked) == len(lines) - kept
        assert again.as_json() == whole.as_json()
        assert untimed(out)[1] == sorted(
            json.dumps({k: v for k, v in json.loads(x).items() if k != "seconds"}) for x in lines[1:]
        )


def test_ctrl_c_leaves_what_is_done(tmp_path, small, monkeypatch):
    calls = []

    def interrupted(unit):
        calls.append(unit)
        if len(calls) > 9:
            raise KeyboardInterrupt
        return measure(unit)

    monkeypatch.setattr(lab, "measure", interrupted)
    result = table1(quick=True, out=tmp_path / "book", workers=1)
    assert result.stopped == "interrupted"
    assert result.rows[0].verdict is None
    assert len((tmp_path / "book").read_text().splitlines()) == 10


def test_a_file_that_is_something_else_is_refused_and_left_alone(tmp_path, small):
    path = tmp_path / "notes"
    path.write_text("dear diary\n")
    with pytest.raises(BadInput, match="does not hold measurements of this table"):
        table1(quick=True, out=path, workers=1)
    assert path.read_text() == "dear diary\n"
    table1(quick=True, out=tmp_path / "book", workers=1)
    with pytest.raises(BadInput, match="does not hold measurements of this table"):
        table1(quick=False, out=tmp_path / "book", workers=1)
    book = tmp_path / "book"
    book.write_text(book.read_text().replace('{"row"', "{row", 1))
    with pytest.raises(BadInput, match="line 2: not a measurement"):
        table1(quick=True, out=book, workers=1)
    with pytest.raises(BadInput, match="No such file or directory"):
        table1(quick=True, out=tmp_path / "no" / "book", workers=1)


def test_rows_that_do_not_exist():
    with pytest.raises(BadInput, match="row"):
        table1(rows=[11])
    with pytest.raises(BadInput, match="at least one row"):
        table1(rows=[])
