"""Simulators that people use: each is restored faithfully, step by step, over 1,000 steps, and keeps its contract."""

import enum
import sys
from importlib import import_module
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces, wrappers
from scipy import stats

import tensorplan as tp
from tensorplan.problems.gym.opening import Opened
from tensorplan.problems.gym.restoring.families import StickyALE
from tensorplan.problems.gym.restoring.randomness import Randomness
from tensorplan.testing import check_problem

STEPS = 1000

pytestmark = [
    pytest.mark.filterwarnings("ignore:the observation of"),
    pytest.mark.filterwarnings("ignore:states of"),
    pytest.mark.filterwarnings("ignore:.*is restored by taking its actions again"),
]


def corners(env):
    """An environment with two actions: all motors one way, or the other."""
    space = env.action_space
    choices = np.array([space.low, space.high, (space.low + space.high) / 2]) / 2
    return wrappers.TransformAction(env, lambda i: choices[i].astype(space.dtype), spaces.Discrete(3))


def hopper():
    return corners(gymnasium.make("Hopper-v5"))


def ant():
    return corners(gymnasium.make("Ant-v5"))


SMALL_ROAD = {
    **{"vehicles_count": 2, "lanes_count": 2, "simulation_frequency": 1, "duration": 40},
    "observation": {"type": "Kinematics", "normalize": False, "vehicles_count": 2},
}

CASES = {
    "MiniGrid-Empty-8x8-v0": ("minigrid", "attributes", {}),
    "MiniGrid-DoorKey-8x8-v0": ("minigrid", "attributes", {"ignore": "step_count"}),
    "MiniGrid-Dynamic-Obstacles-6x6-v0": ("minigrid", "attributes", {}),
    "BabyAI-GoToObj-v0": ("minigrid", "attributes", {"horizon": 64}),
    **{
        f"MinAtar/{game}-v1": ("minatar", "adapter", {"horizon": 300})
        for game in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")
    },
    "ALE/Breakout-v5": ("ale_py", "attributes", {"reward_range": (0, 20), "horizon": 300}),
    "ALE/Pong-v5": ("ale_py", "attributes", {"reward_range": (-1, 1), "horizon": 300, "obs_type": "ram"}),
    "highway-fast-v0": ("highway_env", "attributes", {"horizon": 40, "config": SMALL_ROAD}),
    "LunarLander-v3": ("Box2D", "replay", {"reward_range": (-500, 500), "horizon": 60}),
    hopper: ("mujoco", "attributes", {"reward_range": (-10, 10), "horizon": 200}),
    ant: ("mujoco", "attributes", {"reward_range": (-100, 100), "horizon": 100}),
}

FEWER = dict.fromkeys(("MiniGrid-Empty-8x8-v0", "BabyAI-GoToObj-v0", "ALE/Breakout-v5"), 300)
"""Further members of a family, of which another one takes all the steps."""


def named(case):
    return case if isinstance(case, str) else case.__name__


def installed(module):
    try:
        import_module(module)
    except ImportError:
        pytest.skip(f"there is no {module} here: it comes with the extra 'simulators'")


@pytest.mark.parametrize("case", CASES, ids=named)
def test_every_step_from_a_restored_state_is_that_of_an_undisturbed_environment(case):
    module, way, options = CASES[case]
    installed(module)
    problem = tp.from_gym(case, **options, bound=1.0, verify=60)
    assert problem.mdp.way.name == way
    assert problem.mdp.way.exact
    compared, episode = 0, 0
    wanted = FEWER.get(case, STEPS)
    while compared < wanted:
        compared += compare_episode(problem, case, options, episode, wanted - compared)
        episode += 1


def compare_episode(problem, case, options, episode, most):
    """The steps of an episode, each from a restored state, beside an environment that nobody touches."""
    made = {key: x for key, x in options.items() if key in ("config", "obs_type")}
    plain = Opened(case, made).env  # made anew: nothing is left over of an earlier episode
    chance = Randomness(plain)
    pick = np.random.default_rng([episode, 1])
    mdp = problem.mdp
    first = state = mdp.start(np.random.default_rng([episode, 2]))
    chance.set(plain, np.random.default_rng([episode, 2]))
    expected = plain.reset()[0]
    pinned = getattr(plain.unwrapped, "step_count", None) if "ignore" in options else None
    for step in range(min(most, problem.horizon)):
        equal(mdp.observation(state), expected)
        if step % 5 == 0:  # go somewhere else, so that the next step has to come back
            mdp.step(first, int(pick.integers(problem.actions)), np.random.default_rng(0))
        action = int(pick.integers(problem.actions))
        reward, state = mdp.step(state, action, np.random.default_rng([episode, 3, step]))
        chance.set(plain, np.random.default_rng([episode, 3, step]))
        expected, plain_reward, terminated, truncated, _ = plain.step(action)
        if pinned is not None:
            plain.unwrapped.step_count = pinned
        assert reward == plain_reward
        assert (state is tp.END) == (terminated or truncated)
        if state is tp.END:
            return step + 1
    return min(most, problem.horizon)


def equal(one, two):
    """Observations that are equal, strings included."""
    if isinstance(one, dict):
        assert one.keys() == two.keys()
        for key, part in one.items():
            equal(part, two[key])
    else:
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("case", CASES, ids=named)
def test_contract(case):
    module, _, options = CASES[case]
    installed(module)
    problem = tp.from_gym(case, **{**options, "horizon": 12}, outside="clip", bound=1.0, verify=60)
    assert check_problem(problem, episodes=3) > 5
    assert tp.run(problem, "uct:simulations=3", max_steps=2, budget=60).episodes[0].queries


class Emulator:
    """Stands for ALE's: it lists the actions that it is given."""

    def __init__(self):
        self.given = []

    def act(self, action, strength):
        self.given.append(action)
        return 0

    def reset_game(self):
        self.given = []


def test_sticky_actions_are_drawn_from_the_generator_of_the_query_frame_by_frame():
    action = enum.Enum("Action", "LEFT RIGHT", start=0)
    env = SimpleNamespace(_np_random=np.random.default_rng(0))
    emulator = Emulator()
    sticky = StickyALE(env, emulator, 0.25)
    wanted = [action(i % 2) for i in range(8000)]
    for each in wanted:
        sticky.act(each)
    repeated = np.mean([one is not two for one, two in zip(wanted, emulator.given, strict=True)])
    chance = 0.25 / 1.25  # after a repeated frame the last action is the wanted one
    assert abs(repeated - chance) < 5 * np.sqrt(chance / 8000)
    sticky.reset_game()
    assert (sticky.last, sticky.given) == (0, [])


def test_sticky_actions_have_the_law_of_the_emulator():
    """The place of the paddle after 40 steps to the right, in ALE and with our generator: Kolmogorov and Smirnov."""
    installed("ale_py")
    places = []
    for prepared in (False, True):
        env = Opened("ALE/Breakout-v5", {"obs_type": "ram"}).env if prepared else None
        env = env or gymnasium.make("ALE/Breakout-v5", obs_type="ram").unwrapped
        env.reset(seed=0)
        env._np_random = np.random.default_rng(0)
        places.append([])
        for _ in range(60):
            env.reset()
            for action in (1, *(2, 3) * 10):
                ram = env.step(action)[0]
            places[-1].append(int(ram[72]))
    assert isinstance(env.ale, StickyALE)
    assert stats.ks_2samp(*places).pvalue > 1e-4
    assert len(set(places[0])) > 5


def test_a_package_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "minigrid", None)
    for spec in list(gymnasium.registry):
        if spec.startswith("MiniGrid"):
            monkeypatch.delitem(gymnasium.registry, spec)
    with pytest.raises(tp.BadInput, match=r"'MiniGrid-Empty-5x5-v0' is an environment of the package minigrid: pip"):
        tp.from_gym("MiniGrid-Empty-5x5-v0")


def test_known_simulators_need_nothing_but_a_name(cli):
    installed("minatar")
    code, out, _ = cli("plan", "MinAtar/Breakout-v1:horizon=5", "--planner", "uct:simulations=5")
    assert (code, "Breakout" in out) == (0, True)


def test_what_was_in_a_box_of_minigrid_can_be_carried_about():
    """Such a key has no place from the start, and an array for a place when it was put down."""
    installed("minigrid")
    problem = tp.from_gym("MiniGrid-ObstructedMaze-1Dlh-v0", bound=1.0, verify=False)
    env = problem.mdp._env.unwrapped
    state = problem.mdp.start(np.random.default_rng(0))
    box = next(x for x in env.grid.grid if x is not None and x.type == "box")
    key = box.contains
    key.cur_pos = np.array([1, 1])
    env.grid.set(1, 1, key)
    held = problem.mdp.capture(env)
    problem.mdp.step(state, 0, np.random.default_rng(0))
    problem.mdp.step(held, 0, np.random.default_rng(0))
    found = env.grid.get(1, 1)
    assert (found.type, found.color, found.cur_pos.tolist()) == ("key", key.color, [1, 1])


@pytest.mark.parametrize(
    "case",
    ["MiniGrid-DoorKey-5x5-v0", "MinAtar/Freeway-v1", "ALE/Pong-v5", hopper],
    ids=named,
)
def test_the_state_of_an_environment_of_somebody_else_is_captured(case):
    """And the step from there is the one that it takes itself."""
    module, _, options = CASES.get(case, ("minigrid", "", {}))
    installed(module)
    options = {key: x for key, x in options.items() if key != "horizon"}
    made = {"repeat_action_probability": 0.0, "obs_type": "ram"} if module == "ale_py" else {}
    mdp = tp.from_gym(case, **{**options, **made}, horizon=50, bound=1.0, verify=60).mdp
    env = gymnasium.make(case, **made) if isinstance(case, str) else case()
    observation, _ = env.reset(seed=3)
    for _ in range(4):
        observation, *_ = env.step(1)
    state = mdp.capture(env, observation)
    chance = Randomness(env)
    for action in (0, 2, 1):
        reward, state = mdp.step(state, action, np.random.default_rng(action))
        chance.set(env, np.random.default_rng(action))
        observation, expected, *_ = env.step(action)
        assert reward == expected
        equal(mdp.observation(state), observation)


def test_the_action_that_an_emulator_may_repeat_is_not_known():
    installed("ale_py")
    mdp = tp.from_gym("ALE/Pong-v5", obs_type="ram", reward_range=(-1, 1), horizon=5, verify=60).mdp
    env = gymnasium.make("ALE/Pong-v5", obs_type="ram")
    observation, _ = env.reset(seed=0)
    with pytest.raises(tp.BadInput, match=r"does not tell the action that may be repeated: make it with repeat_action"):
        mdp.capture(env, observation)
