"""Environments that are not what they were when an agent planned in them."""

import copy
import warnings

import numpy as np
import pytest
from agents import episode

import tensorplan as tp
from tensorplan.bridges.agent import PlannerAgent

gymnasium = pytest.importorskip("gymnasium")
pytestmark = pytest.mark.filterwarnings("ignore:the observation of Stairs")


def lake(**options):
    return gymnasium.make("FrozenLake-v1", is_slippery=False, **options)


NEAR = lake(desc=["SFFF", "FHFH", "FGFH", "HFFG"]).unwrapped.P
"""A map with a second goal, four steps from the start instead of six."""


def test_a_table_that_is_replaced_is_another_problem():
    env = lake(max_episode_steps=20)
    agent = PlannerAgent(tp.TensorPlan(), features="realizing5", discount=0.9, horizon=None)
    for table, value in ((env.unwrapped.P, 0.9**5), (NEAR, 0.9**2), (copy.deepcopy(NEAR), 0.9**2)):
        before = agent.problem if agent.queries else None
        env.unwrapped.P = table
        episode(agent, env, seed=0)
        assert agent.certificate.upper == pytest.approx(value, abs=1e-4)
        assert (agent.problem is before) == (before is not None and value == 0.9**2 and table is not NEAR)


def test_a_table_that_is_changed_in_place_is_noticed_when_planning_begins():
    env = lake()
    agent = PlannerAgent(tp.TensorPlan(), features="realizing5", discount=0.9, horizon=None)
    for value in (0.9**5, 0.9**2):
        env.reset(seed=0)
        agent.act(env)
        assert agent.certificate.upper == pytest.approx(value, abs=1e-4)
        env.unwrapped.P.update(NEAR)


def test_a_table_that_is_replaced_midway_ends_the_plan():
    env = lake()
    agent = PlannerAgent(tp.TensorPlan(), features="realizing5", discount=0.9, horizon=None)
    env.reset(seed=0)
    env.step(agent.act(env))
    assert (env.unwrapped.s, agent.certificate.upper) == (4, pytest.approx(0.9**5, abs=1e-4))
    env.unwrapped.P = NEAR
    agent.act(env)
    assert agent.certificate.upper == pytest.approx(0.9**1, abs=1e-4)  # from where it is: two steps


@pytest.mark.parametrize(
    ("name", "attribute", "value"),
    [("CartPole-v1", "gravity", 20.0), ("MountainCar-v0", "force", 0.002), ("Acrobot-v1", "LINK_MASS_1", 2.0)],
)
def test_constants_are_part_of_a_problem(name, attribute, value):
    env, twin = gymnasium.make(name), gymnasium.make(name)
    options = {"features": "linear@time", "bound": 500.0, "horizon": 20}
    agent, given = PlannerAgent(tp.UCT(simulations=2), **options), tp.from_gym(env, **options)
    for one in (env, twin):
        one.reset(seed=0)
    agent.act(env)
    first = agent.problem
    env.reset(seed=1)
    agent.act(env)
    assert agent.problem is first  # nothing but the state is another
    setattr(env.unwrapped, attribute, value)
    env.reset(seed=0)
    agent.act(env)
    assert agent.problem is not first
    setattr(twin.unwrapped, attribute, value)
    state = agent.problem.mdp.capture(env)
    observation = twin.step(1)[0]
    np.testing.assert_array_equal(
        agent.problem.mdp.observation(agent.problem.mdp.step(state, 1, np.random.default_rng(0))[1]), observation
    )
    with pytest.raises(tp.BadInput) as error:
        PlannerAgent(tp.UCT(simulations=2), given).act(env)
    said = f"its {attribute!r} is not what it was when problem '{name}' was made: make a new problem"
    assert str(error.value).endswith(said)


def test_constants_behind_a_wrapper():
    env = gymnasium.wrappers.TransformReward(gymnasium.make("CartPole-v1"), lambda reward: reward / 2)
    given = tp.from_gym(env, features="linear", bound=99.0, reward_range=(0, 1), horizon=20)
    agent = PlannerAgent(tp.UCT(simulations=2), given)
    agent.act(env, env.reset(seed=0)[0])
    seen, _ = env.reset(seed=0)
    env.unwrapped.gravity = 20.0
    with pytest.raises(tp.BadInput, match=r"its 'gravity' is not what it was"):
        agent.act(env, seen)


def test_a_given_table_is_held_against_the_environment():
    env = lake()
    given = tp.from_gym(env, features="realizing5")
    agent = PlannerAgent(tp.TensorPlan(), given)
    env.reset(seed=0)
    env.step(agent.act(env))
    env.unwrapped.P = NEAR
    with pytest.raises(tp.BadInput, match=r"its 'P' is not what it was when problem 'FrozenLake-v1 .*: make a new"):
        agent.act(env)


class Stairs(gymnasium.Env):  # type: ignore[name-defined]
    """Steps up cost 1 until the top; what is not plain data stays as it is."""

    observation_space, action_space = gymnasium.spaces.Box(0, 10, (1,)), gymnasium.spaces.Discrete(2)

    def __init__(self):
        self.x, self.top, self.pushed, self.rule = 0, 5, None, lambda x: x

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.pushed = 0, None
        return self._get_obs(), {}

    def step(self, action):
        self.x, self.pushed = self.x + int(action), int(action)
        return self._get_obs(), -1.0, self.x == self.top, False, {}

    def _get_obs(self):
        return np.array([self.x], dtype=np.float32)


STAIRS = {"features": "linear", "reward_range": (-1, -1), "bound": 50.0}
FUNCTIONS = {"get_state": lambda env: env.unwrapped.x, "set_state": lambda env, x: setattr(env.unwrapped, "x", x)}
WAYS = pytest.mark.parametrize("options", [{}, {"restore": "deepcopy"}, FUNCTIONS])


@WAYS
@pytest.mark.parametrize("clock", [True, False])
def test_constants_of_environments_of_ones_own(options, clock):
    """Features do not see them, so that nothing that was learned holds any more."""
    env = gymnasium.wrappers.TimeLimit(Stairs(), 100) if clock else Stairs()
    agent = PlannerAgent(tp.TensorPlan(), horizon=None, **STAIRS, **options)
    for env.unwrapped.top in (5, 8, 8):
        before = agent.problem if agent.queries else None
        if not clock:
            agent.reset()
        _, rewards = episode(agent, env, limit=100)
        assert sum(rewards) == -env.unwrapped.top == pytest.approx(agent.certificate.upper, abs=1e-4)
    assert agent.problem is before


@WAYS
def test_what_may_be_a_constant_of_a_given_problem_is_a_warning(options):
    env = gymnasium.wrappers.TimeLimit(Stairs(), 100)
    agent = PlannerAgent(tp.TensorPlan(), tp.from_gym(env, horizon=None, **STAIRS, **options))
    episode(agent, env)
    env.unwrapped.top = 8
    held = options is not FUNCTIONS  # in captured states
    with pytest.warns(UserWarning, match="its 'top' is not what it was when problem 'Stairs' was made, which is wrong"):
        _, rewards = episode(agent, env, limit=20 if held else 3)
    if held:
        assert sum(rewards) == -8 == pytest.approx(agent.certificate.upper, abs=1e-4)
    with warnings.catch_warnings(action="error"):
        episode(agent, env, limit=3)


def test_constants_that_a_copy_does_not_have():
    class Pickled(Stairs, gymnasium.utils.EzPickle):  # type: ignore[name-defined]
        def __init__(self):
            gymnasium.utils.EzPickle.__init__(self)
            super().__init__()

    env = gymnasium.wrappers.TimeLimit(Pickled(), 100)
    env.unwrapped.top = 8
    env.reset()
    agent = PlannerAgent(tp.TensorPlan(), horizon=None, **STAIRS, **FUNCTIONS)
    with pytest.warns(UserWarning, match=r"its 'top' is not what it was .*, nor is that of a copy, which is wrong"):
        agent.act(env)
