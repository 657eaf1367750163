"""What OCP and the span planner have in common: optimal where q* is linear and nothing is random."""

import math

import numpy as np
import pytest
from helpers import local
from hypothesis import given, settings
from hypothesis import strategies as st
from linear_q import (
    REFUSALS,
    bracketed,
    chain,
    fragile,
    most_queries,
    random_layered,
    realize_q,
    solved,
    star_survives,
    statuses_of_contradictory_starts,
)
from random_graphs import graphs, realized

import tensorplan as tp
from tensorplan.planners.evidence.challenge import ROUNDS
from tensorplan.problems.random.layered import layered
from tensorplan.problems.tables.reachable import explore
from tensorplan.testing import check_planner, problems

OCP, SPAN = tp.OCP(), tp.SpanPlanner()
both = pytest.mark.parametrize("planner", [OCP, SPAN], ids=repr)


# ------------------------------------------------------------------------------------------------- optimality


@both
def test_exact_with_any_number_of_actions(planner):
    """50 problems, one in ten with 1,000 actions: optimal, with at most (d + 1) H queries; θ* is never excluded."""
    for task in random_layered(50):
        session = planner.session()
        (episode,) = tp.run(task, session).episodes
        solved(task, episode)
        assert not any(episode.queries[1:])  # the path is replayed
        star_survives(task, session._memory)


@both
@settings(max_examples=60)
@given(realized(graphs(starts=3), realize_q), st.integers(0, 99))
def test_awkward_features_and_several_starts(planner, task, seed):
    """Ties, zero, duplicate and parallel features, one dimension, tight balls, early END, all kinds of rewards."""
    session = planner.session()
    for episode in tp.run(task, session, episodes=4, seed=seed).episodes:
        solved(task, episode)
    star_survives(task, session._memory)


@both
@settings(max_examples=40)
@given(problems(deterministic=True))
def test_tables(planner, task):
    """Stationary and layered ones; the return against backward induction over all that can be reached."""
    if task.phi_q is None:
        with pytest.raises(tp.Refused, match=f"problem 'random' has no phi_q, which {type(planner).__name__} needs"):
            tp.run(task, planner)
        return
    (episode,) = tp.run(task, planner).episodes
    assert episode.certificate.status in ("certified", "doubtful")
    assert episode.total_reward == pytest.approx(explore(task).value(episode.start, 0), abs=1e-9)


@both
def test_it_is_a_planner_as_others_are(planner):
    check_planner(planner, layered(3, 4, states=10, horizon=4, kind="q"))


# ----------------------------------------------------------------------------------------------------- memory


@pytest.mark.parametrize(("planner", "seeds", "later"), [(OCP, 4, np.inf), (SPAN, 10, 5)], ids=repr)
def test_what_is_learned_at_one_start_serves_the_next(planner, seeds, later):
    """Twenty start states: what was learned holds for θ* at all of them, and a known start costs nothing.

    Once the span planner has d equations, an episode verifies one path, ``later`` questions, and nothing else.
    """
    for seed in range(seeds):
        task = layered(4, 6, states=20, horizon=5, kind="q", starts=20, seed=seed)
        fresh = tp.run(task, planner, episodes=8, seed=seed, learn=False).episodes
        learned = tp.run(task, planner, episodes=8, seed=seed).episodes
        known = set()
        for number, (one, other) in enumerate(zip(fresh, learned, strict=True)):
            solved(task, one)
            solved(task, other)
            assert one.start == other.start
            allowed = min(one.total_queries, later if number else np.inf)
            assert other.total_queries <= (math.ceil(0.1 * other.steps) if other.start in known else allowed + 2)
            known.add(other.start)
        assert 2 * sum(e.total_queries for e in learned) < sum(e.total_queries for e in fresh)


@both
def test_a_session_is_for_one_problem(planner):
    session, rng = planner.session(), np.random.default_rng(0)
    task = tp.make("layered/4x6:kind=q")
    session.begin(local(task), rng)
    session.begin(local(task), rng)
    assert repr(session) == repr(planner) == f"{type(planner).__name__}()"
    for other in ("layered/4x6:kind=q:seed=1", "layered/4x7:kind=q", "layered/4x6:kind=q:horizon=11"):
        with pytest.raises(tp.BadInput, match="this session remembers another problem than"):
            session.begin(local(tp.make(other)), rng)


# --------------------------------------------------------------------------------------------------- refusals


@both
@pytest.mark.parametrize(("task", "sentence"), REFUSALS)
def test_refusals(planner, task, sentence):
    access = local(task)
    with pytest.raises(tp.Refused) as error:
        planner.begin(access, np.random.default_rng(0))
    assert str(error.value) == sentence.format(type(planner).__name__)
    assert access.spent == 0


# ------------------------------------------------------------------------------------------- misspecification


@both
def test_a_path_that_disagrees_with_its_value_is_not_certified(planner):
    (right,) = tp.run(chain([1.0, 0.75]), planner).episodes
    assert right.certificate.status == "certified"
    assert right.certificate.gap <= 1e-8
    for first in ([0.9, 0.1], [0.1, 0.9], [0.6, 0.6]):
        (episode,) = tp.run(chain(first), planner).episodes
        assert episode.certificate.status == "refuted"
        assert episode.certificate.upper == 2.0  # what all returns are below
        assert episode.certificate.lower == pytest.approx(episode.total_reward)
        assert episode.complete


@both
def test_a_ball_or_box_that_is_too_small_is_found_out(planner):
    (episode,) = tp.run(chain([1.0, 0.75], bound=0.99), planner).episodes
    assert episode.certificate.status == "refuted"
    (episode,) = tp.run(chain([1.0, 0.75], bound=1.0), planner).episodes
    assert episode.certificate.status == "certified"


@both
def test_a_session_that_was_refuted_certifies_nothing_any_more(planner):
    first, again, other, last = statuses_of_contradictory_starts(planner)
    assert first == ("certified", pytest.approx(0.5), 3)  # one query, one of a challenge, one asked again
    assert again == (*first[:2], 1)
    assert other == last == ("refuted", 1.0, 3)


@pytest.mark.slow
@pytest.mark.parametrize(("planner", "seeds", "least"), [(OCP, 20, 17), (SPAN, 40, 36)], ids=repr)
@pytest.mark.parametrize("eta", [1e-6, 0.05, 0.3])
def test_misspecified_features(planner, seeds, least, eta):
    """Almost always found out; then the bracket claims nothing that rests on the features, and the best path acts."""
    refuted = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        actions, d, horizon = (int(x) for x in rng.integers(2, [12, 7, 7]))
        task = layered(actions, d, states=20, horizon=horizon, kind="q", eta=eta, seed=seed)
        (episode,) = tp.run(task, planner).episodes
        refutes = episode.certificate.status == "refuted"
        assert episode.total_queries <= most_queries(task) + refutes * ROUNDS * horizon
        if refutes:
            refuted += 1
            bracketed(task, episode)
            assert episode.certificate.upper == task.return_range()[1]
            assert episode.certificate.lower == pytest.approx(episode.total_reward)
    assert refuted >= least


# ------------------------------------------------------------------------------------ budgets and interruptions


@both
def test_a_spent_budget_leaves_a_bracket_and_a_policy(planner):
    task = layered(4, 5, states=20, horizon=6, kind="q", seed=3)
    needed = tp.run(task, planner).episodes[0].total_queries
    for budget in range(needed + 2):
        (episode,) = tp.run(task, planner, budget=budget).episodes
        bracketed(task, episode)
        assert episode.certificate.status == ("budget" if budget < needed else "certified")
        assert episode.total_queries <= min(budget, needed)
        assert episode.steps == 6
    assert episode.certificate.lower == pytest.approx(task.optimal_value(0), abs=1e-9)


@both
@pytest.mark.parametrize("at", [0, 3, 17])
def test_ctrl_c_ends_the_planning_but_not_the_episode(planner, at):
    task = fragile(layered(4, 5, states=20, horizon=6, kind="q", seed=3), at)
    run = tp.run(task, planner, episodes=5)
    assert run.interrupted
    (episode,) = run.episodes
    assert episode.certificate.status == "interrupted"
    assert episode.steps == 6
    bracketed(task, episode)
