"""BiLin-UCB on problems whose optimal values are known, and where it must fail.

Statistical tests have fixed seeds.  A certificate of a random problem may be wrong with probability ζ <= 0.05, and
``too_many(n)`` wrong ones among n have a probability of at most 1e-6.
"""

import math

import numpy as np
import pytest
from bilin_runs import everywhere, holds, plan, small, too_many, value
from helpers import problem as walk

import tensorplan as tp
from tensorplan.optimism import solve
from tensorplan.planners.bilin_ucb import hypotheses as bilin_program
from tensorplan.planners.bilin_ucb.hypotheses import Hypotheses, Rollouts
from tensorplan.planners.bilin_ucb.planner import BiLinUCB
from tensorplan.planners.bilin_ucb.planning import slab_radii, slab_width
from tensorplan.planners.evidence.place import Place
from tensorplan.testing import check_planner

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
    with pytest.raises(tp.BadInput, match="delta=50 is trivial in problem 'layered/"):
        plan(small(0), BiLinUCB(delta=50))
