"""OCP: its linear programs against another solver, its constraints against θ* (its episodes: test_linear_q.py)."""

import numpy as np
import pytest
from helpers import local
from linear_q import bracketed, nearly_parallel, random_layered, solved, star_survives
from scipy.optimize import linprog

import tensorplan as tp
from tensorplan.planners.linear_q.ocp import OCP, Constraint, Constraints, Polytope, Propagation, Solver
from tensorplan.planners.linear_q.replay import ROUNDING
from tensorplan.problems.random.layered import layered

# ------------------------------------------------------------------------------------------------- optimality


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
        task = layered(1000, 8, states=5, horizon=8, kind="q", seed=seed)
        programs.clear()
        solved(task, tp.run(task, OCP()).episodes[0])
        assert len(programs) < 1500


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


@pytest.mark.slow
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


# ------------------------------------------------------------------------------------ budgets and interruptions


@pytest.mark.parametrize("method", ["_run", "_add"])
def test_ctrl_c_in_the_solver_leaves_a_session_that_goes_on(method, monkeypatch):
    """At any moment: the next episode of the session is optimal, and asks no more than a fresh one."""
    task = layered(4, 5, states=20, horizon=6, kind="q", seed=3)
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
