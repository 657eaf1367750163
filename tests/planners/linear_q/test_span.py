"""The span planner: its equations against least squares, and what it alone can do (the rest: test_linear_q.py)."""

from types import SimpleNamespace

import numpy as np
import pytest
from helpers import local
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_q import bracketed, fragile, nearly_parallel, random_layered, realize_q, solved
from random_graphs import TINY, graphs, realized, with_array_states

import tensorplan as tp
from tensorplan.planners.affine import AffineSet
from tensorplan.planners.evidence.challenge import PathStep
from tensorplan.planners.linear_q.span import SpanPlanner, SpanPlanning
from tensorplan.problems.random.layered import layered

# ------------------------------------------------------------------------------------------------- optimality


def test_no_simulator_with_a_memory_of_its_own_is_needed():
    for task in random_layered(40):
        (episode,) = tp.run(task, SpanPlanner(), cache=False).episodes
        solved(task, episode)


def test_queries_do_not_depend_on_the_number_of_actions():
    """Every action two hundred times over: the same states, the same questions, the same return."""
    for seed in range(10):
        few = layered(3, 5, states=20, horizon=6, kind="q", seed=seed)

        class Many:
            def __init__(self, mdp):
                self.mdp, self.actions = mdp, 200 * mdp.actions

            def __getattr__(self, name):
                return getattr(self.mdp, name)

            def step(self, state, action, rng):
                return self.mdp.step(state, action // 200, rng)

        def phi_q(state, stage, few=few):
            return np.repeat(few.phi_q(state, stage), 200, axis=0)

        many = tp.Problem(Many(few.mdp), phi_q=phi_q, bound=few.bound, name="many")
        one, other = (tp.run(task, SpanPlanner()).episodes[0] for task in (few, many))
        assert (one.rewards, one.queries) == (other.rewards, other.queries)
        assert one.actions == tuple(a // 200 for a in other.actions)


@pytest.mark.parametrize("exponent", range(1, 15))
def test_nearly_parallel_features_are_never_taken_for_a_contradiction(exponent):
    """Where digits run out the status says so; the bracket is right all the same."""
    for seed in range(15):
        task = nearly_parallel(np.random.default_rng([seed, 78]), 10.0**-exponent)
        for episode in tp.run(task, SpanPlanner(), episodes=2, seed=seed).episodes:
            bracketed(task, episode)
            assert episode.certificate.status in (("certified", "limit") if exponent in (6, 7, 8) else ("certified",))
            assert task.optimal_value(episode.start) - episode.total_reward <= 1e-6 * (1 + task.bound)


@settings(max_examples=20)
@given(realized(graphs(st.just(5)), realize_q))
def test_states_need_not_be_hashable(plain):
    task = with_array_states(plain)
    for episode in tp.run(task, SpanPlanner(), episodes=2).episodes:
        assert episode.certificate.status in ("certified", "doubtful")
        assert episode.total_reward == pytest.approx(plain.optimal_value(0), abs=TINY * (1 + task.bound))


# -------------------------------------------------------------------------------------------------- equations


def test_equations_against_least_squares_and_the_ball():
    """Values in the span are those of the pseudo-inverse; elsewhere the bound is that of ball and equations (C1)."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        d = int(rng.integers(1, 7))
        theta = rng.standard_normal(d)
        bound = float(np.linalg.norm(theta)) * 1.3
        x = rng.standard_normal((int(rng.integers(0, d + 1)), d)) / 4
        equations = AffineSet(d, bound)
        for row in x:
            equations.add(row, np.zeros(d), float(row @ theta), float(row @ theta))
        assert not equations.refuted
        inverse = np.linalg.pinv(x)
        centre = inverse @ (x @ theta)
        phi = np.vstack([rng.standard_normal((5, d)), rng.standard_normal((5, len(x))) @ x, np.zeros(d)]) / 4
        look = equations.look(phi)
        across = np.linalg.norm(phi - phi @ inverse @ x, axis=1)
        radius = np.sqrt(max(bound**2 - centre @ centre, 0.0))
        assert np.allclose(look.values, phi @ centre, atol=1e-9)
        assert np.allclose(look.errors, across * radius, atol=1e-7)
        assert ((look.outside > 0) == (across > 1e-7)).all()
        assert (np.abs(look.values - phi @ theta) <= look.errors + 1e-12).all()
        inside = x[0] if len(x) else np.zeros(d)
        assert np.allclose(equations.project(inside), inside)
        equations.add(inside, np.zeros(d), 1.0 + float(inside @ theta), 2.0 + float(inside @ theta))
        assert equations.refuted


def test_errors_bound_what_wrong_right_hand_sides_do():
    """Each y is off by up to its slack; no value is off by more than its error."""
    rng = np.random.default_rng(1)
    for _ in range(100):
        d = int(rng.integers(1, 7))
        theta, slack = rng.standard_normal(d), 10.0 ** rng.uniform(-6, -1, d)
        equations = AffineSet(d, 100.0)
        for row, s in zip(rng.standard_normal((d, d)) / 4, slack, strict=True):
            y = float(row @ theta) + s * rng.choice([-1, 1])
            equations.add(row, np.zeros(d), y - s, y + s)
        phi = rng.standard_normal((50, d)) / 4
        look = equations.look(phi)
        off = np.abs(look.values - phi @ theta)
        assert (off <= look.errors * (1 + 1e-9)).all()
        assert off.max() > 1e-8


def test_the_basis_stays_orthonormal_where_rows_are_nearly_dependent():
    rng = np.random.default_rng(2)
    equations = AffineSet(6, 10.0)
    for row in rng.standard_normal(6) / 4 + 1e-6 * rng.standard_normal((6, 6)):
        equations.add(row, np.zeros(6), 0.0, 0.0)
    basis = equations.rows.basis
    assert len(basis) == 6
    assert np.allclose(basis @ basis.T, np.eye(6), atol=1e-13)


def test_an_equation_allows_for_doubt_about_the_best_action():
    """What is known of e0 and e1 makes e0 look better, by the middle of their ranges; e1 is, and θ* must survive."""
    task = layered(2, 3, states=3, horizon=2, kind="q")
    theta, unit = np.array([0.4, 0.5, 0.7]), np.eye(3)
    search = SpanPlanning(local(task), AffineSet(3, 2.0), np.random.default_rng(0))
    search.memory.add(unit[0], np.zeros(3), 0.35, 0.65)
    search.memory.add(unit[1], np.zeros(3), 0.25, 0.55)
    nodes = [SimpleNamespace(phi_q=unit[[2, 2]]), SimpleNamespace(phi_q=unit[:2])]
    search.learn(
        [PathStep(nodes[0], 0, 0.2, nodes[1]), PathStep(nodes[1], 1, 0.5, tp.END)]
    )  # q* = 0.2 + 0.5 in the first
    basis, weights, y, slack = search.memory.rows
    assert len(y) == 3
    assert (np.abs(np.linalg.solve(weights, basis) @ theta - y) <= slack).all()
    assert not search.memory.refuted


# ------------------------------------------------------------------------------------ budgets and interruptions


def test_a_session_goes_on_after_ctrl_c():
    task = fragile(layered(4, 5, states=20, horizon=6, kind="q", seed=3), 17)
    session, rng, first, second = SpanPlanner().session(), np.random.default_rng(0), local(task), local(task)
    assert session.begin(first, rng).certificate.status == "interrupted"
    assert session.begin(second, rng).certificate.status == "certified"
    fresh = tp.run(task, SpanPlanner()).episodes[0].total_queries
    assert second.spent < fresh
