"""The exact mode cut short: budgets, callbacks, Ctrl-C; and the trace of what it did."""

import itertools
import json
import math

import numpy as np
import pytest
from exact_runs import solved
from helpers import local
from random_graphs import TINY

import tensorplan as tp
from tensorplan.core.jsonable import plain
from tensorplan.optimism import Program, Search, solve, verify

# ------------------------------------------------------------------------------------ budgets and interruptions


@pytest.mark.parametrize("where", ["planner", "run"])
def test_a_spent_budget_leaves_a_bracket_and_a_policy(where):
    task = tp.make("layered/4x10:horizon=12")
    needed = tp.run(task, tp.TensorPlan()).episodes[0].total_queries
    value = task.optimal_value(0)
    for budget in [*range(needed), needed, needed + 1]:
        own, whole = (budget, None) if where == "planner" else (None, budget)
        (episode,) = tp.run(task, tp.TensorPlan(budget=own, trace=True), budget=whole).episodes
        certificate = episode.certificate
        assert certificate.status in ("budget" if budget < 0.8 * needed else "certified", "budget", "certified")
        assert certificate.status == "certified" or budget < 1.1 * needed
        assert episode.complete
        assert episode.steps == 12
        assert min(budget, 0.8 * needed) <= episode.total_queries <= budget
        assert certificate.lower - TINY <= value <= certificate.upper + TINY
        assert certificate.lower <= episode.total_reward + TINY
        assert len(episode.trace.iterations) > 0 or budget < 20
    (episode,) = tp.run(task, tp.TensorPlan(), budget=math.ceil(1.1 * needed)).episodes
    solved(task, episode)


def test_a_budget_holds_in_every_episode():
    task = tp.make("layered/4x10")
    run = tp.run(task, tp.TensorPlan(budget=20), episodes=8)
    assert [e.total_queries for e in run.episodes[:2]] == [20, 20]
    assert all(e.total_queries <= 20 and e.complete for e in run.episodes)
    solved(task, run.episodes[-1])  # it goes on where the last episode stopped


def test_a_callback_hears_of_every_iteration_and_may_stop():
    task = tp.make("layered/4x10")
    heard = []
    (episode,) = tp.run(task, tp.TensorPlan(callback=heard.append, trace=True)).episodes  # append gives None: go on
    assert tuple(heard) == episode.trace.iterations
    assert [i.number for i in heard] == list(range(1, len(heard) + 1))
    assert heard[-1].queries == episode.total_queries - math.ceil(0.1 * episode.steps)
    assert not heard[-1].failures
    failed = [i for i in heard if i.failures]
    assert len(heard) - 2 <= len(failed) < len(heard)  # a challenge may add an iteration
    assert all(len(i.failures) == 1 and i.failures[0].violation > 0 for i in failed)
    for stop in range(1, len(heard) + 1):
        run = tp.run(task, tp.TensorPlan(callback=lambda i, stop=stop: i.number == stop), episodes=2, learn=False)
        assert len(run.episodes) == 2  # to stop the planning is not to stop the run
        for part in run.episodes:
            assert part.certificate.status == ("stopped" if stop < len(heard) else "certified")
            assert part.certificate.upper == pytest.approx(heard[stop - 1].upper, abs=1e-8)
            assert part.certificate.lower == pytest.approx(heard[stop - 1].lower, abs=1e-8)
            assert part.certificate.lower <= part.total_reward + TINY
            assert part.complete


@pytest.mark.parametrize("where", ["simulator", "callback", "optimiser"])
def test_ctrl_c_ends_the_planning_but_not_the_episode(where, monkeypatch):
    task = tp.make("layered/4x10")
    calls = itertools.count()

    def interrupt(*_, at=3):
        if next(calls) == at:
            raise KeyboardInterrupt

    class Fragile:
        def __getattr__(self, name):
            return getattr(task.mdp, name)

        def step(self, state, action, rng):
            interrupt(at=17)
            return task.mdp.step(state, action, rng)

    if where == "simulator":
        mdp, callback = Fragile(), None
    elif where == "callback":
        mdp, callback = task.mdp, interrupt
    else:
        mdp, callback, solver = task.mdp, None, Search.solve
        monkeypatch.setattr(Search, "solve", lambda *a, **k: (interrupt(), solver(*a, **k))[1])
    other = tp.Problem(mdp, task.phi_v, bound=task.bound, solution=task.solution)
    run = tp.run(other, tp.TensorPlan(callback=callback), episodes=5)
    assert run.interrupted
    (episode,) = run.episodes
    assert episode.complete
    assert episode.steps == 10
    certificate = episode.certificate
    assert certificate.status == "interrupted"
    assert certificate.lower <= task.optimal_value(0) <= certificate.upper
    assert certificate.lower <= episode.total_reward


def test_a_session_goes_on_after_ctrl_c():
    task = tp.make("layered/4x10")
    calls = itertools.count()

    def interrupt(_):
        if next(calls) == 4:
            raise KeyboardInterrupt

    session, rng = tp.TensorPlan(callback=interrupt).session(), np.random.default_rng(0)
    first, second = local(task), local(task)
    assert session.begin(first, rng).certificate.status == "interrupted"
    assert session.begin(second, rng).certificate.status == "certified"
    fresh = tp.run(task, tp.TensorPlan()).episodes[0].total_queries
    assert second.spent < fresh


# ------------------------------------------------------------------------------------------------------ trace


def program_of(trace, iterations):
    """The program after some iterations of a trace that has been through JSON."""
    records = [trace, *trace["iterations"][:iterations]]
    rows = np.array([row for record in records for row in record["rows"]])
    disjunctions = [pair for record in records for pair in record["disjunctions"]]
    forms = np.array([forms for _, forms in disjunctions]) if disjunctions else None
    tol = np.array([tol for tol, _ in disjunctions]) if disjunctions else 0.0
    return Program(trace["objective"], trace["radius"], rows[:, :-1], rows[:, -1], forms, tol)


@pytest.mark.parametrize("ask", ["lazy", "all"])
@pytest.mark.parametrize("spec", ["layered/3x6", "layered/4x10", "hanoi/5", "grid/4x4"])
def test_a_trace_is_enough_to_redo_every_optimistic_step(spec, ask):
    """The bound of each iteration is the optimum over what was known before it, and the last one has a proof."""
    task = tp.make(spec)
    (episode,) = tp.run(task, tp.TensorPlan(trace=True, ask=ask)).episodes
    trace = json.loads(json.dumps(plain(episode.trace), allow_nan=False))
    assert trace["mode"] == "exact"
    upper, decreases = task.return_range()[1], 0
    for k, record in enumerate(trace["iterations"]):
        program = program_of(trace, k)
        best = solve(program).bound
        assert record["upper"] == pytest.approx(min(upper, best), abs=1e-7 * (1 + task.bound))
        assert program.objective @ record["theta"] == pytest.approx(best, abs=1e-7 * (1 + task.bound))
        decreases += best < upper
        upper = min(upper, best)
    assert decreases >= 3
    proved = verify(program, solve(program, certificate=True))
    value = task.optimal_value(episode.start)
    assert value - TINY <= proved <= value + 1e-6 * (1 + task.bound)
    last = trace["iterations"][-1]
    assert tuple(step["action"] for step in last["path"]) == episode.actions
    assert last["queries"] == episode.total_queries - math.ceil(0.1 * episode.steps)  # asked again at the end
    assert (last["lower"], last["upper"]) == (episode.certificate.lower, episode.certificate.upper)


def test_a_trace_of_a_later_episode_begins_with_what_was_known():
    _, second = tp.run(tp.make("layered/4x10"), tp.TensorPlan(trace=True), episodes=2).episodes
    trace = json.loads(json.dumps(plain(second.trace)))
    (record,) = trace["iterations"]
    assert solve(program_of(trace, 0)).bound == pytest.approx(record["upper"], abs=1e-7)
    assert not record["rows"]
    assert not record["disjunctions"]


def test_without_trace_there_is_none():
    assert tp.run(tp.make("layered/2x3"), tp.TensorPlan()).episodes[0].trace is None
