"""BiLin-UCB on problems whose optimal values are known; its hypotheses against enumeration; where it must fail.

Statistical tests have fixed seeds.  A certificate of a random problem may be wrong with probability ζ <= 0.05, and
``too_many(n)`` wrong ones among n have a probability of at most 1e-6.
"""

import itertools
import math

import numpy as np
import pytest
from helpers import problem as walk
from scipy import stats

import tensorplan as tp
from tensorplan.optimism import solve
from tensorplan.planners.bilin_ucb import hypotheses as bilin_program
from tensorplan.planners.bilin_ucb.planner import BiLinUCB
from tensorplan.planners.bilin_ucb.constants import bilin_constants, critical_gain
from tensorplan.planners.bilin_ucb.hypotheses import Hypotheses, Rollouts
from tensorplan.planners.bilin_ucb.planning import slab_radii, slab_width
from tensorplan.planners.evidence.place import Place
from tensorplan.testing import check_planner


def too_many(n, p=0.05):
    return int(stats.binom.isf(1e-6, n, p)) + 1


def everywhere(task, seed=0, **options):
    rng = np.random.default_rng(seed)
    return tp.GlobalAccess(task, task.mdp.start(rng), rng, **options)


def plan(task, planner=None, seed=0, **options):
    access = everywhere(task, seed, **options)
    return access, (planner or BiLinUCB()).begin(access, np.random.default_rng(seed))


def value(task, access, policy):
    """v^π(s0) by backward induction over the whole table."""
    table = [[policy.act(access.node(s, h)) for s in task.mdp.states(h)] for h in range(task.horizon)]
    return tp.evaluate_tabular(task.mdp, table).value(access.root.key, 0)


def small(seed, *, few=False, **options):
    """Both maps are right at every state; with ``few`` there are so few of them that (C) leaves much open."""
    rng = np.random.default_rng(seed)
    sizes = {"actions": int(rng.integers(2, 5)), "horizon": int(rng.integers(2, 5)), "kind": "vq", "seed": seed}
    sizes |= {"d": int(rng.integers(6, 10)), "states": 2} if few else {"d": int(rng.integers(2, 5))}
    if not few:
        sizes["states"] = int(rng.integers(5, 11))
    return tp.make("layered", **{**sizes, **options})


def holds(hypotheses, theta):
    """Whether θ satisfies every row and every disjunction of the program so far, tolerances included."""
    sol = hypotheses.sol
    rows = all(row @ theta <= bound for row, bound in zip(sol.rows, sol.rhs, strict=True))
    one = np.concatenate([[1.0], theta])
    return rows and all(np.abs(f @ one).min() <= tol for f, tol in zip(sol.forms, sol.tol, strict=True))


# ------------------------------------------------------------------------------------------------- soundness


@pytest.mark.parametrize("few", [False, True])
def test_deterministic_problems_are_solved_exactly_by_at_most_d_plus_1_policies(few):
    tried = []
    for seed in range(25):
        task = small(seed, few=few)
        access, policy = plan(task)
        best = task.optimal_value(0)
        assert value(task, access, policy) == pytest.approx(best, abs=1e-6)
        certificate = policy.certificate
        assert (certificate.status, certificate.failure) == ("certified", 0.0)
        assert certificate.lower - 1e-9 <= best <= certificate.upper + 1e-9
        assert certificate.gap <= 1e-4
        tried.append(policy.hypotheses.policies)
        assert tried[-1] <= task.dimension + 1
        assert access.spent <= 1.1 * tried[-1] * task.horizon + 1
    assert not few or max(tried) > 2  # the first one is not always right


@pytest.mark.parametrize(("branching", "noise"), [(3, False), (1, True), (3, True)])
@pytest.mark.parametrize("few", [False, True])
def test_random_problems_are_solved_within_delta_and_theta_is_never_cut_off(few, branching, noise):
    delta, n, wrong, losses, tried = 0.3, 9, 0, [], []
    for seed in range(n):
        task = small(seed, few=few, branching=branching, noise=noise)
        access, policy = plan(task, BiLinUCB(delta=delta), seed)
        best, reached, certificate = task.optimal_value(0), value(task, access, policy), policy.certificate
        assert certificate.status == "certified"
        assert certificate.gap <= delta / 2
        low, high = task.return_range()
        assert certificate.failure == pytest.approx(delta / (2 * (high - low)))
        bracketed = certificate.lower <= reached and best <= certificate.upper + 1e-9
        wrong += not (bracketed and holds(policy.hypotheses, task.theta))
        losses.append(best - reached)
        tried.append(policy.hypotheses.policies)
    assert wrong < too_many(n, delta / (2 * 2))
    assert np.mean(losses) <= delta
    assert max(tried) > 1


def test_theta_is_never_cut_off_where_nothing_is_random():
    for seed in range(25):
        for few in (False, True):
            task = small(seed, few=few)
            _, policy = plan(task)
            assert holds(policy.hypotheses, task.theta)
            assert not holds(policy.hypotheses, 0.9 * task.theta)  # and little else is left


def test_the_radii_hold_and_are_not_generous():
    """x_h at θ* against e_h for coins of mean 1/2: within, and a quarter of it would not do."""
    mdp = tp.TabularMDP(np.ones((1, 2, 1)), [[0.5, 0.5]], horizon=1, noise=True)
    task = tp.featurize(mdp, 2, kind="vq")
    ratios = []
    for seed in range(200):
        access = everywhere(task, seed)
        rollouts = Rollouts(access)
        rollouts.extend(task.theta, 64, lambda n: None)
        off = abs(float(rollouts.means[0] @ np.concatenate([[1.0], task.theta])))
        ratios.append(off / slab_radii(access, 64, 0.05)[0])
    assert sum(ratio > 1 for ratio in ratios) < too_many(200)
    assert sum(ratio > 0.25 for ratio in ratios) > too_many(200)
    # the range of R + v*(S') at stage h is 1 + (H - h - 1), whatever is declared about rewards
    task = small(0, branching=3, horizon=3)
    assert [slab_width(everywhere(task), h) for h in range(3)] == [3.0, 2.0, 1.0]
    task = small(0, noise=True, horizon=3)
    assert [slab_width(everywhere(task), h) for h in range(3)] == [1.0, 1.0, 1.0]


# ------------------------------------------------------------------------------------------------- data


def test_discrepancies_telescope():
    """With (C), Σ_h of the mean ℓ is the promise minus the mean return, sample by sample; early END included."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        steps = [rng.dirichlet(np.ones(5), (4, 2)) for _ in range(3)]  # the last column is END
        rewards = [rng.random((4, 2)) for _ in range(3)]
        task = tp.featurize(tp.TabularMDP([*steps[:2], None], rewards, horizon=3, noise=True), 4, kind="vq")
        access = everywhere(task, seed)
        rollouts = Rollouts(access)
        rollouts.extend(task.theta, 50, lambda n: None)
        rollouts.extend(task.theta, 30, lambda n: None)
        total = float((rollouts.means @ np.concatenate([[1.0], task.theta])).sum())
        assert total == pytest.approx(task.optimal_value(0) - rollouts.total / 80, abs=1e-9)
        assert access.spent < 80 * 3  # some ended early


def test_rollouts_are_those_of_the_greedy_policy():
    """The mean return, its variance and the x_h against exact expectations of a Markov chain."""
    task = small(3, branching=3, noise=True, horizon=3)
    rng = np.random.default_rng(0)
    theta = task.theta + 0.5 * rng.standard_normal(task.dimension)  # some other policy
    access, n = everywhere(task), 40_000
    rollouts = Rollouts(access)
    rollouts.extend(theta, n, lambda n: None)
    weights, value_, x = np.eye(len(task.mdp.states(0)))[0], 0.0, []
    for h in range(3):
        states = list(task.mdp.states(h))
        actions = [int(np.argmax(task.phi_q(s, h) @ theta)) for s in states]
        row = np.zeros(task.dimension + 1)
        ahead = np.zeros(len(task.mdp.states(h + 1)) if h < 2 else 0)
        for place, (s, a) in enumerate(zip(states, actions, strict=True)):
            row[0] -= weights[place] * task.mdp.rewards(h)[place, a]
            row[1:] += weights[place] * task.phi_q(s, h)[a]
            if h < 2:
                ahead += weights[place] * task.mdp.matrix(h).toarray()[place * task.actions + a]
        for place, weight in enumerate(ahead):
            row[1:] -= weight * task.phi_v(task.mdp.states(h + 1)[place], h + 1)
        value_ -= row[0]
        x.append(row)
        weights = ahead
    radius = 5 * 3 / math.sqrt(n)  # five standard errors of values in a range of length 3
    assert rollouts.total / n == pytest.approx(value_, abs=radius)
    assert rollouts.means == pytest.approx(np.array(x), abs=radius)
    assert access.spent == 3 * n
    mean = rollouts.total / n
    assert 0.05 < rollouts.squares / n - mean**2 < 9 / 4


@pytest.mark.parametrize("batches", [False, True])
def test_rollouts_keep_episodes_apart(batches):
    """The reward tells where a step leads, and what the next one pays: returns are 0 or 2."""

    class Coin:
        horizon, actions = 2, 1

        def start(self, rng):
            return "start"

        def step(self, state, action, rng):
            coin = float(rng.integers(2)) if state == "start" else float(state == "heads")
            return coin, "heads" if coin else "tails"

        def states(self, stage):
            return ["heads", "tails"] if stage else ["start"]

    class Coins(Coin):
        def step_batch(self, state, action, n, rng):
            rewards = np.array([self.step(state, action, rng)[0] for _ in range(n)])
            return rewards, ["heads", "tails"], (rewards == 0).astype(int)

    features = {"start": 0.5, "heads": 0.5, "tails": 0.0}
    task = tp.Problem(
        Coins() if batches else Coin(),
        lambda s, h: np.array([features[s]]),
        lambda s, h: np.array([[features[s]]]),
        bound=2.0,
        name="coins",
    )
    rollouts = Rollouts(everywhere(task))
    rollouts.extend(np.array([2.0]), 1000, lambda n: None)
    assert 800 < rollouts.total < 1200
    assert rollouts.squares == 2 * rollouts.total
    heads = rollouts.total / 2000
    assert rollouts.means == pytest.approx(np.array([[-heads, 0.5 - 0.5 * heads], [-heads, 0.5 * heads]]))


# ------------------------------------------------------------------------------------------------- hypotheses


class Listed:
    """States 0 .. S-1, all of stage 0."""

    horizon = 1

    def __init__(self, states, actions):
        self.size, self.actions = states, actions

    def start(self, rng):
        return 0

    def step(self, state, action, rng):
        return 0.5, tp.END

    def states(self, stage):
        return range(self.size)


def loose_maps(rng, states, actions, bound):
    """Feature maps in the plane that nobody made right; later states agree with the first one or are indifferent."""
    phi_v, phi_q = np.zeros((states, 2)), np.zeros((states, actions, 2))
    for s in range(states):
        phi_v[s], phi_q[s] = rng.uniform(-0.6, 0.6, 2), rng.uniform(-0.6, 0.6, (actions, 2))
        kind = rng.integers(4)
        if s and kind == 0:  # the same rays
            phi_q[s] = phi_v[s] + 0.5 * rng.random() * (phi_q[0] - phi_v[0])
        elif s and kind == 1:  # one of the actions has the value of the state under any θ
            phi_q[s, rng.integers(actions)] = phi_v[s]
    return tp.Problem(
        Listed(states, actions), lambda s, h: phi_v[s], lambda s, h: phi_q[s], bound=bound, name="plane"
    ), (phi_q - phi_v[:, None])


def ray_optimum(advantages, objective, bound, slabs):
    """max <objective, θ> over (C), the ball and the slabs, by enumeration in the plane; None if there is no θ.

    (C) at a state holds on rays orthogonal to a difference φ_q - φ_v, or on all of a cone where one of these is zero:
    the set is made of 0, rays, and cones between them.  The optimum is on the arc, or where two lines of these meet.
    """
    candidates = [np.zeros(2)]
    normals = [g for g in advantages.reshape(-1, 2) if np.linalg.norm(g) > 0]
    lines = [(g, 0.0) for g in normals] + [(x[1:], b) for x, e in slabs for b in (e - x[0], -e - x[0])]
    for g, b in lines:  # where a line meets the circle
        foot, along = b * g / (g @ g), np.array([-g[1], g[0]]) / np.linalg.norm(g)
        if foot @ foot <= bound**2:
            reach = math.sqrt(bound**2 - foot @ foot)
            candidates += [foot + reach * along, foot - reach * along]
    for (g, b), (k, c) in itertools.combinations(lines, 2):
        if abs(g[0] * k[1] - g[1] * k[0]) > 1e-12:
            candidates.append(np.linalg.solve(np.array([g, k]), np.array([b, c])))
    candidates.append(bound * objective / np.linalg.norm(objective))
    feasible = [
        theta
        for theta in candidates
        if np.linalg.norm(theta) <= bound + 1e-9
        and (np.abs((advantages @ theta).max(axis=1)) <= 1e-9).all()
        and all(abs(x @ [1.0, *theta]) <= e + 1e-9 for x, e in slabs)
    ]
    return max((float(objective @ theta) for theta in feasible), default=None)


def test_the_hypotheses_equal_an_enumeration_in_the_plane():
    outcomes = {"empty": 0, "zero": 0, "more": 0}
    for seed in range(300):
        rng = np.random.default_rng(seed)
        bound = float(rng.uniform(0.5, 3.0))
        task, advantages = loose_maps(rng, int(rng.integers(1, 5)), int(rng.integers(1, 4)), bound)
        hypotheses = Hypotheses(everywhere(task))
        slabs = []
        for _ in range(int(rng.integers(3))):
            x, e = rng.uniform(-0.4, 0.4, 3), float(rng.uniform(0.05, 0.4))
            slabs.append((x, e))
            hypotheses.policies += 1
            hypotheses.learn(x[None], np.array([e]))
        objective, bounds = rng.standard_normal(2), []
        hypotheses.sol.aim(objective)
        found = hypotheses.optimum(bounds.append)
        expected = ray_optimum(advantages, objective, bound, slabs)
        if expected is None:
            assert found.status == "infeasible"
            outcomes["empty"] += 1
            continue
        assert found.status == "optimal"
        assert found.value == pytest.approx(expected, abs=1e-5)
        assert min(bounds) >= expected - 1e-9  # never below, on the way either
        assert hypotheses.violations(found.theta).max() <= 1e-6
        outcomes["more" if abs(expected) > 1e-6 else "zero"] += 1
    assert min(outcomes.values()) >= 30


def test_tangents_make_the_printed_constraint():
    """Σ_i <x_i, [1, θ]>² <= R² by cuts: no θ that satisfies it is cut off, and the optimum is that of a fine grid."""
    indifferent = tp.Problem(
        Listed(1, 1), lambda s, h: np.zeros(2), lambda s, h: np.zeros((1, 2)), bound=2.0, name="indifferent"
    )
    angles = np.linspace(0, 2 * np.pi, 721)
    grid = np.multiply.outer(np.linspace(0, 2, 201), np.array([np.cos(angles), np.sin(angles)]).T).reshape(-1, 2)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        radius = float(rng.uniform(0.2, 0.6))
        hypotheses, objective = Hypotheses(everywhere(indifferent), radius), rng.standard_normal(2)
        hypotheses.sol.aim(objective)
        stack = []
        for _ in range(3):
            stack.append(np.concatenate([[0.03 * rng.standard_normal()], rng.uniform(-0.5, 0.5, 2)]))
            hypotheses.policies += 1
            hypotheses.learn(stack[-1][None])
            found = hypotheses.optimum(lambda bound: None)
            sizes = np.linalg.norm(np.array(stack) @ np.concatenate([np.ones((1, len(grid))), grid.T]), axis=0)
            inside = grid[sizes <= radius]
            assert len(inside)
            rows, rhs = np.array(hypotheses.sol.rows).reshape(-1, 2), np.array(hypotheses.sol.rhs)
            assert (inside @ rows.T <= rhs).all()
            assert hypotheses.discrepancies(found.theta)[0] <= 1.001 * radius + 1e-6
            assert hypotheses.agrees(found.theta)
            assert found.value == pytest.approx((inside @ objective).max(), abs=0.03)
            assert found.value >= (inside @ objective).max() - 1e-9
        assert not hypotheses.agrees(100 * objective)


# ------------------------------------------------------------------------------------------------- as printed


def test_the_printed_algorithm_with_other_constants():
    for seed in range(6):
        task = small(seed, few=True, branching=3, noise=True)
        access, policy = plan(task, BiLinUCB(mode="paper", T=8, m=1000, R=0.3), seed)
        hypotheses = policy.hypotheses
        assert access.spent == 8 * 1000 * task.horizon
        assert hypotheses.policies == 8
        assert policy.certificate is None
        assert hypotheses.discrepancies(task.theta).max() <= 0.3  # R is far larger than the errors
        assert holds(hypotheses, task.theta)
        assert task.optimal_value(0) - value(task, access, policy) <= 0.3
        # the best of them by their returns
        assert policy.mean == pytest.approx(value(task, access, policy), abs=5 * task.horizon / math.sqrt(1000))


def test_the_printed_algorithm_where_nothing_is_random():
    for seed in range(6):
        task = small(seed, few=True)
        access, policy = plan(task, BiLinUCB(mode="paper", R=0.1))
        assert value(task, access, policy) >= task.optimal_value(0) - 0.101 * task.horizon
        assert access.spent <= task.horizon * policy.hypotheses.policies


def test_too_small_a_radius_is_refuted():
    task = small(2, branching=3, noise=True)
    _, policy = plan(task, BiLinUCB(mode="paper", T=2, m=10, R=100.0))
    assert policy.certificate is None
    with pytest.raises(tp.NotRealizable, match=r"if T, m, R are right\): no parameter .*agrees with the rollouts"):
        plan(task, BiLinUCB(mode="paper", T=5, m=10, R=0.0))


def test_the_published_constants_by_hand():
    """d = 2, H = 3, B = 1.5, ε = 0.5, δ = 0.1, every quantity written out once more."""
    c = bilin_constants(2, 3, 1.5, 0.5, 0.1)

    def gain(stages, scale):
        k = 1
        while k < stages * 2 * math.log(1 + k * scale / 2):
            k += 1
        return k

    def at(m):
        gamma = gain(1, 4 * 8 * 1.5**2 * m)
        d_phi = gamma * math.log(1 + 3 * 2 * 1.5 * math.sqrt(m * gamma))
        epsilon_gen = 12 * 3 * math.sqrt(d_phi / m)
        d_x = gain(3, 4 * 1.5**2 / epsilon_gen**2)
        radius = 12 * 3 / math.sqrt(m) * math.sqrt(d_x * d_phi) * math.sqrt(math.log(d_x * 3 / 0.1))
        loss = 3 * 3 * epsilon_gen * (1 + math.sqrt(d_x) * math.sqrt(math.log(d_x * 3 / 0.1)))
        return d_x, radius, loss

    d_x, radius, loss = at(c.m)
    assert (d_x, loss <= 0.5) == (c.T, True)
    assert pytest.approx(radius, rel=1e-9) == c.R
    assert at(c.m - 1)[2] > 0.5
    assert c.trajectories == c.m * c.T
    assert c.queries == 3 * c.m * c.T
    # some t has a loss of at most 2H sqrt((λ B_W² + T ε_gen²)(e - 1)): the bound that was used is not below
    epsilon_gen = radius / math.sqrt(d_x * math.log(d_x * 3 / 0.1))
    assert 2 * 3 * math.sqrt((epsilon_gen**2 + radius**2) * (math.e - 1)) <= loss
    assert (c.T, f"{c.m:.2e}", f"{c.R:.3f}") == (114, "5.18e+11", "0.054")
    # with pencil and paper: d = H = B = m = 1, δ = 0.1.  6 >= ln(1 + 32·6) = 5.26 and 5 < ln(1 + 32·5) = 5.08;
    # d_Φ = 6 ln(1 + 6 sqrt 6) = 16.52; ε_gen = 12 sqrt 16.52 = 48.78; 1 >= ln(1 + 4/48.78²): T = 1; R = 48.78 · 1.5174
    c = bilin_constants(1, 1, 1.0, 0.5, 0.1, m=1)
    assert (c.T, round(c.R, 2)) == (1, 74.01)


def test_the_critical_information_gain():
    for d, scale in [(1, 3.0), (3, 4e6), (10, 1e9)]:
        k = critical_gain(d, 1, scale)
        assert k >= d * math.log(1 + k * scale / d)
        assert k == 1 or k - 1 < d * math.log(1 + (k - 1) * scale / d)
        assert k <= math.ceil(3 * d * math.log(1 + 3 * scale))  # Lemma F.3
    assert critical_gain(1, 1, 1e-3) == 1


def test_given_constants_replace_the_printed_ones():
    c = bilin_constants(2, 3, 1.5, 0.5, 0.1, T=7, m=100)
    assert (c.T, c.m, c.overridden) == (7, 100, ("T", "m"))
    assert bilin_constants(2, 3, 1.5, 0.5, 0.1, R=0.25).R == 0.25
    for options, sentence in [
        ({"epsilon": 3}, "epsilon must lie strictly between 0 and H = 3, got 3"),
        ({"failure": 0.5}, "failure must lie strictly between 0 and 1/3, got 0.5"),
        ({"B": 0}, "B must be positive, got 0"),
        ({"d": 0}, "d must be a whole number >= 1, got 0"),
        ({"T": 0}, "T must be a whole number >= 1, got 0"),
    ]:
        with pytest.raises(tp.BadInput) as error:
            bilin_constants(**{"d": 2, "H": 3, "B": 1.5, "epsilon": 0.5, "failure": 0.1, **options})
        assert str(error.value) == sentence


def test_the_printed_constants_are_refused_with_their_number():
    task = small(1, branching=3, noise=True)
    c = bilin_constants(task.dimension, task.horizon, task.bound, 0.1, 0.2 / (2 * task.horizon))
    access = everywhere(task)
    with pytest.raises(tp.Refused) as error:
        BiLinUCB(mode="paper", delta=0.2).begin(access, np.random.default_rng(0))
    assert str(error.value).startswith(f"BiLin-UCB as printed needs {c.trajectories:.2e} trajectories, up to ")
    assert "more than 1,000,000,000 when no budget is given; override T, m and R" in str(error.value)
    assert access.spent == 0
    with pytest.raises(tp.Refused, match=r"needs 80 trajectories, up to \d+ queries, more than the budget of 50;"):
        plan(task, BiLinUCB(mode="paper", T=8, m=10, R=1.0, budget=50))


# ------------------------------------------------------------------------------------------------- the reach class


@pytest.mark.parametrize("options", [{}, {"branching": 2, "noise": True}])
def test_the_reach_class_is_refuted_though_tensorplan_is_fine(options):
    """θ* breaks (C) at states that no episode can come to, and nowhere else; what is left contradicts the rollouts."""
    for seed in range(8):
        task = small(seed, reach=True, states=10, actions=2, **options)
        access = everywhere(task)
        hypotheses = Hypotheses(access)
        reached, layer = set(), {0}
        for h in range(task.horizon):
            reached |= {Place(h, s) for s in layer}
            pairs = [(s - 10 * h) * 2 + a for s in layer for a in range(2)]
            if h < task.horizon - 1:
                ahead = np.flatnonzero(task.mdp.matrix(h).toarray()[pairs].sum(axis=0))
                layer = {10 * (h + 1) + int(s) for s in ahead}
        broken = {p for p, x in zip(hypotheses.places, hypotheses.violations(task.theta), strict=True) if x > 1e-9}
        assert broken
        assert not broken & reached
        with pytest.raises(tp.NotRealizable) as refuted:
            tp.run(task, BiLinUCB(), seed=seed)
        sentence = str(refuted.value)
        assert "both maps must be right at every state, reachable or not" in sentence
        assert all(f"{state} (stage {stage})" in sentence for stage, state in refuted.value.places[:2])
        assert refuted.value.eta > 0
        (episode,) = refuted.value.run.episodes
        assert (episode.stopped, episode.certificate.status) == ("end", "refuted")
        # with the same features at the states that can be reached, TensorPlan closes its bracket around v*
        (episode,) = tp.run(task, tp.TensorPlan(), seed=seed).episodes
        assert episode.certificate.status == "certified"
        assert episode.certificate.lower - 1e-6 <= task.optimal_value(0) <= episode.certificate.upper + 1e-6


def test_the_states_of_a_refutation_really_conflict():
    """(C) at the named states alone, with the data, leaves no θ; the data alone leave some."""
    task = small(5, reach=True, states=10, actions=2)
    access = everywhere(task)
    with pytest.raises(tp.NotRealizable) as refuted:
        BiLinUCB().begin(access, np.random.default_rng(0))
    sol = refuted.value.policy.hypotheses.sol
    named = {Place(*place) for place in refuted.value.places}
    data = {place for place in sol.row_places if place not in sol.form_places}
    assert named
    assert solve(sol.program(np.zeros(task.dimension), among=named | data)).status == "infeasible"
    assert solve(sol.program(np.zeros(task.dimension), among=data)).status == "optimal"


@pytest.mark.parametrize("spec", ["hard/2x3", "hard/3x2"])
def test_the_hard_mdp_separates(spec):
    """M^v with both maps is right on S_r: TensorPlan is optimal, and BiLin-UCB's hypotheses exclude every secret."""
    for seed in range(3):
        task = tp.make(spec, kind="vq", noise=False, seed=seed)
        mdp, access = task.mdp, everywhere(task)
        hypotheses = Hypotheses(access)
        assert len(hypotheses.places) == sum(len(layer) for layer in mdp.layers())
        missed = hypotheses.violations(task.theta)
        broken = [p.state for p, x in zip(hypotheses.places, missed, strict=True) if x > 1e-9]
        assert missed.max() > 0.1
        assert broken
        assert not any(mdp.reachable(state) for state in broken)
        with pytest.raises(tp.NotRealizable, match="at every state, reachable or not"):
            tp.run(task, BiLinUCB())
        (episode,) = tp.run(task, tp.TensorPlan()).episodes
        assert episode.total_reward == pytest.approx(task.optimal_value(mdp.root))


def test_on_the_noisy_hard_mdp_it_is_refuted_or_not_optimistic():
    """A few rollouts that collect nothing agree with θ = 0, which is all that (C) leaves."""
    outcomes = set()
    for seed in range(6):
        task = tp.make("hard/2x2", kind="vq", seed=seed)
        try:
            _, policy = plan(task, seed=seed)
        except tp.NotRealizable:
            outcomes.add("refuted")
        else:
            outcomes.add("lost")
            assert policy.certificate.upper < 0.01 < task.optimal_value(task.mdp.root)
    assert outcomes == {"refuted", "lost"}


# ------------------------------------------------------------------------------------------------- refusals, budgets


def both(**options):
    return walk(phi_q=lambda state, stage: np.zeros((2, 2)), **options)


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        (tp.make("layered/2x3:kind=q"), "problem 'layered/2x3' has no phi_v: BiLin-UCB needs phi_v and phi_q"),
        (tp.make("layered/2x3"), "problem 'layered/2x3' has no phi_q: BiLin-UCB needs phi_v and phi_q"),
        (
            tp.featurize(tp.TabularMDP(np.ones((1, 1, 2)) / 2, [[0.5]], horizon=None), 2, kind="vq"),
            "problem 'tabular' has no horizon, which BiLin-UCB needs",
        ),
        (
            both(),
            "problem 'walk' cannot list its states, which BiLin-UCB needs: its hypotheses are about all of them",
        ),
    ],
)
@pytest.mark.parametrize("mode", ["certified", "paper"])
def test_refused_before_any_query(task, sentence, mode):
    access = everywhere(task)
    with pytest.raises(tp.Refused) as error:
        BiLinUCB(mode=mode).begin(access, np.random.default_rng(0))
    assert str(error.value) == sentence
    assert access.spent == 0


def test_the_printed_algorithm_is_for_rewards_between_0_and_1():
    mdp = tp.TabularMDP(np.ones((1, 1, 1)), [[-0.5]], horizon=2, reward_range=(-1.0, 0.0))
    with pytest.raises(tp.Refused, match=r"for rewards in \[0, 1\], and problem 'tabular' has \[-1, 0\]"):
        plan(tp.featurize(mdp, 2, kind="vq"), BiLinUCB(mode="paper"))


def test_costs_instead_of_rewards():
    for seed in range(5):
        rng = np.random.default_rng(seed)
        steps, rewards = rng.dirichlet(np.ones(4), (3, 2)), -rng.random((3, 2))
        mdp = tp.TabularMDP(steps, rewards, horizon=3, reward_range=(-1.0, 0.0), noise=True)
        task = tp.featurize(mdp, 3, kind="vq", seed=seed)
        access, policy = plan(task, BiLinUCB(delta=0.4), seed)
        assert policy.certificate.status == "certified"
        assert task.optimal_value(0) - value(task, access, policy) <= 0.4
        assert holds(policy.hypotheses, task.theta)


@pytest.mark.parametrize("where", ["planner", "access"])
def test_a_budget_leaves_the_best_policy_and_a_bracket(where):
    task = small(4, few=True, branching=3, noise=True)
    spent = []
    for budget in (0, 100, 1_000, 20_000):
        if where == "planner":
            access, policy = plan(task, BiLinUCB(delta=0.05, budget=budget))
        else:
            access, policy = plan(task, BiLinUCB(delta=0.05), budget=budget)
        certificate = policy.certificate
        assert certificate.status == "budget"
        assert access.spent <= budget
        assert certificate.lower <= value(task, access, policy)
        assert task.optimal_value(0) <= certificate.upper + 1e-9
        assert all(0 <= policy.act(node) < task.actions for node in access.states(0))
        spent.append(access.spent)
    assert spent[0] == 0
    assert spent == sorted(set(spent))


def test_ctrl_c_leaves_the_best_policy_and_a_bracket():
    task = small(4, few=True, branching=3, noise=True)

    class Interrupted:
        """The MDP of the task, until Ctrl-C."""

        def __init__(self):
            self.left = 20

        def __getattr__(self, name):
            return getattr(task.mdp, name)

        def step_batch(self, *arguments):
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
            return task.mdp.step_batch(*arguments)

        def states(self, stage):
            return task.mdp.states(stage)

    shaky = tp.Problem(Interrupted(), task.phi_v, task.phi_q, bound=task.bound, name="shaky")
    run = tp.run(shaky, BiLinUCB(delta=0.05), episodes=3)
    assert run.interrupted
    assert len(run.episodes) == 1
    (episode,) = run.episodes
    assert episode.certificate.status == "interrupted"
    assert episode.certificate.lower <= task.optimal_value(0) <= episode.certificate.upper + 1e-9
    assert episode.complete


@pytest.mark.parametrize("options", [{}, {"branching": 3, "noise": True}])
def test_a_search_that_is_cut_short_leaves_a_valid_bracket(options, monkeypatch):
    monkeypatch.setattr(bilin_program, "NODES", 1)
    statuses = set()
    for seed in range(10):
        task = small(seed, few=True, **options)
        access, policy = plan(task, BiLinUCB(delta=0.3), seed)
        statuses.add(policy.certificate.status)
        assert policy.certificate.lower <= value(task, access, policy) + 1e-9
        assert task.optimal_value(0) <= policy.certificate.upper + 1e-9
    assert "limit" in statuses
    assert statuses <= {"limit", "certified"}


# ------------------------------------------------------------------------------------------------- as a planner


def test_what_every_planner_must_do():
    for task in (small(0), small(1, branching=3, noise=True)):
        check_planner(BiLinUCB(), task)


def test_a_session_remembers():
    """A start state that was settled costs nothing again, and all data serve other start states."""
    task = small(7, branching=3, noise=True, states=8, starts=3, few=True)
    run = tp.run(task, BiLinUCB(delta=0.3), episodes=12)
    apart = tp.run(task, BiLinUCB(delta=0.3), episodes=12, learn=False)
    known = set()
    for episode in run.episodes:
        assert (episode.total_queries <= 32 * task.horizon) == (episode.start in known)
        assert episode.certificate.status == "certified"
        assert task.optimal_value(episode.start) <= episode.certificate.upper + 1e-9
        known.add(episode.start)
    assert len(known) == 3
    assert sum(e.total_queries for e in run.episodes) < sum(e.total_queries for e in apart.episodes)
    session = BiLinUCB().session()
    session.begin(everywhere(task), np.random.default_rng(0))
    with pytest.raises(tp.BadInput, match="this session remembers another problem than 'layered/4x3'"):
        session.begin(everywhere(small(0)), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"delta": 0.0}, "delta must be positive, got 0.0"),
        ({"delta": math.nan}, "delta must be a number >= -inf, got nan"),
        ({"mode": "exact"}, "mode must be one of certified, paper, got 'exact'"),
        ({"budget": -1}, "budget must be a whole number >= 0, got -1"),
        ({"m": 5}, "m is a constant of mode 'paper', and the mode is 'certified'"),
        ({"mode": "paper", "T": 0}, "T must be a whole number >= 1, got 0"),
        ({"mode": "paper", "m": 1.5}, "m must be a whole number >= 1, got 1.5"),
        ({"mode": "paper", "R": -1.0}, "R must be a number >= 0, got -1.0"),
    ],
)
def test_bad_parameters(options, sentence):
    with pytest.raises(tp.BadInput) as error:
        BiLinUCB(**options)
    assert str(error.value) == sentence


def test_a_delta_that_asks_for_nothing():
    with pytest.raises(tp.BadInput, match="delta=50 asks for nothing in problem 'layered/"):
        plan(small(0), BiLinUCB(delta=50))
