"""OCP: its linear programs against another solver, its constraints against θ*, its episodes against exact values."""

import numpy as np
import pytest
from helpers import local
from hypothesis import given, settings
from random_graphs import random_graph
from scipy.optimize import linprog
from test_span import (
    REFUSALS,
    bracketed,
    chain,
    fragile,
    nearly_parallel,
    random_layered,
    realize_q,
    solved,
    statuses_of_contradictory_starts,
)

import tensorplan as tp
from tensorplan.planners.ocp import OCP, Constraint, Constraints, Polytope, Propagation, Solver
from tensorplan.planners.replay import ROUNDING
from tensorplan.problems.explore import explore
from tensorplan.problems.layered import layered
from tensorplan.testing import check_planner, problems


def star_survives(task, constraints):
    """θ* satisfies every constraint that was ever made, those not selected included."""
    for phi, low, high in constraints.sequence:
        assert low <= phi @ task.theta <= high


# ------------------------------------------------------------------------------------------------- optimality


def test_exact_with_any_number_of_actions():
    """200 problems, one in ten with 1,000 actions: optimal, with at most (d + 1) H queries; θ* is never excluded."""
    for task in random_layered(200):
        session = OCP().session()
        (episode,) = tp.run(task, session).episodes
        solved(task, episode)
        assert not any(episode.queries[1:])  # the path is replayed
        star_survives(task, session._memory)


def test_each_episode_that_learns_adds_an_independent_equation(monkeypatch):
    """The proof of the bound, on the data: an undetermined step, and afterwards one more equation than before."""
    learn, count = Propagation.learn, []

    def rank(constraints):
        narrow = [phi for phi, low, high in constraints.sequence if high - low <= 1e-8 * (1 + constraints.bound)]
        return np.linalg.matrix_rank(np.array(narrow), tol=1e-6) if narrow else 0

    def watch(self, steps):
        polytope, before = self.memory.polytope, rank(self.memory)
        features = [step.node.phi_q[step.action] for step in steps]
        undetermined = max(polytope.sup(phi) - polytope.inf(phi) for phi in features) > 1e-6 * (1 + self.access.bound)
        learn(self, steps)
        assert rank(self.memory) >= before + undetermined
        count.append(undetermined)

    monkeypatch.setattr(Propagation, "learn", watch)
    for task in random_layered(30):
        count.clear()
        solved(task, tp.run(task, OCP()).episodes[0])
        assert 1 <= sum(count) <= task.dimension


def test_awkward_features_and_several_starts():
    """Ties, zero, duplicate and parallel features, one dimension, tight balls, early END, all kinds of rewards."""
    for seed in range(150):
        rng = np.random.default_rng([seed, 77])
        task = realize_q(rng, random_graph(rng, int(rng.integers(1, 9)), starts=3))
        session = OCP().session()
        for episode in tp.run(task, session, episodes=4, seed=seed).episodes:
            solved(task, episode)
        star_survives(task, session._memory)


@settings(max_examples=60)
@given(problems(deterministic=True))
def test_tables(task):
    """Stationary and layered ones; the return against backward induction over all that can be reached."""
    if task.phi_q is None:
        with pytest.raises(tp.Refused, match="problem 'random' has no phi_q, which OCP needs"):
            tp.run(task, OCP())
        return
    (episode,) = tp.run(task, OCP()).episodes
    assert episode.certificate.status == "certified"
    assert episode.total_reward == pytest.approx(explore(task).value(episode.start, 0), abs=1e-9)


@pytest.mark.parametrize("exponent", range(1, 15))
def test_nearly_parallel_features_are_never_taken_for_a_contradiction(exponent):
    """Where digits run out the status says so; the bracket is right all the same."""
    certified = 0
    for seed in range(10):
        task = nearly_parallel(np.random.default_rng([seed, 78]), 10.0**-exponent)
        session = OCP().session()
        for episode in tp.run(task, session, episodes=2, seed=seed).episodes:
            bracketed(task, episode)
            assert episode.certificate.status in ("certified", "limit")
            certified += episode.certificate.status == "certified"
        star_survives(task, session._memory)
    assert certified >= 18


def test_many_actions_need_few_programs(monkeypatch):
    """1,000 actions at 64 states would be 64,000 programs without bounds for all actions at once."""
    programs, run = [], Solver._run
    monkeypatch.setattr(Solver, "_run", lambda self, *objective: (programs.append(1), run(self, *objective))[1])
    for seed in range(3):
        task = layered(1000, 8, states=5, horizon=8, features="q", seed=seed)
        programs.clear()
        solved(task, tp.run(task, OCP()).episodes[0])
        assert len(programs) < 1500


def test_it_is_a_planner_as_others_are():
    check_planner(OCP(), layered(3, 4, states=10, horizon=4, features="q"))


# ------------------------------------------------------------------------------------------- linear programs


def random_polytope(rng):
    """Constraints around a point, some of them equations up to rounding, some repeated; features to ask about."""
    d, m = int(rng.integers(1, 6)), int(rng.integers(0, 9))
    bound = float(rng.choice([0.5, 1.0, 40.0]))
    centre = rng.uniform(-bound, bound, d)
    x = rng.standard_normal((m, d)) / 4
    x[m // 2 : m // 2 + 1] = x[:1] * 0.5 if m else 0.0
    wide = rng.uniform(0, bound, m) * (rng.random(m) < 0.6) + ROUNDING * (1 + bound)
    pairs = zip(x, wide, strict=True)
    constraints = [Constraint(phi, float(phi @ centre - w), float(phi @ centre + w)) for phi, w in pairs]
    phi = rng.standard_normal((int(rng.integers(1, 30)), d)) / 4
    phi[rng.random(len(phi)) < 0.1] = 0.0
    phi[-1] = phi[0]
    return constraints, bound, phi, centre


def other_solver(constraints, bound, c, rows=None, epigraph=False):
    """min <c, θ> by scipy; with ``epigraph``, min max over the rows."""
    x = np.array([k.phi for k in constraints]).reshape(-1, len(c))
    upper = np.concatenate([[k.high for k in constraints], [-k.low for k in constraints]])
    matrix, limits = np.vstack([x, -x]), [(-bound, bound)] * len(c)
    if epigraph:
        matrix = np.column_stack([matrix, np.zeros(len(matrix))])
        matrix = np.vstack([matrix, np.column_stack([rows, -np.ones(len(rows))])])
        upper, c, limits = (
            np.append(upper, np.zeros(len(rows))),
            np.append(np.zeros(len(c)), 1.0),
            [*limits, (None, None)],
        )
    found = linprog(c, A_ub=matrix, b_ub=upper, bounds=limits, method="highs")
    assert found.status == 0
    return found.fun


def test_sup_and_inf_against_another_solver():
    rng = np.random.default_rng(0)
    for _ in range(40):
        constraints, bound, phi, centre = random_polytope(rng)
        polytope, slack = Polytope(constraints, phi.shape[1], bound), 1e-7 * (1 + bound)
        sups = np.array([-other_solver(constraints, bound, -c) for c in phi])
        infs = np.array([other_solver(constraints, bound, c) for c in phi])
        low, high = polytope.ranges(phi)
        assert (low <= infs + slack).all()
        assert (high >= sups - slack).all()
        action, value = polytope.optimist(phi)
        assert value == pytest.approx(sups.max(), abs=slack)
        assert sups[action] == pytest.approx(value, abs=slack)
        assert value >= (phi @ centre).max()
        for c, sup, inf in list(zip(phi, sups, infs, strict=True))[:6]:
            assert polytope.sup(c) == pytest.approx(sup, abs=slack)
            assert polytope.inf(c) == pytest.approx(inf, abs=slack)
            assert polytope.inf(c) <= c @ centre <= polytope.sup(c)
        low, high = polytope.ranges(phi)  # with all the corners that were met
        assert (low <= infs + slack).all()
        assert (high >= sups - slack).all()
        least = other_solver(constraints, bound, np.zeros(phi.shape[1]), phi, epigraph=True)
        for guess in {0, len(phi) // 2, action}:
            assert polytope.inf_max(phi, guess) == pytest.approx(least, abs=slack)
            assert polytope.inf_max(phi, guess) <= (phi @ centre).max()


def test_bounds_do_not_rest_on_the_solver(monkeypatch):
    """With multipliers that are noise every bound is still one."""
    rng = np.random.default_rng(1)

    def noise(self, c):
        return rng.standard_normal(self.rows), rng.choice([0.0, 1.0], len(c))

    def mixed_noise(self, phi, action):
        return rng.standard_normal(self.rows), rng.dirichlet(np.ones(len(phi)))

    monkeypatch.setattr(Solver, "maximise", noise)
    monkeypatch.setattr(Solver, "minimise_max", mixed_noise)
    for _ in range(300):
        constraints, bound, phi, centre = random_polytope(rng)
        polytope = Polytope(constraints, phi.shape[1], bound)
        assert polytope.optimist(phi)[1] >= (phi @ centre).max()
        for c in phi:
            assert polytope.inf(c) <= c @ centre <= polytope.sup(c)
        assert polytope.inf_max(phi, 0) <= (phi @ centre).max()
        low, high = polytope.ranges(phi)
        assert (low <= phi @ centre).all()
        assert (phi @ centre <= high).all()


# ------------------------------------------------------------------------------------------------- selection


def test_conflicting_constraints_are_selected_by_age():
    """From the end of the sequence, a constraint is kept if another solver finds a θ that satisfies it too."""
    rng = np.random.default_rng(2)
    conflicts = 0
    for _ in range(60):
        d = int(rng.integers(1, 4))
        constraints = Constraints(d, 1.0)
        for _ in range(int(rng.integers(1, 6))):
            middles, widths = rng.uniform(-0.5, 0.5, 3), rng.uniform(0.01, 0.3, 3)
            phis = rng.standard_normal((3, d)) / 2
            queue = [Constraint(p, float(m - w), float(m + w)) for p, m, w in zip(phis, middles, widths, strict=True)]
            constraints.extend(queue)
        kept = []
        for constraint in reversed(constraints.sequence):
            rows = np.array([[*k.phi, k.low, k.high] for k in [*kept, constraint]])
            matrix, upper = np.vstack([rows[:, :d], -rows[:, :d]]), np.append(rows[:, -1], -rows[:, -2])
            if linprog(np.zeros(d), A_ub=matrix, b_ub=upper, bounds=(-1, 1), method="highs").status == 0:
                kept.append(constraint)
        assert len(constraints.sequence) % 3 == 0
        assert constraints.refuted == (len(kept) < len(constraints.sequence))
        if constraints.refuted:
            conflicts += 1
            assert np.array_equal(constraints.polytope.x, [k.phi for k in kept])
            assert not constraints.polytope.empty
    assert conflicts > 20


# ----------------------------------------------------------------------------------------------------- memory


def test_what_is_learned_at_one_start_serves_the_next():
    """Constraints hold for θ*: later episodes verify their path and little else, and a known start costs nothing."""
    for seed in range(4):
        task = layered(4, 6, states=20, horizon=5, features="q", starts=20, seed=seed)
        fresh = tp.run(task, OCP(), episodes=8, seed=seed, learn=False).episodes
        learned = tp.run(task, OCP(), episodes=8, seed=seed).episodes
        known = set()
        for one, other in zip(fresh, learned, strict=True):
            solved(task, one)
            solved(task, other)
            assert other.total_queries <= (0 if other.start in known else one.total_queries)
            known.add(other.start)
        assert 2 * sum(e.total_queries for e in learned) < sum(e.total_queries for e in fresh)


def test_a_session_is_for_one_problem():
    session, rng = OCP().session(), np.random.default_rng(0)
    session.begin(local(tp.make("layered/4x6:features=q:horizon=4")), rng)
    assert repr(session) == "OCP()"
    with pytest.raises(tp.BadInput, match="this session is for another problem than"):
        session.begin(local(tp.make("layered/4x6:features=q:horizon=5")), rng)


# --------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(("task", "sentence"), REFUSALS)
def test_refusals(task, sentence):
    access = local(task)
    with pytest.raises(tp.Refused) as error:
        OCP().begin(access, np.random.default_rng(0))
    assert str(error.value) == sentence.format("OCP")
    assert access.spent == 0


# ------------------------------------------------------------------------------------------- misspecification


def test_conflicts_are_not_certified():
    (right,) = tp.run(chain([1.0, 0.75]), OCP()).episodes
    assert right.certificate.status == "certified"
    for first in ([0.9, 0.1], [0.1, 0.9], [0.6, 0.6]):
        (episode,) = tp.run(chain(first), OCP()).episodes
        assert episode.certificate.status == "refuted"
        assert episode.certificate.upper == 2.0  # what all returns are below
        assert episode.certificate.lower == pytest.approx(episode.total_reward)
        assert episode.complete


def test_a_box_that_is_too_small_is_found_out():
    (episode,) = tp.run(chain([1.0, 0.75], bound=0.99), OCP()).episodes
    assert episode.certificate.status == "refuted"
    (episode,) = tp.run(chain([1.0, 0.75], bound=1.0), OCP()).episodes
    assert episode.certificate.status == "certified"


def test_a_session_that_was_refuted_certifies_nothing_any_more():
    first, again, other, last = statuses_of_contradictory_starts(OCP())
    assert first == ("certified", pytest.approx(0.5), 1)
    assert again == (*first[:2], 0)
    assert other == last == ("refuted", 1.0, 1)


@pytest.mark.parametrize("eta", [1e-6, 0.05, 0.3])
def test_misspecified_features(eta):
    """Almost always found out; then the bracket claims nothing that rests on the features, and the best path acts."""
    refuted = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        actions, d, horizon = (int(x) for x in rng.integers(2, [12, 7, 7]))
        task = layered(actions, d, states=20, horizon=horizon, features="q", eta=eta, seed=seed)
        (episode,) = tp.run(task, OCP()).episodes
        assert episode.total_queries <= (d + 1) * horizon
        if episode.certificate.status == "refuted":
            refuted += 1
            bracketed(task, episode)
            assert episode.certificate.upper == task.return_range()[1]
            assert episode.certificate.lower == pytest.approx(episode.total_reward)
    assert refuted >= 17


# ------------------------------------------------------------------------------------ budgets and interruptions


def test_a_spent_budget_leaves_a_bracket_and_a_policy():
    task = layered(4, 5, states=20, horizon=6, features="q", seed=3)
    needed = tp.run(task, OCP()).episodes[0].total_queries
    lowers, uppers = [], []
    for budget in range(needed + 2):
        (episode,) = tp.run(task, OCP(), budget=budget).episodes
        bracketed(task, episode)
        assert episode.certificate.status == ("budget" if budget < needed else "certified")
        assert episode.total_queries == min(budget, needed)
        assert episode.steps == 6
        lowers.append(episode.certificate.lower)
        uppers.append(episode.certificate.upper)
    assert lowers == sorted(lowers)
    assert uppers == sorted(uppers, reverse=True)
    assert lowers[-1] == pytest.approx(task.optimal_value(0), abs=1e-9)


@pytest.mark.parametrize("at", [0, 3, 17])
def test_ctrl_c_ends_the_planning_but_not_the_episode(at):
    task = fragile(layered(4, 5, states=20, horizon=6, features="q", seed=3), at)
    run = tp.run(task, OCP(), episodes=5)
    assert run.interrupted
    (episode,) = run.episodes
    assert episode.certificate.status == "interrupted"
    assert episode.steps == 6
    bracketed(task, episode)


@pytest.mark.parametrize("method", ["_run", "_add"])
def test_ctrl_c_in_the_solver_leaves_a_session_that_goes_on(method, monkeypatch):
    """At any moment: the next episode of the session is optimal, and asks no more than a fresh one."""
    task = layered(4, 5, states=20, horizon=6, features="q", seed=3)
    real, calls, moments = getattr(Solver, method), [], [0]

    def press(self, *given):
        answer = real(self, *given)
        calls.append(1)
        if len(calls) == moments[-1]:
            raise KeyboardInterrupt
        return answer

    monkeypatch.setattr(Solver, method, press)
    fresh = local(task)
    OCP().begin(fresh, np.random.default_rng(0))
    for moment in range(2, len(calls), 7):
        calls.clear()
        moments.append(moment)
        session, rng, access = OCP().session(), np.random.default_rng(0), local(task)
        assert session.begin(local(task), rng).certificate.status == "interrupted"
        certificate = session.begin(access, rng).certificate
        assert certificate.status == "certified"
        assert certificate.lower == pytest.approx(task.optimal_value(0), abs=1e-9)
        assert access.spent <= fresh.spent
    assert len(moments) > 5
