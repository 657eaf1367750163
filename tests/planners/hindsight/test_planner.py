import warnings

import numpy as np
import pytest
from finite_noise import problem as tiny
from finite_noise import random_mdp, values
from helpers import Coins, Walk, problem

import tensorplan as tp


@pytest.fixture
def task():
    return tiny(random_mdp(np.random.default_rng(3), 4), discount=0.9)


def plan(task, budget=40_000, seed=0, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (episode,) = tp.run(task, tp.Hindsight(**options), seed=seed, budget=budget, max_steps=20).episodes
    return episode


@pytest.mark.parametrize("horizon", [1, 4, None])
def test_the_bracket_holds_at_every_look(horizon):
    for seed in range(3):
        task = tiny(random_mdp(np.random.default_rng(seed), horizon), discount=0.8)
        looks, best = [], values(task)(0, 0)
        episode = plan(task, 20_000, delta=1e-6, callback=lambda bounds, queries, looks=looks: looks.append(bounds))
        certificate = episode.certificate
        assert looks
        for lower, upper, _ in [*looks, (certificate.lower, certificate.upper, 0.0)]:
            assert lower <= best <= upper
        assert certificate.status in ("budget", "limit")
        assert episode.total_queries <= 20_000


def test_it_is_certified_without_an_assumption_when_it_is_within_delta(task):
    certificate = plan(task, 400_000, delta=4.0).certificate
    assert certificate.status == "certified"
    assert certificate.upper - certificate.lower <= 4.0
    assert certificate.failure == pytest.approx(0.05)
    assert certificate.assumes == ""


def test_the_gap_that_is_left_is_explained(task):
    (note,) = plan(task, 60_000, delta=1e-6).certificate.notes
    assert "a gap of" in note
    assert "stage" in note


def test_the_policy_is_good(task):
    """Better than a fixed action, as its certificate proves."""
    lower = plan(task, 60_000, delta=1e-6).certificate.lower
    assert lower > values(task, lambda state, stage: 0)(0, 0)


@pytest.mark.parametrize("budget", [0, 1, 50, 500, 2_500])
def test_with_hardly_any_queries_there_is_a_policy_and_a_bracket(budget):
    task = problem(Coins())
    episode = plan(task, budget)
    assert len(episode.actions) == 5
    certificate = episode.certificate
    assert (certificate.status, certificate.lower <= 3.125 <= certificate.upper) == ("budget", True)


@pytest.mark.parametrize("budget", [50, 3_000, 30_000])
def test_queries_are_the_calls_of_step(budget):
    task = problem(Coins())
    episode = plan(task, budget, delta=1e-6)
    assert episode.total_queries <= budget
    assert task.mdp.calls == episode.total_queries + len(episode.actions) + task.unmetered


@pytest.mark.parametrize("calls", [1, 100, 2_000, 15_000])
def test_after_ctrl_c_there_is_a_policy_and_the_bracket_reached_by_then(calls):
    mdp = Coins()
    mdp.raises = (calls, KeyboardInterrupt)
    episode = plan(problem(mdp), 20_000, delta=1e-6)
    certificate = episode.certificate
    assert certificate.status == "interrupted"
    assert certificate.lower <= 3.125 <= certificate.upper
    assert len(episode.actions) == 5


def test_the_callback_stops_it(task):
    certificate = plan(task, 60_000, delta=1e-6, callback=lambda bounds, queries: True).certificate
    assert certificate.status == "stopped"


def test_same_seed_same_plan(task):
    def bounds(seed):
        episode = plan(task, 30_000, seed, delta=1e-6)
        return episode.certificate.lower, episode.certificate.upper, episode.total_queries, episode.actions

    first = bounds(1)
    np.random.seed(9)
    assert bounds(1) == first
    assert bounds(2) != first


def test_unhashable_states():
    class Lists(Walk):
        horizon = 3

        def start(self, rng):
            return [0]

        def step(self, state, action, rng):
            return 0.5 * action, [state[0] + action]

    certificate = plan(problem(Lists()), 20_000).certificate
    assert certificate.lower <= 1.5 <= certificate.upper


def test_no_finite_range_of_returns():
    with pytest.raises(tp.Refused, match="hindsight needs a finite range of returns"):
        plan(problem(Walk(horizon=None)))


def test_a_simulator_that_fails_leaves_the_bracket():
    mdp = Coins()
    mdp.raises = (15_000, ZeroDivisionError("oops"))
    with pytest.raises(tp.ProblemError, match="raised ZeroDivisionError: oops") as error:
        plan(problem(mdp), 20_000, delta=1e-6)
    assert error.value.certificate.lower <= 3.125 <= error.value.certificate.upper


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delta": 0.0}, "delta"),
        ({"delta": -1.0}, "delta"),
        ({"delta": "small"}, "delta"),
        ({"confidence": 0}, "confidence"),
        ({"confidence": 1}, "confidence"),
        ({"budget": -1}, "budget"),
        ({"budget": 2.5}, "budget"),
    ],
)
def test_bad_input(options, words):
    with pytest.raises(tp.BadInput, match=words):
        tp.Hindsight(**options)


def test_a_session_plans_once_for_each_start_state():
    problem = tp.make("american-put/6:features=payoff")
    played = tp.run(problem, tp.Hindsight(delta=1.0, budget=60_000), episodes=40, seed=3)
    first, *others = played.episodes
    assert first.queries[0] > 10_000
    assert max(episode.total_queries for episode in others) < 500  # lookahead at states that were not sampled
    assert {episode.certificate for episode in played.episodes} == {first.certificate}
    mean = np.mean([episode.total_reward for episode in others])
    # a mean of 39 returns with a standard deviation of 3: four standard errors
    assert mean > first.certificate.lower - 4 * 3 / np.sqrt(39)


def test_the_failures_of_a_session_add_up():
    class Two(tp.TabularMDP):
        """Starts in one of two states that pay what they are."""

    mdp = Two(np.full((2, 1, 2), 0.5), [[0.2], [0.8]], horizon=2, start=[0.5, 0.5], noise=True)
    problem = tp.Problem(mdp, lambda state, stage: np.array([1.0]), bound=2.0)
    played = tp.run(problem, tp.Hindsight(delta=0.4, budget=20_000, confidence=0.99), episodes=6, seed=0)
    failures = {episode.start: episode.certificate.failure for episode in played.episodes}
    assert sorted(failures.values()) == pytest.approx([0.01, 0.02])
    session = tp.Hindsight().session()
    tp.run(problem, session, episodes=1)
    with pytest.raises(tp.BadInput, match="remembers another problem"):
        tp.run(tp.make("american-put/6"), session, episodes=1)
