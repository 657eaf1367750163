"""Exact mode by equations: any dimension, awkward features, and a search that gives way to them."""

import numpy as np
import pytest
from benchmarks import equations as study
from helpers import Hidden

import tensorplan as tp
from tensorplan.planners.tensorplan import exact, refute
from tensorplan.proofs import check

TINY = 1e-9


@pytest.fixture
def alone(monkeypatch):
    """No search in any dimension."""
    monkeypatch.setattr(exact, "LARGE", 0)


@pytest.fixture
def impatient(monkeypatch):
    """A search gives way to an equation after a few nodes."""
    monkeypatch.setattr(exact, "EASY", 1e-4)


def layered(actions, d, horizon, states=2_000, **options):
    return tp.make("layered", actions=actions, d=d, horizon=horizon, states=states, **options)


def proved(problem, certificate, value, statuses=("certified",)):
    """The certificate is right, and its proof holds."""
    tiny = TINY * (1 + problem.bound)
    assert certificate.status in statuses
    assert certificate.lower - tiny <= value <= certificate.upper + tiny
    assert check(certificate.proof).upper == pytest.approx(certificate.upper, abs=1e-7 * (1 + problem.bound))


@pytest.mark.parametrize("shape", [(2, 200, 20), (4, 100, 20), (3, 60, 5)])
def test_dimensions_that_no_search_reaches(shape):
    actions, d, horizon = shape
    problem = layered(*shape)
    played = study.play(problem)
    proved(problem, played.certificate, problem.optimal_value(0))
    assert abs(played.regret) <= TINY
    assert played.queries <= 1.05 * actions * (horizon + d)
    assert played.all_queries <= 1.15 * played.queries + 1


def test_nothing_is_searched_there(monkeypatch):
    def refuse(*_):
        raise AssertionError("a search")

    monkeypatch.setattr("tensorplan.planners.tensorplan.sol.Search", refuse)
    (episode,) = tp.run(layered(2, 100, 10), tp.TensorPlan()).episodes
    assert episode.certificate.status == "certified"


@pytest.mark.parametrize(("mode", "seeds"), [("alone", 12), ("impatient", 6)])
@pytest.mark.parametrize("kind", study.KINDS)
def test_awkward_features(kind, mode, seeds, request):
    request.getfixturevalue(mode)
    for seed in range(seeds):
        problem = study.awkward(kind, seed)
        (episode,) = tp.run(problem, tp.TensorPlan()).episodes
        loose = problem.bound > 100 * problem.mdp.horizon
        proved(problem, episode.certificate, study.optimum(problem), ("certified", "limit")[: 1 + loose])


def test_an_equation_replaces_a_search(impatient):
    """Where every search is cut short, equations are found until the next one is easy, or none is needed."""
    problem = layered(3, 20, 20, seed=2)
    (episode,) = tp.run(problem, tp.TensorPlan()).episodes
    proved(problem, episode.certificate, problem.optimal_value(0))
    kinds = [row[0] for row in episode.certificate.proof.data["rows"]]
    assert kinds.count("equation") > 3


@pytest.fixture
def brief(monkeypatch):
    """Little time is spent on a smaller conflict."""
    monkeypatch.setattr(refute, "ONE", 0.02)
    monkeypatch.setattr(refute, "ALL", 0.2)


def outcome(problem):
    """The refutation, if there is one, and the certificate."""
    try:
        return None, tp.run(problem, tp.TensorPlan()).episodes[0].certificate
    except tp.NotRealizable as error:
        return error, error.policy.certificate


@pytest.mark.parametrize("mode", ["alone", "impatient"])
@pytest.mark.parametrize("kind", study.KINDS)
def test_features_that_miss_are_refuted_by_states_that_contradict_each_other(kind, mode, request, brief):
    request.getfixturevalue(mode)
    refuted = 0
    for seed in range(4):
        problem = study.awkward(kind, seed, 1e-3)
        error, certificate = outcome(problem)
        if error is None:
            tiny = TINY * (1 + problem.bound)
            assert certificate.lower - tiny <= study.optimum(problem) <= certificate.upper + tiny
        else:
            refuted += 1
            assert study.contradicts(problem, error.places)
            assert check(certificate.proof).upper is None
    assert refuted > 1


@pytest.mark.parametrize("miss", [1e-14, 1e-10, 1e-5])
def test_how_much_features_may_miss(miss, alone, brief):
    """Rounding is allowed for; a little more than that is not a refutation, and much more is."""
    statuses = []
    for seed in range(5):
        statuses.append(outcome(study.awkward("plain", seed, miss))[1].status)
    assert set(statuses) == {1e-14: {"certified"}, 1e-10: {"certified", "limit"}, 1e-5: {"refuted"}}[miss]


def test_a_radius_that_is_too_small_is_refuted():
    problem = layered(2, 60, 10)
    small = tp.Problem(
        Hidden(problem.mdp), problem.phi_v, bound=0.9 * float(np.linalg.norm(problem.theta)), name="small"
    )
    with pytest.raises(tp.NotRealizable, match="no parameter agrees with what was measured at") as caught:
        tp.run(small, tp.TensorPlan())
    assert caught.value.eta is None
    assert check(caught.value.policy.certificate.proof).upper is None


def test_a_radius_that_is_far_too_large_costs_digits_not_queries():
    problem = layered(2, 30, 10)
    loose = tp.Problem(Hidden(problem.mdp), problem.phi_v, bound=1e5, name="loose")
    (episode,) = tp.run(loose, tp.TensorPlan()).episodes
    proved(loose, episode.certificate, problem.optimal_value(0), ("certified", "limit"))
    assert episode.certificate.gap < 1e-4
    assert episode.total_queries <= 1.3 * 2 * (10 + 30)


def test_equations_are_kept_for_later_episodes():
    problem = layered(2, 60, 10, starts=4)
    run = tp.run(problem, tp.TensorPlan(), episodes=8)
    for episode in run.episodes:
        assert episode.certificate.status == "certified"
        assert problem.optimal_value(episode.start) - episode.total_reward <= TINY
    assert sum(e.total_queries for e in run.episodes[1:]) < run.episodes[0].total_queries


def test_a_refutation_is_kept_for_later_episodes():
    session, problem = tp.TensorPlan().session(), study.awkward("per stage", 0, 1e-3)
    spent = []
    for _ in range(2):
        with pytest.raises(tp.NotRealizable) as caught:
            tp.run(problem, session)
        spent.append(caught.value.run.episodes[0].total_queries)
        assert check(caught.value.policy.certificate.proof).upper is None
    assert spent[1] < spent[0]


class Arrays(Hidden):
    """States are arrays."""

    def start(self, rng):
        return np.array([self.mdp.start(rng)])

    def step(self, state, action, rng):
        reward, following = self.mdp.step(int(state[0]), action, rng)
        return reward, following if following is tp.END else np.array([following])

    step_batch = None


def test_states_need_not_be_hashable():
    problem = layered(2, 60, 8, states=50)
    task = tp.Problem(Arrays(problem.mdp), lambda s, h: problem.phi_v(int(s[0]), h), bound=problem.bound, name="arrays")
    (episode,) = tp.run(task, tp.TensorPlan()).episodes
    assert episode.certificate.status == "certified"
    assert abs(problem.optimal_value(0) - episode.total_reward) <= TINY


@pytest.mark.parametrize("budget", [0, 5, 50, 120, 135, 150])
def test_any_budget_leaves_a_bracket(budget):
    problem = layered(2, 60, 10)
    (episode,) = tp.run(problem, tp.TensorPlan(), budget=budget).episodes
    proved(problem, episode.certificate, problem.optimal_value(0), ("budget", "certified"))
    assert episode.total_queries <= budget


def test_progress_is_told_and_can_be_stopped():
    heard = []

    def hear(iteration):
        heard.append(iteration)
        return len(heard) == 59

    problem = layered(2, 60, 10)
    (episode,) = tp.run(problem, tp.TensorPlan(callback=hear, trace=True)).episodes
    assert episode.certificate.status == "stopped"
    uppers = [iteration.upper for iteration in heard]
    assert uppers == sorted(uppers, reverse=True)
    assert uppers[-1] < uppers[0]
    assert problem.optimal_value(0) <= episode.certificate.upper
    assert len(episode.trace.iterations) == 59


def test_all_actions_can_be_asked_for():
    problem = layered(3, 60, 10)
    (episode,) = tp.run(problem, tp.TensorPlan(ask="all")).episodes
    assert episode.certificate.status == "certified"


def test_action_values_in_high_dimension():
    """TP' plans in the delayed MDP, where one query serves all next actions."""
    problem = layered(2, 100, 20, kind="q")
    (ours,) = tp.run(problem, tp.TensorPlanQ()).episodes
    (span,) = tp.run(problem, tp.SpanPlanner()).episodes
    proved(problem, ours.certificate, problem.optimal_value(0))
    assert abs(problem.optimal_value(0) - ours.total_reward) <= TINY
    assert ours.total_queries < span.total_queries / 2
