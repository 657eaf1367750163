from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from helpers import Walk, problem

import tensorplan as tp
from tensorplan.access.batches import BatchAccess
from tensorplan.access.meter import Meter
from tensorplan.access.noise import Purpose
from tensorplan.evaluation.players import players


class Coins(Walk):
    """Action 1 pays a coin, action 0 nothing; counts the calls of ``step``."""

    horizon, calls = 4, 0

    def step(self, state, action, rng):
        self.calls += 1
        return float(action * rng.integers(2)), state + int(rng.integers(2))


def access(budget=None, mdp=None):
    return BatchAccess(problem(mdp or Coins()), Meter(budget), 0)


def always(action):
    return lambda state, stage: action


class Agent:
    """A trained agent, as Stable-Baselines3 has them."""

    def __init__(self, reply):
        self.reply, self.seen = reply, []

    def predict(self, observation):
        self.seen.append(observation)
        return self.reply


@pytest.mark.parametrize("action", [1, np.int64(1), np.uint8(1)])
def test_functions(action):
    player = players(access(), always(action))(Purpose.TEST, 0, 0)
    assert player.act(3, 2) == 1
    assert type(player.act(3, 2)) is int


class Many:
    """A function of state and stage that also takes arrays."""

    def __init__(self, reply):
        self.reply = reply

    def __call__(self, state, stage):
        return 1

    def act_many(self, states, stage):
        return self.reply(states)


def test_functions_of_many_states():
    found = players(access(), Many(lambda states: states % 2))
    assert found.act_many(np.arange(4), 0).tolist() == [0, 1, 0, 1]
    assert found(Purpose.TEST, 0, 0).act(3, 2) == 1


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (lambda states: [0], "must give as many whole numbers"),
        (lambda states: states + 0.5, "must give as many whole numbers"),
        (lambda states: states + 7, r"gave actions that are not among 0 \.\. 1"),
        (lambda states: states["x"], "act_many of the policy for 3 states, stage 0, raised IndexError"),
    ],
)
def test_bad_replies_for_many_states(reply, message):
    with pytest.raises(tp.ProblemError, match=message):
        players(access(), Many(reply)).act_many(np.arange(3), 0)


@pytest.mark.parametrize("reply", [1, np.array(1), np.array([1]), (np.array([1]), None), (1, None), np.int64(1)])
def test_trained_agents(reply):
    agent = Agent(reply)
    assert players(access(), agent)(Purpose.TEST, 0, 0).act(3, 2) == 1
    assert agent.seen == [3]


def test_trained_agents_see_observations():
    mdp = Coins()
    mdp.observation = lambda state: np.array([state, 0.5])
    agent = Agent(0)
    players(access(mdp=mdp), agent)(Purpose.TEST, 0, 0).act(3, 2)
    assert agent.seen[0].tolist() == [3, 0.5]


def raises(state, stage):
    raise RuntimeError("no idea")


@pytest.mark.parametrize("action", [2, -1, None, 0.5, 1.0, "1", True, [1], np.array([0, 1]), float("nan")])
def test_actions_that_are_none(action):
    with pytest.raises(tp.BadInput, match=r"action .* at state 3, stage 2: actions are 0 \.\. 1"):
        players(access(), always(action))(Purpose.TEST, 0, 0).act(3, 2)
    with pytest.raises(tp.BadInput, match="actions are 0"):
        tp.audit(problem(Coins()), always(action), budget=1_000)


def test_a_policy_that_raises():
    with pytest.raises(tp.ProblemError, match="the policy at state 0, stage 0 raised RuntimeError: no idea"):
        tp.audit(problem(Coins()), raises, budget=1_000)


@pytest.mark.parametrize("policy", [None, 3, object(), tp.UCT, [1, 0], Agent])
def test_what_is_no_policy(policy):
    with pytest.raises(tp.BadInput, match="policy must be a planner, its name, a function of state"):
        tp.audit(problem(Coins()), policy, budget=1_000)


def test_an_unknown_planner():
    with pytest.raises(tp.BadInput, match="nobody"):
        tp.audit(problem(Coins()), "nobody", budget=1_000)


# ------------------------------------------------------------------------------------------ planners


@pytest.mark.parametrize("policy", ["random", "uct:simulations=8", tp.UCT(simulations=8)])
def test_planners_are_audited_and_their_queries_are_charged(policy):
    task = problem(Coins())
    audit = tp.audit(task, policy, budget=40_000)
    assert audit.lower <= 2.0 <= audit.upper
    assert audit.queries <= 40_000
    assert task.mdp.calls == audit.queries + task.unmetered


@pytest.mark.parametrize("budget", [1, 60, 333, 1_000, 5_000])
def test_planners_do_not_exceed_the_budget(budget):
    task = problem(Coins())
    audit = tp.audit(task, "uct:simulations=20", budget=budget)
    assert task.mdp.calls - task.unmetered == audit.queries <= budget
    assert audit.lower <= 2.0 <= audit.upper


def test_a_planner_begins_anew_in_every_episode_with_random_numbers_of_its_own():
    them = players(access(), "random")

    def actions(purpose, index):
        player, found = them(purpose, index, 0), []
        for stage in range(4):
            found.append(player.act(stage, stage))
            player.arrive(found[-1], 0.0, stage + 1 if stage < 3 else tp.END)
        return found

    names = [(purpose, index) for purpose in (Purpose.TEST, Purpose.EPISODE) for index in range(8)]
    first = [actions(*name) for name in names]
    assert [actions(*name) for name in names] == first
    assert len(set(map(tuple, first))) > 4


@dataclass(frozen=True)
class Remembers:
    """Observes what the world does, and acts by the last reward."""

    memoryless: ClassVar[bool] = False

    def begin(self, access, rng):
        return _Remembering()


class _Remembering:
    last = 0.0

    def act(self, node):
        return int(self.last == 0.0)

    def observe(self, action, reward, node):
        self.last = reward


def test_policies_with_a_memory():
    player = players(access(), Remembers())(Purpose.TEST, 0, 0)
    assert player.act(0, 0) == 1
    player.arrive(1, 1.0, 1)
    assert player.act(1, 1) == 0
    audit = tp.audit(problem(Coins()), Remembers(), budget=40_000)
    assert audit.lower <= 2.0 <= audit.upper
