"""The certified mode, all of it, on problems whose optimal values are known.

Statistical tests have fixed seeds and say what they would miss: ``too_many(n, p)`` failures in n trials have a
probability of at most 1e-6 where each fails with probability p or less.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from certified_runs import Boxed, Plain, begin, contains, many_starts, policy_value, random_problem, too_many

import tensorplan as tp
from tensorplan.planners.certified import planning as certified
from tensorplan.problems.random.featurize import draw_theta, embed

# ------------------------------------------------------------------------------------------ all of it


def test_brackets_hold_at_every_iteration_and_policies_are_within_delta():
    """16 random problems.  Claim: all of this holds but with probability ζ <= 0.05 in each.

    A planner that fails in 60% of them would be noticed with probability above 0.99.
    """
    wrong, cut_off, poor = [], [], []
    for seed in range(16):
        problem, delta = random_problem(seed)
        best, brackets = problem.optimal_value(0), []
        policy = begin(problem, seed, delta=delta, callback=lambda it, to=brackets: to.append((it.lower, it.upper)))
        certificate, sol = policy.certificate, policy.sol
        assert certificate.status == "certified"
        assert certificate.gap <= delta / 2
        assert certificate.failure == pytest.approx(min(delta / (2 * problem.horizon), 0.05))
        brackets.append((certificate.lower, certificate.upper))
        wrong.append(not all(low <= best <= high for low, high in brackets))
        true = np.array([1.0, *problem.theta])
        rows = np.array(sol.rows) @ problem.theta <= np.array(sol.rhs) + 1e-9
        forms = np.abs(np.array(sol.forms).reshape(-1, problem.actions, len(true)) @ true).min(axis=1)
        forms = forms <= np.array(sol.tol) + 1e-9
        cut_off.append(not (rows.all() and forms.all()))
        poor.append(
            policy_value(problem, policy, min) < best - delta or certificate.lower > policy_value(problem, policy, max)
        )
    assert max(sum(wrong), sum(cut_off), sum(poor)) < too_many(16, 0.05)


@pytest.mark.slow
def test_episodes_of_the_accepted_policy_earn_what_was_certified():
    """The law of the acting policy is that of the policy whose returns were bounded.

    Claim: E[return] >= lower >= v* - δ/2, but for ζ <= 0.1; 5 problems, means of 150 episodes that do not plan.  Each
    is below lower by 5 standard errors with probability < 1e-5 unless ζ strikes.
    """
    below = 0
    for seed in range(5):
        problem, delta = random_problem(seed)
        first, *others = tp.run(problem, tp.TensorPlan(delta=delta), episodes=151, seed=seed).episodes
        returns = np.array([episode.total_reward for episode in others])
        assert all(e.certificate == first.certificate and e.complete for e in others)
        below += returns.mean() < first.certificate.lower - 5 * returns.std() / math.sqrt(len(returns))
    assert below < too_many(5, 0.1)


@pytest.mark.slow
def test_what_is_not_random_is_cheaper():
    """The same shapes with random steps and rewards, with one of the two, and with neither."""
    queries = {}
    for branching, noise in ((3, True), (1, True), (3, False), (1, False)):
        total = 0
        for seed in range(6):
            problem, delta = random_problem(seed, branching=branching, noise=noise)
            (episode,) = tp.run(problem, tp.TensorPlan(delta=delta, mode="certified"), seed=seed).episodes
            assert episode.certificate.status == "certified"
            assert contains(episode.certificate, problem.optimal_value(0))
            total += episode.total_queries
        queries[branching, noise] = total
    assert queries[1, True] < 0.9 * queries[3, True]
    assert queries[3, False] < queries[3, True]
    assert queries[1, False] < 6 * 2 * 3 * (10 + 9)  # every action at every step of a path, twice; d more


@pytest.mark.slow
@pytest.mark.parametrize("bound", [1.0, None])
def test_where_the_paper_needs_a_hundred_trillion_billion_queries_a_million_is_plenty(bound):
    """A=2, d=3, H=5, δ=0.5, B=1, with rewards so small that B=1 can hold v*."""
    assert tp.constants(A=2, d=3, H=5, delta=0.5, B=1.0).init_queries > 1e22
    for seed in range(10):
        problem = tp.make(
            "layered-stochastic", actions=2, d=3, horizon=5, scale=0.2 if bound else 1.0, bound=bound, seed=seed
        )
        (episode,) = tp.run(problem, tp.TensorPlan(delta=0.5), seed=seed).episodes
        assert episode.certificate.status == "certified"
        assert contains(episode.certificate, problem.optimal_value(0))
        assert episode.total_queries <= 1_000_000


# ------------------------------------------------------------------------------------------ ending early


@pytest.mark.parametrize("where", ["planner", "run"])
def test_a_budget_is_kept_and_what_it_bought_is_valid(where):
    for seed, budget in enumerate([0, 1, 20, 19, 39, 300, 2000, 5000, 10_000, 15_000]):
        problem, delta = random_problem(seed)
        planner = tp.TensorPlan(delta=delta, budget=budget if where == "planner" else None)
        (episode,) = tp.run(problem, planner, seed=seed, budget=budget if where == "run" else None).episodes
        assert episode.complete
        assert episode.total_queries <= budget
        assert episode.certificate.status == "budget"
        assert contains(episode.certificate, problem.optimal_value(0))
        if budget >= 5000:  # it is used, and has bought a policy that is better than nothing
            assert episode.total_queries >= budget / 2
            assert episode.certificate.lower > problem.optimal_value(0) / 4


def test_few_samples_per_state_do_not_break_variances():
    """A budget that leaves 2 samples for a step of a long horizon, and states that are met once."""

    class Short:
        horizon, actions = 1000, 2

        def start(self, rng):
            return 0

        def step(self, state, action, rng):
            following = 1 + int(rng.integers(10**6)) if state == 0 else tp.END
            return float(rng.random() < 0.5), following

    problem = tp.Problem(Short(), lambda s, h: np.array([1.0 if s == 0 else 0.5]), bound=1.3, name="short")
    with np.errstate(all="raise"):
        policy = begin(problem, delta=0.1, budget=15_000)
    assert policy.candidate.samples in (0, 2)
    assert contains(policy.certificate, 1.0)


class Fuse:
    """An MDP in which Ctrl-C is pressed at the k-th call of the simulator."""

    def __init__(self, mdp, k):
        self.horizon, self.actions, self.start, self.mdp, self.left = mdp.horizon, mdp.actions, mdp.start, mdp, k

    def step(self, *arguments):
        self._burn()
        return self.mdp.step(*arguments)

    def step_batch(self, *arguments):
        self._burn()
        return self.mdp.step_batch(*arguments)

    def _burn(self):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def test_ctrl_c_at_any_time_leaves_a_bracket_and_a_policy():
    problem, delta = random_problem(5)
    fuse = Fuse(problem.mdp, -1)
    tp.run(replace(problem, mdp=fuse), tp.TensorPlan(delta=delta), seed=1)
    calls = -1 - fuse.left - problem.horizon
    for k in [1, 2, *np.random.default_rng(0).integers(3, calls, 10).tolist()]:
        task = replace(problem, mdp=Fuse(problem.mdp, k))
        run = tp.run(task, tp.TensorPlan(delta=delta), episodes=3, seed=1)
        (episode,) = run.episodes
        assert run.interrupted
        assert episode.complete
        assert episode.steps == problem.horizon
        assert episode.certificate.status == "interrupted"
        assert contains(episode.certificate, problem.optimal_value(0))


def test_a_callback_hears_the_bracket_and_may_stop():
    heard = []
    problem, delta = random_problem(4)
    planner = tp.TensorPlan(delta=delta, callback=lambda it: heard.append(it) or len(heard) == 2)
    (episode,) = tp.run(problem, planner).episodes
    assert [it.number for it in heard] == [1, 2]
    assert episode.certificate.status == "stopped"
    assert episode.certificate.lower == heard[-1].lower
    assert episode.certificate.upper == pytest.approx(heard[-1].upper, abs=1e-8)
    assert heard[0].upper >= heard[1].upper >= problem.optimal_value(0) >= heard[1].lower >= heard[0].lower


# ------------------------------------------------------------------------------------------ many episodes


def test_a_start_state_is_planned_for_once():
    problem, delta = random_problem(3)
    first, *others = tp.run(problem, tp.TensorPlan(delta=delta), episodes=5).episodes
    assert first.queries[0] > 10_000
    for episode in others:
        assert episode.certificate == first.certificate
        assert episode.queries[0] < 1_000  # a few episodes show whether the simulator is still the same
        assert max(episode.queries[1:]) <= 4 * certified.SAMPLES * problem.actions  # where the table has no answer


@pytest.mark.slow
def test_start_states_share_what_was_measured():
    problem = many_starts()
    planner = tp.TensorPlan(delta=0.7)
    runs = {learn: tp.run(problem, planner, episodes=20, learn=learn).episodes for learn in (True, False)}
    for episodes in runs.values():
        assert len({episode.start for episode in episodes}) > 5
        assert all(contains(e.certificate, problem.optimal_value(e.start)) for e in episodes)
    queries = {learn: sum(e.total_queries for e in episodes) for learn, episodes in runs.items()}
    assert queries[True] < queries[False] / 3
    new = {learn: {e.start: e.total_queries for e in reversed(episodes)} for learn, episodes in runs.items()}
    assert sum(new[True].values()) < 0.8 * sum(new[False].values())  # when a state is the start for the first time


def test_a_seed_reproduces_a_run_to_the_bit():
    def record(seed):
        run = tp.run(many_starts(), tp.TensorPlan(delta=0.7, trace=True), episodes=4, seed=seed)
        rounds = [(it.theta, it.upper, it.lower, it.rows) for e in run.episodes for it in e.trace.iterations]
        return [(e.start, e.actions, e.rewards, e.queries, e.certificate) for e in run.episodes], rounds

    assert record(4) == record(4)
    assert record(4) != record(5)


# ------------------------------------------------------------------------------------------ discounted


class Forever:
    """A stationary MDP that never ends, with Bernoulli rewards."""

    horizon = None

    def __init__(self, seed, states=8, actions=2):
        rng = np.random.default_rng(seed)
        self.actions = actions
        self.transitions = rng.dirichlet(np.full(states, 0.5), (states, actions))
        self.rewards = rng.random((states, actions))
        self.cumulative = np.minimum(self.transitions.cumsum(axis=-1), 1.0)
        self.cumulative[..., -1] = 1.0

    def start(self, rng):
        return 0

    def step(self, state, action, rng):
        following = int(np.searchsorted(self.cumulative[state, action], rng.random(), side="right"))
        return float(rng.random() < self.rewards[state, action]), following

    def values(self, discount):
        v = np.zeros(len(self.rewards))
        for _ in range(int(40 / (1 - discount))):
            v = (self.rewards + discount * self.transitions @ v).max(axis=1)
        return v

    def problem(self, discount, seed, d=3):
        v, rng = self.values(discount), np.random.default_rng(seed)
        theta, bound = draw_theta(d, v.max(), None, rng)
        phi = embed(v, theta, rng.standard_normal((len(v), d)))
        return tp.Problem(self, lambda state, stage: phi[state], bound=bound, name="forever")


@pytest.mark.parametrize("discount", [0.5, pytest.param(0.8, marks=pytest.mark.slow)])
def test_discounted_problems_without_end_have_brackets_on_the_discounted_value(discount):
    """Claim: each bracket holds but for ζ = 0.05.  If most of the 6 were wrong it would be noticed."""
    wrong, delta = 0, 0.15 / (1 - discount)
    for seed in range(6):
        mdp = Forever(seed)
        problem = mdp.problem(discount, seed)
        planner = tp.TensorPlan(discount=discount, delta=delta)
        (episode,) = tp.run(problem, planner, seed=seed, max_steps=40).episodes
        assert episode.certificate.status == "certified"
        assert episode.certificate.gap <= delta / 2
        assert episode.certificate.failure == 0.05
        wrong += not contains(episode.certificate, mdp.values(discount)[0])
    assert wrong < too_many(6, 0.05)


def test_an_episode_that_goes_on_after_the_planned_steps_keeps_the_budget():
    class Wide(Forever):
        """So many states that the acting policy has to sample at each."""

        def step(self, state, action, rng):
            return float(rng.random() < 0.5), int(rng.integers(10**9))

    problem = tp.Problem(Wide(0), lambda state, stage: np.array([1.0]), bound=10.0, name="wide")
    (episode,) = tp.run(problem, tp.TensorPlan(discount=0.9, delta=1.0, budget=100_000), max_steps=4000).episodes
    assert episode.steps == 4000
    assert episode.total_queries <= 100_000


# ------------------------------------------------------------------------------------------ awkward problems


@pytest.mark.parametrize("wrap", [Plain, Boxed])
def test_simulators_need_neither_batches_nor_states_that_can_be_hashed(wrap):
    table = tp.make("layered-stochastic/2x3", seed=1)
    phi_v = table.phi_v if wrap is Plain else lambda state, stage: table.phi_v(state[0], stage)
    problem = tp.Problem(wrap(table.mdp), phi_v, bound=table.bound, name="plain")
    for budget, status in ((None, "certified"), (1_000, "budget")):
        (episode,) = tp.run(problem, tp.TensorPlan(delta=1.5, budget=budget)).episodes
        assert episode.complete
        assert episode.certificate.status == status
        assert contains(episode.certificate, table.optimal_value(0))


def test_a_billion_states_per_stage_are_no_more_than_fifty():
    problem = tp.make("layered-stochastic", actions=2, d=4, horizon=5, states=10**9, branching=3, noise=True, seed=1)
    (episode,) = tp.run(problem, tp.TensorPlan(delta=1.0)).episodes
    assert episode.certificate.status == "certified"
    assert contains(episode.certificate, problem.optimal_value(0))
    assert episode.total_queries < 300_000


class Safe:
    """Five steps: action 0 pays 0.09 each time, action 1 pays 1 with probability 0.02."""

    actions, horizon = 2, 5
    deterministic_transitions = True

    def start(self, rng):
        return 0

    def step(self, state, action, rng):
        return 0.09 if action == 0 else float(rng.random() < 0.02), state + 1


def test_returns_without_variance_that_exceed_the_bound_by_rounding_end_it():
    """0.09 + 0.09 + .. is 0.44999999999999996 or 0.45: no number of episodes shows which side of the bound it is on."""
    for bound in (1.0, 0.45):
        problem = tp.Problem(Safe(), lambda state, stage: np.array([(5 - state) / 5, 0.0]), bound=bound)
        for seed in range(3):
            (episode,) = tp.run(problem, tp.TensorPlan(delta=0.2), seed=seed, budget=2**21).episodes
            assert episode.certificate.status == "certified"
            assert contains(episode.certificate, 0.45)
            assert episode.total_queries < 200_000


@pytest.mark.parametrize("seed", [14, 32, 45])
def test_deterministic_problems_in_a_ball_that_values_just_reach_come_to_an_end(seed):
    problem = tp.make("layered/4x10", seed=seed)
    largest = max(problem.optimal_value(s, h) for h in range(problem.horizon) for s in problem.mdp.states(h))
    try:
        run = tp.run(replace(problem, bound=largest), tp.TensorPlan(mode="certified"), budget=2**20)
    except tp.NotRealizable as refuted:
        run = refuted.run
    (episode,) = run.episodes
    assert episode.total_queries < 10_000
    assert contains(episode.certificate, problem.optimal_value(episode.start))


def test_a_callback_that_stops_at_a_contradiction_gets_no_bracket_upside_down():
    """Where features miss v* by a lot, stop at each iteration in turn: the brackets that are heard and the last one."""
    refuted = 0
    for seed, last in itertools.product(range(8), range(1, 7)):
        problem = tp.make("layered-stochastic", actions=2, d=3, horizon=5, states=8, eta=1.0, seed=seed)
        heard = []

        def hear(iteration, heard=heard, last=last):
            heard.append(iteration)
            return len(heard) == last

        try:
            run = tp.run(problem, tp.TensorPlan(delta=0.25, callback=hear, budget=50_000), seed=seed)
        except tp.NotRealizable as error:
            run, refuted = error.run, refuted + 1
        certificate = run.episodes[0].certificate
        assert certificate.lower <= certificate.upper
        assert all(i.lower <= i.upper for i in heard)
    assert refuted >= 3
