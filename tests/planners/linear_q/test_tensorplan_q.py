"""TP': linear q*, deterministic transitions."""

import math

import numpy as np
import pytest
from scipy.stats import binom

import tensorplan as tp
from tensorplan.planners.linear_q.tensorplan_q import PolicyQ


def problems(count, **options):
    rng = np.random.default_rng(3)
    for seed in range(count):
        actions, d, horizon = int(rng.integers(2, 5)), int(rng.integers(2, 9)), int(rng.integers(2, 11))
        yield tp.make("layered", actions=actions, d=d, horizon=horizon, states=30, kind="q", seed=seed, **options)


def test_exact_where_nothing_is_random():
    for task in problems(150):
        first, second = tp.run(task, tp.TensorPlanQ(), episodes=2).episodes
        best = task.optimal_value(first.start)
        assert best - first.total_reward <= 1e-9
        assert first.certificate.status == "certified"
        assert first.certificate.lower - 1e-7 <= best <= first.certificate.upper + 1e-7
        # one question serves all next actions: d + 1 failures, each of A pairs at most
        assert first.total_queries <= 2 * (task.horizon + (task.dimension + 2) * task.actions)
        assert second.total_queries <= math.ceil(0.1 * (second.steps + 1))
        assert second.actions == first.actions


def test_bernoulli_rewards():
    """The bracket fails with probability at most ζ = δ/(2H) = 0.1.

    12 runs: more than 6 failures have probability below 1e-4 then; at 0.9 at most 6 have less than 1e-3.
    """
    missed, runs = 0, 0
    for task in problems(12, noise=True):
        delta = 0.2 * task.horizon
        (episode,) = tp.run(task, tp.TensorPlanQ(delta=delta)).episodes
        certificate, best = episode.certificate, task.optimal_value(episode.start)
        assert certificate.status == "certified"
        assert certificate.gap <= delta / 2
        assert certificate.failure == 0.05
        missed += not certificate.lower <= best <= certificate.upper
        runs += 1
    assert binom.sf(6, 12, 0.1) < 1e-4
    assert missed <= 6
    assert runs == 12


class Printed(PolicyQ):
    """TP' with the state of the delayed MDP as the paper prints it, (S_t, A_{t-1})."""

    def act(self, node):
        before = None if self.last is None else self.last[1]
        place = self.delayed.root if before is None else self.delayed.pair(node, before)
        action = self.policy.act(place)
        self.last = (node, action)
        return action


class PrintedPlanner:
    """Plans as TP' does, and acts with the printed index."""

    def __init__(self, planner):
        self.planner = planner

    def begin(self, access, rng):
        policy = self.planner.begin(access, rng)
        return Printed(policy.policy, policy.delayed, "")


def test_the_printed_index_loses():
    """With (S_{t-1}, A_{t-1}) the loss is within δ on every problem; with (S_t, A_{t-1}) it is large on average."""
    planner = tp.TensorPlanQ(mode="paper", delta=0.05)
    right, printed = [], []
    for seed in range(30):
        task = tp.make("layered", actions=2, d=3, horizon=5, states=20, kind="q", seed=seed)
        best = task.optimal_value(0)
        right.append(best - tp.run(task, planner).episodes[0].total_reward)
        printed.append(best - tp.run(task, PrintedPlanner(planner)).episodes[0].total_reward)
    assert max(right) <= 0.05
    assert np.mean(printed) > 0.2


def test_it_refuses_random_transitions_because_that_question_is_open():
    task = tp.make("layered-stochastic/2x3:kind=q")
    with pytest.raises(tp.Refused, match="linear q\\* with stochastic transitions and few actions is an open question"):
        tp.run(task, tp.TensorPlanQ())


def test_it_needs_phi_q():
    with pytest.raises(tp.Refused, match="has no phi_q"):
        tp.run(tp.make("layered/2x3"), tp.TensorPlanQ())


def test_start_states_have_memories_of_their_own():
    rng = np.random.default_rng(0)
    following = np.eye(5)[rng.integers(5, size=(4, 2))]  # the last column is END
    mdp = tp.TabularMDP(following, rng.random((4, 2)), horizon=4, start=[0.25] * 4)
    task = tp.featurize(mdp, 4, kind="q", name="starts")
    run = tp.run(task, tp.TensorPlanQ(), episodes=40)
    known = set()
    for episode in run.episodes:
        assert task.optimal_value(episode.start) - episode.total_reward <= 1e-9
        assert (episode.total_queries <= 1) <= (episode.start in known)
        known.add(episode.start)
    assert known == {0, 1, 2, 3}


def test_realizability_is_needed_at_reachable_states_only():
    """Features that are noise where no episode can come do not matter."""
    for task in problems(20):
        reachable = {(0, 0)}
        for stage in range(task.horizon - 1):
            for at, state in [pair for pair in reachable if pair[0] == stage]:
                steps = [task.mdp.step(state, a, np.random.default_rng(0))[1] for a in range(task.actions)]
                reachable |= {(at + 1, following) for following in steps if following is not tp.END}

        def phi_q(state, stage, task=task, reachable=reachable):
            if (stage, state) in reachable:
                return task.action_features(state, stage)
            noise = np.random.default_rng(state).standard_normal((task.actions, task.dimension))
            return noise / np.linalg.norm(noise, axis=1, keepdims=True)

        changed = tp.Problem(task.mdp, phi_q=phi_q, bound=task.bound, solution=task.solution, name="reachable")
        (episode,) = tp.run(changed, tp.TensorPlanQ()).episodes
        assert task.optimal_value(episode.start) - episode.total_reward <= 1e-9


def test_a_refutation_names_the_bound_of_the_problem_itself():
    task = tp.make("layered", actions=3, d=4, horizon=6, states=30, kind="q", seed=2)
    length = float(np.linalg.norm(task.theta))
    small = tp.Problem(task.mdp, phi_q=task.phi_q, bound=length / 3, solution=task.solution, name="small")
    with pytest.raises(tp.NotRealizable, match="sqrt\\(2\\) times that of problem 'small'") as refuted:
        tp.run(small, tp.TensorPlanQ())
    assert length / 3 < refuted.value.bound <= 1.02 * length
    (episode,) = refuted.value.run.episodes
    assert episode.stopped == "end"
    assert episode.certificate.status == "refuted"
