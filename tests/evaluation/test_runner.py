"""One unit of work, one row: what is in it, and what is no measurement."""

import dataclasses

import numpy as np
import pytest

import tensorplan as tp
from tensorplan.evaluation.loss import LossMeter
from tensorplan.evaluation.row import certificate_columns
from tensorplan.evaluation.runner import run_unit
from tensorplan.optimism import Search


def test_a_row_is_what_the_run_was():
    problem = tp.make("layered-stochastic/2x3:horizon=3", seed=4)
    row = run_unit("layered-stochastic/2x3:horizon=3", "tensorplan:delta=1", 4, episodes=3)
    played = tp.run(problem, tp.TensorPlan(delta=1), 3, 4)
    first, rewards = played.episodes[0], [episode.total_reward for episode in played.episodes]
    assert (row.problem, row.planner, row.seed) == ("layered-stochastic/2x3:horizon=3", "tensorplan:delta=1", 4)
    assert (row.queries, row.steps, row.worst_call) == (first.total_queries, 3, played.worst_call)
    assert row.total_reward == pytest.approx(np.mean(rewards))
    assert row.optimal == pytest.approx(np.mean([problem.optimal_value(e.start) for e in played.episodes]))
    assert (row.upper, row.gap) == (first.certificate.upper, first.certificate.gap)
    assert (row.status, row.stopped, row.nodes, row.id) == ("done", "end", None, "")
    again = run_unit(problem, tp.TensorPlan(delta=1), 4, episodes=3)
    names = {"problem": row.problem, "planner": row.planner}
    assert again.unmetered == 2 * row.unmetered  # they add up over the runs of a problem
    assert dataclasses.replace(again, seconds=row.seconds, unmetered=row.unmetered, **names) == row


def test_a_trace_is_counted():
    row = run_unit("hanoi/3", "tensorplan", 0, trace=True)
    trace = tp.run(tp.make("hanoi/3"), tp.TensorPlan(trace=True)).episodes[0].trace
    assert row.nodes == sum(iteration.nodes for iteration in trace.iterations)
    assert row.failed_states == sum(len(iteration.failures) for iteration in trace.iterations)
    assert run_unit("hanoi/3", "random", 0, trace=True, max_steps=10).nodes is None


def test_infinite_bounds_and_many_warnings_fit_a_column():
    row = certificate_columns(tp.Certificate(np.inf, 0.0, "budget", warnings=("a", "b")))
    assert (row["upper"], row["gap"], row["lower"], row["warnings"]) == (None, None, 0.0, "a; b")


def test_the_loss_is_that_of_the_policy():
    problem = tp.make("layered", actions=3, d=3, states=20, horizon=5, seed=1)
    meter = LossMeter(problem)
    run = tp.run(problem, tp.UCT(simulations=30), episodes=3, on_action=meter)
    losses = [problem.optimal_value(e.start) - e.total_reward for e in run.episodes]
    assert max(losses) > 0.01
    np.testing.assert_allclose([*meter.losses.values()], losses, atol=1e-9)
    row = run_unit(problem, tp.UCT(simulations=30), 0, episodes=3)
    assert row.loss == pytest.approx(np.mean(losses))


def test_the_loss_is_unbiased_where_steps_are_random():
    problem = tp.make("layered-stochastic/2x3")
    meter = LossMeter(problem)
    run = tp.run(problem, tp.RandomPlanner(), episodes=4000, on_action=meter)
    plain = [problem.optimal_value(e.start) - e.total_reward for e in run.episodes]
    error = np.std(plain) / np.sqrt(len(plain))
    losses = [*meter.losses.values()]
    assert abs(np.mean(losses) - np.mean(plain)) < 4 * error
    assert np.std(losses) < np.std(plain)


def test_the_loss_is_discounted():
    mdp = tp.TabularMDP(np.ones((1, 2, 1)), np.array([[0.75, 0.5]]), horizon=4)  # action 1 loses 0.25 per step
    row = run_unit(tp.featurize(mdp, 2, discount=0.5), tp.RandomPlanner(), 1, episodes=5)
    assert row.loss == pytest.approx(row.optimal - row.total_reward)
    assert 0 < row.loss < 0.25 * 1.875


def test_an_episode_that_did_not_end_has_no_loss():
    row = run_unit("hanoi/6", "random", 0, max_steps=5)
    assert (row.stopped, row.loss, row.steps) == ("max_steps", None, 5)
    assert row.regret == row.optimal + 5


def test_without_optimal_action_values_there_is_a_regret_and_no_loss():
    class Values:
        def value(self, state, stage):
            return 4.0

    task = tp.make("layered/2x3:states=20:horizon=4")
    row = run_unit(dataclasses.replace(task, solution=Values()), tp.RandomPlanner(), 0)
    assert (row.loss, row.regret) == (None, 4.0 - row.total_reward)


def test_a_refuted_problem_is_a_measurement_too():
    row = run_unit("layered/3x3:horizon=3:states=20:kind=vq:reach=true", "bilin-ucb", 1_000_000)
    assert (row.status, row.stopped) == ("done", "end")
    assert row.error is not None
    assert np.isfinite(row.loss)


def test_ctrl_c_that_only_the_planner_heard_is_no_measurement(monkeypatch):
    real, calls = Search.solve, []

    def solve(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    monkeypatch.setattr(Search, "solve", solve)
    with pytest.raises(KeyboardInterrupt):
        run_unit("layered-stochastic/2x3", "tensorplan", 0)
