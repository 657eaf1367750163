"""A session is about one problem: a memory of another one is never served, and a problem that changes is noticed."""

import numpy as np
import pytest
from helpers import local

import tensorplan as tp


class Corridor:
    """Two steps with rewards as given, which may be changed: action 1 earns them, action 0 earns nothing."""

    actions = 2
    horizon = 2
    reward_range = (0.0, 2.0)
    deterministic_transitions = True

    def __init__(self, first, second, *, noise=0.0):
        self.rewards, self.noise = [first, second], noise
        self.deterministic_rewards = not noise

    def start(self, rng):
        return 0

    def step(self, state, action, rng):
        reward = action * self.rewards[state]
        return reward * float(rng.random() >= self.noise) if self.noise else reward, state + 1


def corridor(first=1.0, second=1.0, **options):
    """Every value can be expressed; called "problem", as all that are not given a name."""
    return tp.Problem(Corridor(first, second, **options), lambda state, stage: np.eye(4)[state], pairs, bound=8.0)


def pairs(state, stage):
    return np.eye(4)[2 * state : 2 * state + 2]


MEMORIES = [tp.TensorPlan(), tp.TensorPlan(mode="certified", delta=1.0), tp.TensorPlanQ(), tp.OCP(), tp.SpanPlanner()]


@pytest.mark.parametrize("planner", MEMORIES, ids=repr)
def test_problems_of_one_name_and_shape_are_two(planner):
    session = planner.session()
    first, second = corridor(), corridor(0.0, 1.0)
    (episode,) = tp.run(first, session).episodes
    assert episode.certificate.status == "certified"
    with pytest.raises(tp.BadInput, match="this session remembers another problem than 'problem'"):
        tp.run(second, session)
    (again,) = tp.run(first, session).episodes  # which it still knows
    assert again.certificate.upper == pytest.approx(episode.certificate.upper)
    assert again.total_queries < episode.total_queries or episode.total_queries < 10


def test_bilin_ucb_too():
    first, second = (tp.make("layered/2x3:horizon=3", kind="vq", states=5, seed=0) for _ in range(2))
    session = tp.BiLinUCB(delta=0.2).session()
    tp.run(first, session)
    tp.run(first, session)
    with pytest.raises(tp.BadInput, match="remembers another problem"):
        tp.run(second, session)


def test_hard_instances_and_maps_that_look_the_same_are_not():
    for planner, make in (
        (tp.TensorPlan(delta=0.1), lambda seed: tp.make("hard", p=3, K=9, seed=seed)),
        (
            tp.TensorPlan(delta=0.2, budget=20_000),
            lambda seed: tp.from_gym(
                "FrozenLake-v1",
                desc=(["SFF", "FFF", "FFG"], ["SHF", "FFF", "FFG"])[seed],
                features="onehot@time",
                horizon=6,
            ),
        ),
    ):
        session = planner.session()
        session.begin(local(make(0), budget=20_000), np.random.default_rng(0))
        with pytest.raises(tp.BadInput, match="remembers another problem"):
            session.begin(local(make(1)), np.random.default_rng(0))


@pytest.mark.parametrize("planner", [tp.TensorPlan(), tp.TensorPlanQ(), tp.OCP(), tp.SpanPlanner()], ids=repr)
def test_a_deterministic_problem_that_changes_between_episodes_is_noticed(planner):
    """Each answer of the path is asked again with probability a tenth, one at least, and the return must be right."""
    task, session = corridor(), planner.session()
    for _ in range(3):
        assert tp.run(task, session).episodes[0].certificate.status == "certified"
    task.mdp.rewards[0] = 0.25
    with pytest.raises(tp.ProblemError, match=r"reward|return") as noticed:
        tp.run(task, session)
    (episode,) = noticed.value.run.episodes
    assert episode.stopped == "failed"


def test_within_one_run_too():
    class Turning(Corridor):
        starts = 0

        def start(self, rng):
            self.starts += 1
            if self.starts == 5:
                self.rewards = [0.5, 0.5]
            return 0

    task = tp.Problem(Turning(1.0, 1.0), lambda state, stage: np.eye(2)[state], bound=8.0)
    with pytest.raises(tp.ProblemError, match=r"reward|return") as noticed:
        tp.run(task, tp.TensorPlan(), episodes=20)
    brackets = [e.certificate for e in noticed.value.run.episodes]
    assert [c.upper for c in brackets[:-1]] == pytest.approx([2.0] * (len(brackets) - 1))


def test_a_random_problem_that_changes_between_episodes_is_noticed():
    task = corridor(1.0, 1.0, noise=0.25)
    session = tp.TensorPlan(delta=1.0).session()
    for _ in range(5):
        (episode,) = tp.run(task, session).episodes
        assert episode.certificate.lower <= 1.5 <= episode.certificate.upper
    task.mdp.rewards = [0.0, 0.1]
    with pytest.raises(tp.ProblemError, match="has changed since an earlier episode: a policy that was shown to earn"):
        tp.run(task, session)


def test_a_random_problem_that_stays_as_it_is_raises_no_alarm():
    task = corridor(1.0, 1.0, noise=0.25)
    session = tp.TensorPlan(delta=1.0).session()
    for seed in range(100):
        tp.run(task, session, seed=seed)
