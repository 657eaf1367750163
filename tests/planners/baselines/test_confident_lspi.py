"""Near-optimal where q^π is linear for all π, whatever the number of states; without guarantee where only q* is."""

import math
from dataclasses import replace

import numpy as np
import pytest
from helpers import Walk, local, problem
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorplan as tp
from tensorplan.planners.baselines import confident_lspi
from tensorplan.planners.baselines.confident_lspi import ConfidentLSPI, Core, core_bound
from tensorplan.problems.random.layered import random_layered
from tensorplan.problems.tables.reachable import explore
from tensorplan.testing import check_planner, check_problem, tabular_mdps


def one_hot(mdp):
    """Features under which q^π is linear for every policy: one coordinate per pair."""
    size = max(len(mdp.states(h)) for h in range(mdp.horizon)) * mdp.actions

    def phi_q(state, stage):
        first = mdp.index(state, stage) * mdp.actions
        return np.eye(size)[first : first + mdp.actions]

    return tp.Problem(mdp, None, phi_q, bound=mdp.horizon * math.sqrt(size), solution=tp.solve_tabular(mdp))


def plan(task, seed=0, **options):
    access = local(task, seed)
    return access, ConfidentLSPI(**options).begin(access, np.random.default_rng(seed))


def values(task, access, policy):
    """Exact values of the greedy policy of a table."""
    mdp = task.mdp
    actions = [np.array([policy.act(access._admit(s, h)) for s in mdp.states(h)]) for h in range(mdp.horizon)]
    return tp.evaluate_tabular(mdp, actions)


# ------------------------------------------------------------------------------------------- the core set


@given(st.integers(1, 60), st.floats(0.01, 20.0), st.floats(-12, 0))
def test_core_bound_is_the_largest_n(d, threshold, exponent):
    ridge = 10.0**exponent / threshold  # at most 1/τ, as the planner has it
    n = core_bound(d, threshold, ridge)
    holds = [k * math.log1p(threshold) <= d * math.log1p(k * (1 + 1e-9) ** 2 / (d * ridge)) for k in range(n + 50)]
    assert all(holds[: n + 1])
    assert not any(holds[n + 1 :])


@pytest.mark.parametrize("ridge", [1e-9, 1e-6, 1e-2])
def test_root_and_weights_agree_with_plain_linear_algebra(ridge):
    """And the estimates with their error bound, sqrt(τ) (sqrt(λ) ‖w‖ + ε sqrt(n)) where the uncertainty is τ."""
    rng = np.random.default_rng(0)
    d, core = 6, Core(6, ridge)
    rows = rng.standard_normal((15, d))
    rows /= 1.5 * np.linalg.norm(rows, axis=1, keepdims=True)
    truth, noise = 3 * rng.standard_normal(d), rng.uniform(-0.1, 0.1, 15)
    for row, q in zip(rows, rows @ truth + noise, strict=True):
        core.add(_Features(row[None]), 0)
        core.pairs[-1].total, core.pairs[-1].count = 7 * q, 7
    core.fit()
    matrix = ridge * np.eye(d) + rows.T @ rows
    assert core.weights == pytest.approx(np.linalg.solve(matrix, rows.T @ (rows @ truth + noise)), rel=1e-7)
    others = rng.standard_normal((50, d))
    uncertainty = core.uncertainty(others)
    assert uncertainty == pytest.approx(np.einsum("ad,de,ae->a", others, np.linalg.inv(matrix), others), rel=1e-7)
    limits = np.sqrt(uncertainty) * (math.sqrt(ridge) * np.linalg.norm(truth) + 0.1 * math.sqrt(15))
    assert (np.abs(others @ (core.weights - truth)) <= limits).all()


class _Features:
    def __init__(self, phi_q):
        self.phi_q = phi_q


@pytest.mark.parametrize("threshold", [0.2, 1.0, 5.0])
def test_core_sets_stay_within_their_bound_and_leave_nothing_uncertain(threshold):
    """τ = 0.2 takes the same pair more than once."""
    for seed in range(3):
        task = tp.make("layered-stochastic/3x4", kind="q", horizon=6, states=30, seed=seed)
        access, policy = plan(task, seed, rollouts=10, threshold=threshold, ridge=1e-3)
        assert policy.bound == core_bound(4, threshold, 1e-3)
        for h, core in enumerate(policy.cores):
            phi = [pair.node.phi_q[pair.action] for pair in core.pairs]
            matrix = 1e-3 * np.eye(4) + np.transpose(phi) @ phi
            assert 1 <= len(core.pairs) <= policy.bound
            for i, row in enumerate(phi):  # each was uncertain when it came
                earlier = 1e-3 * np.eye(4) + np.transpose(phi[:i]) @ phi[:i] if i else 1e-3 * np.eye(4)
                assert row @ np.linalg.solve(earlier, row) > threshold * (1 - 1e-9)
            for state in task.mdp.states(h):
                node = access._nodes.get((h, state))
                if node is not None and node.note is not None:  # each state that a rollout has visited
                    inverse = np.linalg.solve(matrix, node.phi_q.T)
                    assert np.einsum("ad,da->a", node.phi_q, inverse).max() <= threshold * (1 + 1e-9)
    distinct = {(id(pair.node), pair.action) for pair in policy.cores[0].pairs}
    assert (len(distinct) < len(policy.cores[0].pairs)) == (threshold < 1)


def test_a_core_set_that_outgrows_its_bound_is_an_error(monkeypatch):
    monkeypatch.setattr(confident_lspi, "core_bound", lambda d, threshold, ridge: 2)
    with pytest.raises(tp.TensorplanError) as error:
        plan(one_hot(tp.TabularMDP(np.ones((1, 3, 1)), np.ones((1, 3)), horizon=2)))
    assert str(error.value) == (
        "the core set of stage 0 of problem 'problem' outgrows its bound of 2 pairs, "
        "which is impossible but for rounding: ridge=1e-06 is too small for double precision"
    )


# ------------------------------------------------------------------------- q^π linear for every policy


@settings(max_examples=60)
@given(tabular_mdps(deterministic=True))
def test_it_is_optimal_on_tables_without_chance(mdp):
    task = one_hot(mdp)
    (episode,) = tp.run(task, ConfidentLSPI()).episodes
    assert episode.total_reward >= task.optimal_value(episode.start) - 1e-4
    assert episode.certificate is None
    assert episode.queries[0] <= mdp.actions * sum(len(mdp.states(h)) for h in range(mdp.horizon))
    assert sum(episode.queries[1:]) == 0


@pytest.mark.parametrize("seed", range(10))
def test_what_it_measures_are_values_of_its_own_policy(seed):
    """Whatever the features: what was measured before later stages got other weights is not kept.  No chance here."""
    rng = np.random.default_rng(seed)
    mdp = random_layered(rng, 3, 20, 6, 1, False)
    table = rng.standard_normal((6 * 20, 3, 4))
    table /= np.linalg.norm(table, axis=-1, keepdims=True)
    task = tp.Problem(mdp, None, lambda state, stage: table[state], bound=6.0)
    access, policy = plan(task, seed)
    exact = values(task, access, policy)
    for h, core in enumerate(policy.cores):
        for pair in core.pairs:
            assert pair.total == pytest.approx(exact.action_value(pair.node.key, pair.action, h))


@settings(max_examples=25)
@given(tabular_mdps(max_states=3, max_actions=2, max_horizon=3), st.integers(0, 99))
def test_its_weights_are_values_of_its_own_policy(mdp, seed):
    """A mean of 2000 returns is within H sqrt(ln(2/p)/4000) but for probability p; here p = 1e-6."""
    task = one_hot(mdp)
    access, policy = plan(task, seed, rollouts=2000)
    exact = values(task, access, policy)
    for h, core in enumerate(policy.cores):
        for pair in core.pairs:
            q = exact.action_value(pair.node.key, pair.action, h)
            assert abs(core.weights @ pair.node.phi_q[pair.action] - q) <= mdp.horizon * (1e-5 + 0.0603)


def test_it_is_near_optimal_on_noisy_tables():
    """Fixed seeds; the loss vanishes as the rollouts grow."""
    losses = {10: [], 400: []}
    for seed in range(6):
        task = one_hot(random_layered(np.random.default_rng(seed), 3, 5, 5, 3, True))
        for rollouts, found in losses.items():
            access, policy = plan(task, seed, rollouts=rollouts)
            found.append(task.optimal_value(0) - values(task, access, policy).value(0, 0))
    assert max(losses[400]) <= 0.05
    assert np.mean(losses[400]) < np.mean(losses[10]) / 3


class LinearMDP:
    """φ(s, a) in the simplex, P(.|s, a) = Σ_i φ_i(s, a) ψ_i, mean reward <φ(s, a), ρ>: so q^π is linear for all π.

    ψ_i is uniform over the states j of the next stage with j mod d = i.  A state is (stage, j).
    """

    def __init__(self, states, actions=3, d=4, horizon=6, seed=0):
        rng = np.random.default_rng(seed)
        self.horizon, self.actions, self.d, self.width = horizon, actions, d, states
        self.rho = rng.random((horizon, d))
        leaning = 0.2 + 2 * np.eye(d)[(np.arange(states)[:, None] + rng.permutation(actions * d)[:actions]) % d]
        weights = rng.standard_gamma(leaning, (horizon, states, actions, d))
        self.phi = weights / weights.sum(axis=-1, keepdims=True)

    def start(self, rng):
        return (0, 0)

    def step(self, state, action, rng):
        phi = self.phi[state][action]
        reward = float(rng.random() < phi @ self.rho[state[0]])
        i = int(np.searchsorted(np.cumsum(phi)[:-1], rng.random()))
        return reward, (state[0] + 1, i + self.d * int(rng.integers(self.width // self.d)))

    def value(self, weights=None):
        """v*(s0), or the value of the policy that is greedy for the weights (H, d), by backward induction."""
        ahead = np.zeros(self.d)  # E v over ψ_i, per i
        for h in reversed(range(self.horizon)):
            q = self.phi[h] @ (self.rho[h] + ahead)
            choice = np.argmax(q if weights is None else self.phi[h] @ weights[h], axis=1)
            v = np.take_along_axis(q, choice[:, None], axis=1)[:, 0]
            ahead = v.reshape(-1, self.d).mean(axis=0)
        return v[0]

    def problem(self):
        return tp.Problem(self, None, lambda state, stage: self.phi[state], bound=2.0 * self.horizon * self.d)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_queries_do_not_depend_on_the_number_of_states(seed):
    queries, sizes = [], []
    for states in (40, 20_000):
        mdp = LinearMDP(states, seed=seed)
        access, policy = plan(mdp.problem(), seed, rollouts=200)
        weights = np.array([core.weights for core in policy.cores])
        assert mdp.value(weights) >= mdp.value() - 0.1  # random weights lose more than 1
        node = access._admit((2, 7), 2)
        assert policy.act(node) == np.argmax(mdp.phi[2, 7] @ weights[2])
        sizes.append(max(len(core.pairs) for core in policy.cores))
        queries.append(access.spent)
    assert max(sizes) <= policy.bound
    assert queries[1] <= 1.5 * queries[0]
    n, H = policy.bound, mdp.horizon
    assert max(queries) <= (H * n + 1) * n * 200 * H * (H + 1) // 2  # each restart measures everything at most


def test_queries_are_counted_as_the_pseudocode_says():
    """One state per stage: H - 1 queries discover them, then stage h is measured by A m rollouts of H - h steps."""

    class Corridor:
        horizon, actions = 5, 3

        def start(self, rng):
            return "x"

        def step(self, state, action, rng):
            return float(rng.random() < (0.1, 0.1, 0.9)[action]), "x"

    task = tp.Problem(Corridor(), None, lambda state, stage: np.eye(3), bound=10.0)
    access, policy = plan(task, rollouts=40)
    assert access.spent == 4 + 3 * 40 * (5 + 4 + 3 + 2 + 1)
    assert [len(core.pairs) for core in policy.cores] == [3] * 5
    assert [policy.act(access._admit("x", h)) for h in range(5)] == [2] * 5
    assert access.spent == 4 + 3 * 40 * 15  # acting is free


def test_early_ends_are_fine():
    ends = tp.TabularMDP(np.array([[[0.5, 0.5], [0.0, 1.0]]]), np.array([[0.4, 0.9]]), horizon=3, noise=True)
    task = one_hot(ends)
    access, policy = plan(task, rollouts=2000)
    assert values(task, access, policy).value(0, 0) == task.optimal_value(0)


# -------------------------------------------------------------------------------------- only q* is linear


class Amplifier:
    """q* is linear and nothing is random, but a wrong choice at Y_h makes one at Y_{h-1} that costs 2.8 times as much.

    From F_h one gets to F_{h+1}, to X_{h+1,1}, .., X_{h+1,4} or to Z_{h+1}.  All X_h lead to Y_{h+1}, where action 0 is
    right and all others cost Δ_{h+1}.  The features of Y_h are combinations of those of X_h and Z_h, so that Y_h is
    never uncertain.  If the X_h look worse than they are by e, action 0 looks worse by 3.1 e than others at Y_h.
    """

    horizon, actions, reward_range = 19, 6, (-2.0, 1.0)
    deterministic_transitions = deterministic_rewards = True
    theta = np.array([1.0, *4 * [0.25], -0.775, *4 * [0.225], -0.775])  # Z, X_1 .. X_4, the actions of F

    def gap(self, stage):
        return 0.8 * 2.8 ** (2 - stage)

    def start(self, rng):
        return ("F", 0)

    def step(self, state, action, rng):
        kind, stage = state[:2]
        last = stage == self.horizon - 1
        if kind == "F":
            promised = self.theta[5 + action]
            if last:
                return promised, tp.END
            if action == 0:
                return promised - 0.225, ("F", stage + 1)
            following = ("X", stage + 1, action) if action < 5 else ("Z", stage + 1)
            return promised - (0.225 if action < 5 else 1.0), following
        if kind == "X":
            return 0.225, tp.END if last else ("Y", stage + 1)
        if kind == "Z":
            return 1.0, tp.END
        return (0.0 if action == 0 else -self.gap(stage)), tp.END

    def phi_q(self, state, stage):
        unit = np.eye(11)
        if state[0] == "F":
            return unit[5:]
        if state[0] == "X":
            return np.tile(0.9 * unit[state[2]], (6, 1))
        if state[0] == "Z":
            return np.tile(unit[0], (6, 1))
        up = 0.35 * unit[1:5].sum(axis=0)
        return np.array([up - 0.35 * unit[0], *5 * [(0.35 - self.gap(stage)) * unit[0] - up]])


def test_where_only_q_star_is_linear_errors_grow_from_stage_to_stage():
    """The ridge errs by 1e-7 at the last stage, the policy by 0.8 at the first, where no choice loses more than 1."""
    mdp = Amplifier()
    task = tp.Problem(mdp, None, mdp.phi_q, bound=2.0, name="amplifier", theta=mdp.theta)
    task = replace(task, solution=explore(task))
    check_problem(task)
    assert task.optimal_value(("F", 0)) == pytest.approx(0.225)
    (lost,) = tp.run(task, ConfidentLSPI()).episodes
    (spared,) = tp.run(task, ConfidentLSPI(ridge=1e-12)).episodes
    assert lost.total_reward == pytest.approx(0.225 - 0.8)
    assert spared.total_reward == pytest.approx(0.225)  # 1e-13 has not grown to anything after 19 stages


# ------------------------------------------------------------------------------------ refusals and limits


def test_refusals_come_before_any_query():
    with pytest.raises(tp.Refused, match=r"^confident LSPI plans with phi_q, and problem 'walk' has none$"):
        tp.run(problem(), ConfidentLSPI(), budget=0)
    endless = problem(Walk(horizon=None), None, phi_q=lambda state, stage: np.eye(2))
    with pytest.raises(tp.Refused, match=r"^confident LSPI needs a horizon, and problem 'walk' has none$"):
        tp.run(endless, ConfidentLSPI(), budget=0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"rollouts": 0}, "rollouts must be a whole number >= 1, got 0"),
        ({"threshold": 0.0}, "threshold must be positive, got 0.0"),
        ({"ridge": -1}, "ridge must be a number >= 0, got -1"),
        ({"ridge": 0}, "ridge must be positive, got 0"),
        (
            {"threshold": 10.0, "ridge": 0.1},
            "threshold times ridge must be below 1, got 10 times 0.1: "
            "features have norm 1 at most, so no pair would ever be uncertain",
        ),
    ],
)
def test_bad_parameters(options, sentence):
    with pytest.raises(tp.BadInput) as error:
        ConfidentLSPI(**options)
    assert str(error.value) == sentence


@pytest.mark.parametrize("budget", [0, 3, 1000, 10_000])
def test_a_spent_budget_leaves_the_weights_so_far(budget):
    task = one_hot(random_layered(np.random.default_rng(0), 3, 5, 5, 3, True))
    run = tp.run(task, ConfidentLSPI(rollouts=200), budget=budget)
    (episode,) = run.episodes
    assert budget - 200 < episode.queries[0] <= budget
    assert episode.complete
    assert episode.steps == 5
    assert (episode.certificate.lower, episode.certificate.upper, episode.certificate.status) == (0.0, 5.0, "budget")


def test_an_interrupt_leaves_a_usable_policy():
    class Impatient(Walk):
        asked = 0

        def step(self, state, action, rng):
            self.asked += 1
            if self.asked == 500:
                raise KeyboardInterrupt
            return float(action), state + action

    task = problem(Impatient(), None, phi_q=lambda state, stage: np.eye(2))
    run = tp.run(task, ConfidentLSPI(), episodes=3)
    (episode,) = run.episodes
    assert run.interrupted
    assert episode.certificate.status == "interrupted"
    assert episode.complete
    assert episode.queries[0] == 500
    assert episode.actions[-1] == 1  # the last stages had been measured


def test_it_does_what_every_planner_must():
    check_planner(ConfidentLSPI(rollouts=5))
