"""Measured states: samples, moments, and rows that hold as often as stated."""

import math
from dataclasses import replace

import numpy as np
import pytest
from certified_runs import Plain, contains, many_starts, planning, too_many
from helpers import local

import tensorplan as tp
from tensorplan.core.intervals import bernstein_radius, hoeffding_radius
from tensorplan.planners.certified import bets, measuring
from tensorplan.planners.certified.box import Box
from tensorplan.planners.certified.measuring import Measured, spread_directions, write_rows
from tensorplan.planners.certified.sums import Case
from tensorplan.planners.certified.table import Estimate
from tensorplan.planners.evidence import approx_td, evaluation
from tensorplan.planners.evidence.ledger import Ledger
from tensorplan.planners.evidence.place import Place
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
    moments = approx_td.sample_moments(access, access.root, [200, 200], 0.9)
    more = approx_td.sample_moments(access, access.root, [50, 50], 0.9)
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


def test_actions_that_share_their_noise_differ_less():
    """The same steps for both actions, but for a reward of 0.1 more for one of them."""

    class Twins:
        horizon, actions = 3, 2

        def start(self, rng):
            return 0

        def step(self, state, action, rng):
            return 0.1 * action + 0.8 * float(rng.random() < 0.5), state + 1

    problem = tp.Problem(Twins(), lambda state, stage: np.array([1.0]), bound=3.0, name="twins")
    access = local(problem)
    shared, apart = (
        [approx_td.sample_moments(access, access.root, [20, 20], shared=how).sums[:, 0] / 20 for _ in range(200)]
        for how in (True, False)
    )
    assert np.ptp(np.diff(shared)) < 1e-9
    assert np.std(np.diff(apart)) > 0.05
    assert np.mean(shared) == pytest.approx(np.mean(apart), abs=0.05)
    assert np.std(np.array(shared)[:, 0]) == pytest.approx(np.std(np.array(apart)[:, 0]), rel=0.3)


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


@pytest.mark.parametrize(("p", "alpha"), [(0.5, 0.1), (0.05, 0.1)])
def test_rows_hold_for_the_true_parameter_at_all_sample_sizes_as_often_as_stated(p, alpha):
    """Claim: T1 of an action or T3 fails at one of 8 sample sizes with probability <= α.

    With a third of the radii it would be more than 20% of the 400, and be noticed with probability above 0.999.
    """
    plan, true, runs = planning(Coin(p).problem(), delta=1.0), np.array([1.0, 3.0]), 400
    broken = broken_third = 0
    for _ in range(runs):
        estimate = Estimate(plan.access.root, 2, plan.root.width)
        plan.table.draw(estimate, [8, 8])
        state = Measured.begin(estimate, 1, alpha, np.full(2, 0.05))
        outside, outside_third = False, False
        for n in (4, 8, 16, 32, 64, 128, 256, 512):
            plan.table.draw(estimate, [n, n])
            values, radii = state.deltas @ true, state.radii(plan.measurements.box)
            outside |= bool((values > radii).any() or (values < -radii).all())
            outside_third |= bool((values > radii / 3).any() or (values < -radii / 3).all())
            sol = Sol(1, 3.0)
            write_rows(sol, [], [state], plan.measurements.box, lambda stage: (0.0, 4.0))
            assert len(sol.rows) == 2
            rows = np.array(sol.rows) @ true[1:] <= np.array(sol.rhs)
            assert rows.all() == bool((values <= radii).all())
            assert (np.abs(sol.forms[0] @ true) <= sol.tol[0]).any() == bool((np.abs(values) <= radii).any())
        broken += outside
        broken_third += outside_third
    assert broken < too_many(runs, alpha)
    assert broken_third >= too_many(runs, alpha)


def test_rows_get_tighter_with_the_box():
    plan = planning(tp.make("layered-stochastic/2x3", seed=1), delta=0.5)
    plan.table.draw(plan.root, [8, 8])
    state = plan.measurements.begin(plan.root, np.full(2, 0.2))
    plan.table.draw(plan.root, [500, 500])
    radius = plan.sol.radius
    ball = state.radii(Box.ball(radius, 3))
    directions = spread_directions([state], 3)
    assert directions.T @ directions == pytest.approx(np.eye(directions.shape[1]), abs=1e-12)
    small = Box.within(directions, np.full(directions.shape[1], 0.9), np.full(directions.shape[1], 1.0), radius)
    assert (state.radii(small) < ball).all()


def test_an_action_without_samples_has_no_rows():
    plan = planning(Coin(0.5).problem(), delta=1.0)
    plan.table.draw(plan.root, [8, 8])
    state = plan.measurements.begin(plan.root, np.full(2, 0.2))
    plan.table.draw(plan.root, [16, 0])
    assert state.counts.tolist() == [16, 0]
    plan.measurements.write()
    kinds = [(source.kind, source.action) for source in plan.sol.row_sources]
    assert kinds == [("high", -1), ("low", -1), ("bellman", 0)]
    assert not plan.sol.forms


def test_rows_rest_on_samples_that_were_drawn_after_the_state_was_chosen():
    plan = planning(Coin(0.5).problem(), delta=1.0)
    plan.table.draw(plan.root, [100, 100])
    state = plan.measurements.begin(plan.root, np.full(2, 0.2))
    assert state.counts.tolist() == [0, 0]
    before = plan.root.moments.sums.copy()
    plan.table.draw(plan.root, [40, 60])
    assert state.counts.tolist() == [40, 60]
    fresh = plan.root.moments.sums - before
    for action, bet in enumerate(state.bets):
        assert bet.all[0].tally.sums == pytest.approx(fresh[action])


def test_the_scatter_is_around_the_mean_of_the_samples_before():
    plan = planning(Coin(0.5).problem(), delta=1.0)
    plan.table.draw(plan.root, [10, 10])
    state = plan.measurements.begin(plan.root, np.full(2, 0.2))
    scatter, means = np.zeros((2, 2)), plan.root.moments.sums[0] / 10
    original = plan.queries.moments
    batches = []
    plan.table.queries.moments = lambda node, counts: batches.append(original(node, counts)) or batches[-1]
    plan.table.draw(plan.root, [30, 0])
    sums, n = means * 10, 10
    for batch in batches:
        scatter += batch.second(0, sums / n)
        sums, n = sums + batch.sums[0], n + int(batch.counts[0])
    assert len(batches) == 2
    np.testing.assert_allclose(state.bets[0].all[0].tally.scatter, scatter)


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


# ------------------------------------------------------------------------------------------ shares


def test_the_probabilities_of_all_failures_in_a_run_add_up_to_what_is_stated(monkeypatch):
    """Of a whole session: 30 episodes from many start states, with random budgets and callbacks that stop early.

    Every bet and every bound on returns that was ever made, with the share that it used.
    """
    looks, rows, sums, taken = {}, {}, {}, {}

    def look(values, least, alpha, stakes):
        looks[id(values)] = (values, alpha)  # a policy's bound holds at all looks at its returns together
        return original_look(values, least, alpha, stakes)

    def bet(self, terms, share, planned):
        original_bet(self, terms, share, planned)
        kept.append(self)
        if len(terms) == 1 and terms[0].tally in getattr(terms[0].about, "tallies", ()):
            rows[id(terms[0].tally)] = share
        elif not copying:
            sums.setdefault(share, []).append(self)  # cases of one sum have one share together

    def quietly(original):
        def copy(self, *arguments):
            copying.append(1)
            try:
                return original(self, *arguments)
            finally:
                copying.pop()

        return copy

    def take(self, kind):
        number, share = original_take(self, kind)
        assert taken.setdefault((kind, number), share) == share
        assert sum((k, n) == (kind, number) for k, n in given) == 0
        given.append((kind, number))
        return number, share

    kept, copying, given = [], [], []
    original_look, original_bet = evaluation.betting_lower_bound, bets.Bet.__init__
    original_take = Ledger.take
    monkeypatch.setattr(evaluation, "betting_lower_bound", look)
    monkeypatch.setattr(bets.Bet, "__init__", bet)
    for record in (measuring.Measured, Case):
        monkeypatch.setattr(record, "copy", quietly(record.copy))
    monkeypatch.setattr(Ledger, "take", take)
    dice = np.random.default_rng(0)
    session, zeta = tp.TensorPlan(delta=0.5, callback=lambda it: dice.random() < 0.1).session(), 0.5 / (2 * 5)
    problem, settled = many_starts(), 0
    for seed in range(30):
        budget = int(dice.integers(1000, 100_000)) if dice.random() < 0.5 else None
        policy = session.begin(local(problem, seed=seed, budget=budget), np.random.default_rng(0))
        certificate, value = policy.certificate, problem.optimal_value(policy.player.access.root.key)
        assert certificate.failure == pytest.approx(zeta)
        assert certificate.lower_failure == certificate.upper_failure == pytest.approx(zeta / 2)
        assert contains(certificate, value)
        settled += certificate.status == "certified"
    actions, policies = 2, [alpha for _, alpha in looks.values()]
    measured = sum(rows.values()) * (actions + 1) / actions  # A bets for A + 1 events
    assert zeta / 32 <= measured <= zeta / 8
    assert zeta / 32 <= sum(sums) <= 3 * zeta / 8
    assert zeta / 8 <= sum(policies) <= zeta / 2
    assert sum(taken.values()) <= zeta
    assert set(sums) <= {share for (kind, _), share in taken.items() if kind == "sum"}
    assert min(len(rows), len(policies)) > 10
    assert 3 <= settled < 30
