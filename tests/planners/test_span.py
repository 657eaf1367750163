"""The span planner; the problems here serve OCP as well."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from helpers import local
from hypothesis import given, settings
from random_graphs import KINDS, TINY, Graph, Values, random_features, random_graph

import tensorplan as tp
from tensorplan.planners.replay import CLOSED, Step
from tensorplan.planners.span import Equations, SpanPlanner
from tensorplan.problems.explore import explore
from tensorplan.problems.featurize import embed
from tensorplan.problems.layered import layered
from tensorplan.testing import check_planner, problems


def random_layered(count):
    """Layered problems with linear q*: 2 to 1,000 actions, d and H from 2 to 8."""
    rng = np.random.default_rng(5)
    for seed in range(count):
        actions = 1000 if seed % 10 == 0 else int(rng.choice([2, 3, 5, 10, 50]))
        d, horizon = (int(x) for x in rng.integers(2, 9, 2))
        yield layered(actions, d, states=5 if actions == 1000 else 30, horizon=horizon, features="q", seed=seed)


def action_values(mdp):
    """v* and q* per stage of a graph."""
    v = np.array([*mdp.values(1.0), np.zeros(len(mdp.rewards))])
    return v[:-1], np.array([mdp.rewards + np.append(ahead, 0.0)[mdp.following] for ahead in v[1:]])


def realize_q(rng, mdp, kinds=KINDS):
    """The problem of a graph with features that realize its q*, in as many awkward ways as there are."""
    v, q = action_values(mdp)
    phi, theta, bound = random_features(rng, q, kinds)
    return tp.Problem(mdp, phi_q=lambda s, h: phi[h][s], bound=bound, name="graph", solution=Values(v), theta=theta)


def nearly_parallel(rng, tiny):
    """A graph whose features lie in a plane, but for ``tiny``."""
    mdp = random_graph(rng, int(rng.integers(1, 9)), starts=3)
    v, q = action_values(mdp)
    theta = rng.standard_normal(int(rng.integers(2, 8)))
    theta *= max(float(np.abs(q).max()), 0.1) * 1.25 / np.linalg.norm(theta)
    phi = embed(q, theta, rng.standard_normal(len(theta)) + tiny * rng.standard_normal((*q.shape, len(theta))))
    bound = 1.2 * float(np.linalg.norm(theta))
    return tp.Problem(mdp, phi_q=lambda s, h: phi[h][s], bound=bound, name="near", solution=Values(v), theta=theta)


def solved(task, episode):
    """The episode is optimal, its certificate is right, and it took (d + 1) H queries at most."""
    value, certificate, scale = task.optimal_value(episode.start), episode.certificate, 1 + task.bound
    assert certificate.status == "certified"
    assert certificate.lower - 1e-12 * scale <= value <= certificate.upper + 1e-12 * scale
    assert certificate.gap <= CLOSED * scale
    assert certificate.failure == 0
    assert episode.complete
    assert abs(value - episode.total_reward) <= 1e-9
    assert episode.total_queries <= (task.dimension + 1) * task.horizon


def bracketed(task, episode):
    """Whatever the status, the bracket holds, and the policy collects its lower end."""
    value, certificate, slack = task.optimal_value(episode.start), episode.certificate, TINY * (1 + task.bound)
    assert certificate.lower - slack <= value <= certificate.upper + slack
    assert certificate.lower <= episode.total_reward + slack
    assert episode.complete


def star_survives(task, equations):
    """θ* satisfies every equation, up to the slack that it has."""
    basis, weights, y, slack = equations.rows
    assert len(y) <= task.dimension
    if len(y):
        assert np.allclose(basis @ basis.T, np.eye(len(y)), atol=1e-13)
        x = np.linalg.solve(weights, basis)
        assert (np.abs(x @ task.theta - y) <= slack + 1e-14 * np.abs(np.linalg.inv(weights)).sum(axis=1)).all()


# ------------------------------------------------------------------------------------------------- optimality


def test_exact_with_any_number_of_actions():
    """200 problems, one in ten with 1,000 actions: optimal, with at most (d + 1) H queries."""
    for task in random_layered(200):
        session = SpanPlanner().session()
        (episode,) = tp.run(task, session).episodes
        solved(task, episode)
        assert not any(episode.queries[1:])  # the path is replayed
        star_survives(task, session._memory)


def test_no_simulator_with_a_memory_of_its_own_is_needed():
    for task in random_layered(40):
        (episode,) = tp.run(task, SpanPlanner(), cache=False).episodes
        solved(task, episode)


def test_queries_do_not_depend_on_the_number_of_actions():
    """Every action two hundred times over: the same states, the same questions, the same return."""
    for seed in range(10):
        few = layered(3, 5, states=20, horizon=6, features="q", seed=seed)

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


def test_awkward_features_and_several_starts():
    """Ties, zero, duplicate and parallel features, one dimension, tight balls, early END, all kinds of rewards."""
    for seed in range(300):
        rng = np.random.default_rng([seed, 77])
        task = realize_q(rng, random_graph(rng, int(rng.integers(1, 9)), starts=3))
        session = SpanPlanner().session()
        for episode in tp.run(task, session, episodes=4, seed=seed).episodes:
            solved(task, episode)
        star_survives(task, session._memory)


@settings(max_examples=100)
@given(problems(deterministic=True))
def test_tables(task):
    """Stationary and layered ones; the return against backward induction over all that can be reached."""
    if task.phi_q is None:
        with pytest.raises(tp.Refused, match="problem 'random' has no phi_q, which SpanPlanner needs"):
            tp.run(task, SpanPlanner())
        return
    (episode,) = tp.run(task, SpanPlanner()).episodes
    assert episode.certificate.status == "certified"
    assert episode.total_reward == pytest.approx(explore(task).value(episode.start, 0), abs=1e-9)


@pytest.mark.parametrize("exponent", range(1, 15))
def test_nearly_parallel_features_are_never_taken_for_a_contradiction(exponent):
    """Where digits run out the status says so; the bracket is right all the same."""
    for seed in range(15):
        task = nearly_parallel(np.random.default_rng([seed, 78]), 10.0**-exponent)
        for episode in tp.run(task, SpanPlanner(), episodes=2, seed=seed).episodes:
            bracketed(task, episode)
            assert episode.certificate.status in (("certified", "limit") if exponent in (6, 7, 8) else ("certified",))
            assert task.optimal_value(episode.start) - episode.total_reward <= 1e-6 * (1 + task.bound)


def test_states_need_not_be_hashable():
    class Arrays(Graph):
        def start(self, rng):
            return np.array([0])

        def step(self, state, action, rng):
            reward, following = super().step(int(state[0]), action, rng)
            return reward, following if following is tp.END else np.array([following])

    for seed in range(20):
        rng = np.random.default_rng([seed, 79])
        plain = realize_q(rng, random_graph(rng, 5))
        mdp = Arrays(**{k: v for k, v in vars(plain.mdp).items() if k != "actions"})
        task = tp.Problem(mdp, phi_q=lambda s, h, phi=plain.phi_q: phi(int(s[0]), h), bound=plain.bound)
        for episode in tp.run(task, SpanPlanner(), episodes=2).episodes:
            assert episode.certificate.status == "certified"
            assert episode.total_reward == pytest.approx(plain.optimal_value(0), abs=TINY * (1 + task.bound))


def test_it_is_a_planner_as_others_are():
    check_planner(SpanPlanner(), layered(3, 4, states=10, horizon=4, features="q"))


# -------------------------------------------------------------------------------------------------- equations


def test_equations_against_least_squares_and_the_ball():
    """Values in the span are those of the pseudo-inverse; elsewhere the bound is that of ball and equations (C1)."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        d = int(rng.integers(1, 7))
        theta = rng.standard_normal(d)
        bound = float(np.linalg.norm(theta)) * 1.3
        x = rng.standard_normal((int(rng.integers(0, d + 1)), d)) / 4
        equations = Equations(d, bound)
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
        equations = Equations(d, 100.0)
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
    equations = Equations(6, 10.0)
    for row in rng.standard_normal(6) / 4 + 1e-6 * rng.standard_normal((6, 6)):
        equations.add(row, np.zeros(6), 0.0, 0.0)
    basis = equations.rows.basis
    assert len(basis) == 6
    assert np.allclose(basis @ basis.T, np.eye(6), atol=1e-13)


def test_an_equation_allows_for_doubt_about_the_best_action():
    """What is known of e0 and e1 makes e0 look better, by the middle of their ranges; e1 is, and θ* must survive."""
    task = layered(2, 3, states=3, horizon=2, features="q")
    theta, unit = np.array([0.4, 0.5, 0.7]), np.eye(3)
    search = SpanPlanner().session().search(local(task), Equations(3, 2.0))
    search.memory.add(unit[0], np.zeros(3), 0.35, 0.65)
    search.memory.add(unit[1], np.zeros(3), 0.25, 0.55)
    nodes = [SimpleNamespace(phi_q=unit[[2, 2]]), SimpleNamespace(phi_q=unit[:2])]
    search.learn([Step(nodes[0], 0, 0.2), Step(nodes[1], 1, 0.5)])  # q* = 0.2 + 0.5 in the first
    basis, weights, y, slack = search.memory.rows
    assert len(y) == 3
    assert (np.abs(np.linalg.solve(weights, basis) @ theta - y) <= slack).all()
    assert not search.memory.refuted


# ----------------------------------------------------------------------------------------------------- memory


def test_what_is_learned_at_one_start_serves_the_next():
    """Twenty start states: once there are d equations an episode verifies one path, and a known start costs nothing."""
    for seed in range(10):
        task = layered(4, 6, states=20, horizon=5, features="q", starts=20, seed=seed)
        fresh = tp.run(task, SpanPlanner(), episodes=8, seed=seed, learn=False).episodes
        learned = tp.run(task, SpanPlanner(), episodes=8, seed=seed).episodes
        known = set()
        for number, (one, other) in enumerate(zip(fresh, learned, strict=True)):
            solved(task, one)
            solved(task, other)
            assert one.start == other.start
            assert other.total_queries <= (0 if other.start in known else 5 if number else one.total_queries)
            known.add(other.start)
        assert 2 * sum(e.total_queries for e in learned) < sum(e.total_queries for e in fresh)


def test_a_session_is_for_one_problem():
    session, rng = SpanPlanner().session(), np.random.default_rng(0)
    session.begin(local(tp.make("layered/4x6:features=q")), rng)
    session.begin(local(tp.make("layered/4x6:features=q")), rng)
    assert repr(session) == "SpanPlanner()"
    for other in ("layered/4x6:features=q:seed=1", "layered/4x7:features=q", "layered/4x6:features=q:horizon=11"):
        with pytest.raises(tp.BadInput, match="this session is for another problem than"):
            session.begin(local(tp.make(other)), rng)


# --------------------------------------------------------------------------------------------------- refusals


REFUSALS = [
    (tp.make("layered/2x3"), "problem 'layered/2x3' has no phi_q, which {} needs"),
    (
        tp.make("layered-stochastic/2x3:features=q"),
        "{} is for deterministic problems, and problem 'layered-stochastic/2x3' does not declare deterministic "
        "transitions",
    ),
    (
        tp.make("layered/2x3:features=q:noise=true"),
        "{} is for deterministic problems, and problem 'layered-stochastic/2x3' does not declare deterministic rewards",
    ),
    (
        tp.Problem(random_graph(np.random.default_rng(0), None), phi_q=lambda s, h: np.zeros((2, 2)), bound=1.0),
        "{} rolls out whole episodes: problem 'problem' has no horizon",
    ),
]


@pytest.mark.parametrize(("task", "sentence"), REFUSALS)
def test_refusals(task, sentence):
    access = local(task)
    with pytest.raises(tp.Refused) as error:
        SpanPlanner().begin(access, np.random.default_rng(0))
    assert str(error.value) == sentence.format("SpanPlanner")
    assert access.spent == 0


# ------------------------------------------------------------------------------------------- misspecification


class Chain:
    """0 -> 1 -> END; action 0 pays 0.5, action 1 a quarter."""

    horizon, actions = 2, 2
    deterministic_transitions = deterministic_rewards = True

    def start(self, rng):
        return 0

    def step(self, state, action, rng):
        return 0.5 / (1 + action), state + 1


def chain(first, bound=2.0):
    """Features of one dimension: right at state 1 (θ* = 1), and ``first`` for both actions of state 0."""
    values = Values([[1.0, 0.5], [0.5, 0.5]])
    phi = [np.array(first).reshape(2, 1), np.array([[0.5], [0.25]])]
    return tp.Problem(Chain(), phi_q=lambda s, h: phi[s], bound=bound, name="chain", solution=values)


def test_a_path_that_disagrees_with_its_value_is_not_certified():
    (right,) = tp.run(chain([1.0, 0.75]), SpanPlanner()).episodes
    assert right.certificate.status == "certified"
    assert right.certificate.gap <= 1e-8
    for first in ([0.9, 0.1], [0.1, 0.9], [0.6, 0.6]):
        (episode,) = tp.run(chain(first), SpanPlanner()).episodes
        assert episode.certificate.status == "refuted"
        assert episode.certificate.upper == 2.0  # what all returns are below
        assert episode.certificate.lower == pytest.approx(episode.total_reward)
        assert episode.complete


def test_a_ball_that_is_too_small_is_found_out():
    (episode,) = tp.run(chain([1.0, 0.75], bound=0.99), SpanPlanner()).episodes
    assert episode.certificate.status == "refuted"
    (episode,) = tp.run(chain([1.0, 0.75], bound=1.0), SpanPlanner()).episodes
    assert episode.certificate.status == "certified"


@pytest.mark.parametrize("eta", [1e-6, 0.05, 0.3])
def test_misspecified_features(eta):
    """Almost always found out; then the bracket claims nothing that rests on the features."""
    refuted = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        actions, d, horizon = (int(x) for x in rng.integers(2, [12, 7, 7]))
        task = layered(actions, d, states=20, horizon=horizon, features="q", eta=eta, seed=seed)
        (episode,) = tp.run(task, SpanPlanner()).episodes
        assert episode.total_queries <= (d + 1) * horizon
        if episode.certificate.status == "refuted":
            refuted += 1
            bracketed(task, episode)
            assert episode.certificate.upper == task.return_range()[1]
            assert episode.certificate.lower == pytest.approx(episode.total_reward)
    assert refuted >= 36


def statuses_of_contradictory_starts(planner):
    """State 0 pays 0.5 and state 1 pays 0.9, with the same feature; a session at 0, 0, 1 and 0 again."""

    class Two(Chain):
        horizon = 1

        def step(self, state, action, rng):
            return (0.5, 0.9)[state], tp.END

    task = tp.Problem(Two(), phi_q=lambda s, h: np.full((2, 1), 0.5), bound=2.0, name="two")
    session, rng = planner.session(), np.random.default_rng(0)
    for start in (0, 0, 1, 0):
        access = tp.LocalAccess(task, start, rng)
        policy = session.begin(access, rng)
        assert policy.certificate.lower == (0.5, 0.9)[start]
        yield policy.certificate.status, policy.certificate.upper, access.spent


def test_a_session_that_was_refuted_certifies_nothing_any_more():
    first, again, other, last = statuses_of_contradictory_starts(SpanPlanner())
    assert first == ("certified", pytest.approx(0.5), 1)
    assert again == (*first[:2], 0)
    assert other == last == ("refuted", 1.0, 1)


# ------------------------------------------------------------------------------------ budgets and interruptions


def test_a_spent_budget_leaves_a_bracket_and_a_policy():
    task = layered(4, 5, states=20, horizon=6, features="q", seed=3)
    needed = tp.run(task, SpanPlanner()).episodes[0].total_queries
    lowers, uppers = [], []
    for budget in range(needed + 2):
        (episode,) = tp.run(task, SpanPlanner(), budget=budget).episodes
        bracketed(task, episode)
        assert episode.certificate.status == ("budget" if budget < needed else "certified")
        assert episode.total_queries == min(budget, needed)
        assert episode.steps == 6
        lowers.append(episode.certificate.lower)
        uppers.append(episode.certificate.upper)
    assert lowers == sorted(lowers)
    assert uppers == sorted(uppers, reverse=True)
    assert lowers[-1] == pytest.approx(task.optimal_value(0), abs=1e-9)


class Fragile:
    """An MDP where Ctrl-C is pressed during one of the steps."""

    def __init__(self, mdp, at):
        self.mdp, self.at, self.calls = mdp, at, itertools.count()

    def __getattr__(self, name):
        return getattr(self.mdp, name)

    def step(self, state, action, rng):
        if next(self.calls) == self.at:
            raise KeyboardInterrupt
        return self.mdp.step(state, action, rng)


def fragile(task, at):
    return tp.Problem(Fragile(task.mdp, at), phi_q=task.phi_q, bound=task.bound, solution=task.solution)


@pytest.mark.parametrize("at", [0, 3, 17])
def test_ctrl_c_ends_the_planning_but_not_the_episode(at):
    task = fragile(layered(4, 5, states=20, horizon=6, features="q", seed=3), at)
    run = tp.run(task, SpanPlanner(), episodes=5)
    assert run.interrupted
    (episode,) = run.episodes
    assert episode.certificate.status == "interrupted"
    assert episode.steps == 6
    bracketed(task, episode)


def test_a_session_goes_on_after_ctrl_c():
    task = fragile(layered(4, 5, states=20, horizon=6, features="q", seed=3), 17)
    session, rng, first, second = SpanPlanner().session(), np.random.default_rng(0), local(task), local(task)
    assert session.begin(first, rng).certificate.status == "interrupted"
    assert session.begin(second, rng).certificate.status == "certified"
    fresh = tp.run(task, SpanPlanner()).episodes[0].total_queries
    assert second.spent < fresh
