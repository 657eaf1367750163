"""States measured by samples: radii, moments, variances over Sol, and rows that hold as often as stated."""

import math
from dataclasses import replace

import numpy as np
import pytest
from certified_runs import Plain, begin, contains, many_starts, planning, too_many
from helpers import local

import tensorplan as tp
from tensorplan.core.intervals import bernstein_radius, hoeffding_radius
from tensorplan.optimism import solve
from tensorplan.planners.evidence import approx_td, evaluation, queries
from tensorplan.planners.evidence.place import Place
from tensorplan.planners.tensorplan import measuring
from tensorplan.planners.tensorplan.sol import Sol

# ------------------------------------------------------------------------------------------ intervals


def test_the_radii_are_the_stated_formulas():
    log = math.log(4 / 0.03)
    assert bernstein_radius(500, 0.2, 3.0, 0.03) == pytest.approx(math.sqrt(0.4 * log / 500) + 7 * 3 * log / (3 * 499))
    assert hoeffding_radius(500, 3.0, 0.03) == pytest.approx(3 * math.sqrt(math.log(2 / 0.03) / 1000))
    assert bernstein_radius(2, 0.0, 0.0, 0.03) == hoeffding_radius(1, 0.0, 0.03) == 0.0


@pytest.mark.parametrize(
    ("kind", "n", "p"), [("hoeffding", 100, 0.5), ("bernstein", 4000, 0.5), ("bernstein", 4000, 0.1)]
)
def test_means_are_within_the_radii_as_often_as_stated(kind, n, p):
    """Claim: outside with probability <= 0.01.  With half of the radius it would be 4% or more of the 20,000."""
    hits = np.random.default_rng(1).binomial(n, p, 20_000)
    means, variances = hits / n, hits * (n - hits) / (n * (n - 1))
    if kind == "hoeffding":
        radii = np.full(len(hits), hoeffding_radius(n, 1.0, 0.01))
    else:
        radii = np.array([bernstein_radius(n, v, 1.0, 0.01) for v in variances])
    assert np.count_nonzero(np.abs(means - p) > radii) < too_many(len(hits), 0.01)
    assert np.count_nonzero(np.abs(means - p) > radii / 2) >= too_many(len(hits), 0.01)


# ------------------------------------------------------------------------------------------ samples


def ending(seed=0, horizon=4):
    """A stationary table with random features, where a step may lead to END."""
    rng = np.random.default_rng(seed)
    mdp = tp.TabularMDP(rng.dirichlet(np.ones(7), (6, 2)), rng.random((6, 2)), horizon=horizon, noise=True)
    return tp.featurize(mdp, 3, seed=seed)


@pytest.mark.parametrize("chunk", [1000, 64])
@pytest.mark.parametrize("plain", [False, True])
def test_moments_are_means_and_covariances_of_the_answers(plain, chunk, monkeypatch):
    monkeypatch.setattr(approx_td, "CHUNK", chunk)
    problem = ending()
    if plain:
        problem = replace(problem, mdp=Plain(problem.mdp))
    access, again = local(problem, seed=3), local(problem, seed=3)
    moments = approx_td.sample_moments(access, access.root, 200, 0.9)
    more = approx_td.sample_moments(access, access.root, 50, 0.9)
    answers = [[], []]
    for n in [chunk] * (200 // chunk) + [200 % chunk, 50]:
        for action in range(2):
            answers[action] += again.query(again.root, action, n)
    assert any(next_ is tp.END for _, next_ in answers[0])
    x = np.array([[[r, *(np.zeros(3) if s is tp.END else 0.9 * s.phi_v)] for r, s in a] for a in answers])
    phi = np.array([0.0, *access.root.phi_v])
    np.testing.assert_allclose(moments.deltas(access.root.phi_v), x[:, :200].mean(axis=1) - phi, atol=1e-12)
    moments.add(more)
    np.testing.assert_allclose(moments.deltas(access.root.phi_v), x.mean(axis=1) - phi, atol=1e-12)
    for action in range(2):
        np.testing.assert_allclose(moments.covariance(action), np.cov(x[action].T), atol=1e-12)
    assert access.spent == 500


# ------------------------------------------------------------------------------------------ Sol


def test_a_variance_over_sol_is_not_exceeded_anywhere_in_sol():
    """At random points of 60 random sets, and at their extreme points; and it is no more than over the ball."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        d, radius = int(rng.integers(1, 5)), float(rng.uniform(0.5, 3))
        inside = rng.standard_normal(d)
        inside *= radius * rng.random() / np.linalg.norm(inside)
        one = np.array([1.0, *inside])
        sol = Sol(d, radius)
        for _ in range(rng.integers(0, 5)):
            normal = rng.standard_normal(d + 1)
            sol.inequality(Place(0, 0), normal, normal @ one + rng.random())
        for _ in range(rng.integers(0, 4)):
            forms = rng.standard_normal((2, d + 1))
            sol.disjunction(Place(0, 0), forms, float(np.abs(forms @ one).min()) + 0.1 * rng.random())
        factor = rng.standard_normal((d + 1, d + 1)) * rng.random(d + 1) ** 3
        c = factor @ factor.T
        bound = sol.variance(c, 1000).bound
        points = [solve(sol.program(rng.standard_normal(d))).theta for _ in range(10)]
        points += list(inside + 0.3 * rng.standard_normal((200, d)))
        program, met = sol.program(np.zeros(d)), 0
        for theta in points:
            v = np.array([1.0, *theta])
            feasible = np.linalg.norm(theta) <= radius + 1e-9 and (program.rows @ theta <= program.rhs + 1e-9).all()
            if feasible and (np.abs(program.forms @ v).min(axis=-1) <= program.tol + 1e-8).all():
                met += 1
                assert v @ c @ v <= bound * (1 + 1e-6)
        assert met >= 10
        assert bound <= Sol(d, radius).variance(c, 1000).bound * (1 + 1e-9)


def test_the_variance_along_one_direction_is_exact():
    assert Sol(1, 3.0).variance(np.ones((2, 2)), 100).bound == pytest.approx(16.0, rel=1e-5)  # (1 + θ)² at θ = 3
    sol = Sol(1, 3.0)
    sol.values(Place(0, 0), np.array([1.0]), -1.0, 2.0)
    assert sol.variance(np.ones((2, 2)), 100).bound == pytest.approx(9.0, rel=1e-5)
    assert sol.variance(np.zeros((2, 2)), 100).bound == 0.0


def test_a_search_that_overshoots_its_limit_of_nodes_ends(monkeypatch):
    """Limits are checked every few nodes: what is left of the limit may turn out negative."""
    monkeypatch.setattr("tensorplan.planners.tensorplan.sol.CHUNK", 30)
    rng = np.random.default_rng(0)
    sol = Sol(8, 3.0)
    for _ in range(40):
        sol.disjunction(Place(0, 0), rng.standard_normal((3, 9)), 0.01)
    sol.aim(rng.standard_normal(8))
    found = sol.optimum(40)
    assert found.status == "limit"
    assert 40 <= found.nodes < 200


# ------------------------------------------------------------------------------------------ rows


class Coin:
    """The first step wins everything or nothing: R + v*(S') is H with probability p, else 0.  Actions are alike."""

    horizon, actions = 4, 2

    def __init__(self, p):
        self.p = p

    def start(self, rng):
        return 0

    def step(self, state, action, rng):
        won = rng.random() < self.p if state == 0 else state == 1
        return float(won), 1 if won else 2

    def step_batch(self, state, action, n, rng):
        won = rng.random(n) < self.p if state == 0 else np.full(n, state == 1)
        return won.astype(float), [1, 2], 1 - won.astype(int)

    def problem(self):
        """θ* = 3 is at the end of the ball, so that the variance over the ball is the one at θ*."""
        value = {0: lambda stage: 4 * self.p, 1: lambda stage: 4.0 - stage, 2: lambda stage: 0.0}
        return tp.Problem(self, lambda state, stage: np.array([value[state](stage) / 3]), bound=3.0, name="coin")


@pytest.mark.parametrize(
    ("p", "n", "alpha", "measurements"), [(0.5, 200, 0.01, 2000), (0.05, 10 * measuring.CHEAP, 0.005, 500)]
)
def test_rows_hold_for_the_true_parameter_as_often_as_stated(p, n, alpha, measurements):
    """Hoeffding where it is tight, and Bernstein with the variance over Sol.

    Claim: |l_a(θ*)| is above its radius with probability <= α.  With half of the radius it would be 10% of 4,000 for
    the first and 2.8% of 1,000 for the second; both would be noticed with probability above 0.999.
    """
    plan = planning(Coin(p).problem(), delta=1.0)
    true, outside, outside_half = np.array([1.0, 3.0]), 0, 0
    for _ in range(measurements):
        plan.surveyor.sol = sol = Sol(1, 3.0)
        plan.surveyor.measure(plan.root, n, 1, alpha, true)
        sizes = np.abs(sol.forms[0] @ true)
        outside += np.count_nonzero(sizes > sol.tol[0])
        outside_half += np.count_nonzero(sizes > sol.tol[0] / 2)
        # T1 is one side of the same event
        broken = np.array(sol.rows[:2]) @ [3.0] > np.array(sol.rhs[:2]) + 1e-12
        assert not (broken & (sizes <= sol.tol[0])).any()
    assert outside < too_many(2 * measurements, alpha)
    assert outside_half >= too_many(2 * measurements, alpha)


def test_the_probabilities_of_all_failures_in_a_run_add_up_to_what_is_stated(monkeypatch):
    """Of a whole session: 30 episodes from many start states, with random budgets and callbacks that stop early."""
    looks, rows = {}, []

    def look(values, least, alpha):
        looks[id(values)] = (values, alpha)  # a policy's bound holds at all looks at its returns together
        return original_look(values, least, alpha)

    def row(self, moments, action, width, alpha):
        rows.append(alpha)
        return original_row(self, moments, action, width, alpha)

    original_look, original_row = evaluation.betting_lower_bound, measuring.Surveyor._radius
    monkeypatch.setattr(evaluation, "betting_lower_bound", look)
    monkeypatch.setattr(measuring.Surveyor, "_radius", row)
    dice = np.random.default_rng(0)
    session, zeta = tp.TensorPlan(delta=0.5, callback=lambda it: dice.random() < 0.2).session(), 0.5 / (2 * 5)
    problem, settled = many_starts(), 0
    for seed in range(30):
        budget = int(dice.integers(1000, 100_000)) if dice.random() < 0.5 else None
        policy = session.begin(local(problem, seed=seed, budget=budget), np.random.default_rng(0))
        certificate, value = policy.certificate, problem.optimal_value(policy.player.access.root.key)
        assert certificate.failure == pytest.approx(zeta)
        assert certificate.lower_failure == certificate.upper_failure == pytest.approx(zeta / 2)
        assert contains(certificate, value)
        settled += certificate.status == "certified"
    alphas = [alpha for _, alpha in looks.values()]
    assert zeta / 8 <= sum(alphas) <= zeta / 2
    assert zeta / 4 <= sum(rows) <= zeta / 2
    assert min(len(alphas), len(rows)) > 20
    assert 5 <= settled < 30


def test_rows_rest_on_samples_that_were_drawn_for_them_alone(monkeypatch):
    """What a row says is the mean of one batch of answers, not pooled with a pilot's or an earlier measurement's."""
    batches = []

    def spy(access, node, n, discount, record):
        moments = original(access, node, n, discount, record)
        batches.append(unit(moments.deltas(node.phi_v)))
        return moments

    def unit(forms):  # forms are scaled
        return forms / np.linalg.norm(forms, axis=1, keepdims=True)

    original = queries.sample_moments
    monkeypatch.setattr(queries, "sample_moments", spy)
    policy = begin(tp.make("layered-stochastic/2x3", seed=1), delta=0.5)
    assert len(policy.sol.forms) > 5
    assert all(any(np.allclose(unit(forms), batch, atol=1e-12) for batch in batches) for forms in policy.sol.forms)
