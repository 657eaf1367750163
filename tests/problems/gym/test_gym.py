"""Gymnasium environments as problems: the toy-text and classic-control ones, planning in them, wrappers."""

import gymnasium
import numpy as np
import pytest
from gymnasium import wrappers
from helpers import rng

import tensorplan as tp
from tensorplan.access import LocalAccess
from tensorplan.problems.gym.table import GymTable
from tensorplan.testing import check_problem

OWN = ("gymnasium.envs.toy_text", "gymnasium.envs.classic_control")
DISCRETE = sorted(
    name
    for name, spec in gymnasium.registry.items()
    if str(spec.entry_point).startswith(OWN) and name not in ("Pendulum-v1", "MountainCarContinuous-v0")
)
TABLES = [name for name in DISCRETE if name.startswith(("Frozen", "Cliff", "Taxi"))]


@pytest.mark.filterwarnings("ignore:the observation of Blackjack")
@pytest.mark.parametrize("name", DISCRETE)
def test_every_one_with_discrete_actions_is_a_problem(name):
    problem = tp.from_gym(name, features="poly1", bound=1000.0)
    assert check_problem(problem, episodes=5, max_steps=60) >= 5
    assert isinstance(problem.mdp, GymTable) == (name in TABLES)
    limit = gymnasium.registry[name].max_episode_steps
    assert problem.horizon == limit


def test_the_environments_of_toy_text_and_classic_control_are_there():
    assert {"FrozenLake-v1", "Taxi-v4", "CliffWalking-v1", "Blackjack-v1", "CartPole-v1", "Acrobot-v1"} <= {*DISCRETE}


@pytest.mark.filterwarnings("ignore:the observation of Blackjack")
@pytest.mark.parametrize("name", DISCRETE)
@pytest.mark.parametrize("seed", range(3))
def test_episodes_are_those_of_the_environment_to_the_bit(name, seed):
    """The simulator follows actions from restored states; the environment is left alone and given the same numbers."""
    problem = tp.from_gym(name, features="poly1", bound=1000.0)
    mdp, env, dice = problem.mdp, gymnasium.make(name), rng(seed)
    env.reset(seed=0)
    env.unwrapped.np_random = rng(seed, 0)
    observation, _ = env.reset()
    state = mdp.start(rng(seed, 0))
    elsewhere = mdp.start(rng(seed, 99))
    for time in range(1, 60):
        np.testing.assert_array_equal(mdp.observation(state), observation)
        action = int(dice.integers(problem.actions))
        mdp.step(elsewhere, int(dice.integers(problem.actions)), rng(seed, time, 1))  # another state in between
        env.unwrapped.np_random = rng(seed, time)
        observation, reward, terminated, truncated, _ = env.step(action)
        earned, state = mdp.step(state, action, rng(seed, time))
        assert earned == reward
        assert (state is tp.END) == terminated
        if terminated or truncated:
            return


@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalkingSlippery-v1", "Taxi-v4"])
def test_values_of_a_table_against_value_iteration_on_the_list(name):
    discount = 0.95
    table = gymnasium.make(name).unwrapped.P
    v, chances = np.zeros(len(table)), np.zeros((len(table), len(table[0]), len(table)))
    rewards = np.zeros(chances.shape[:2])
    for state, action in np.ndindex(rewards.shape):
        for p, following, reward, done in table[state][action]:
            chances[state, action, following] += p * (not done)
            rewards[state, action] += p * reward
    for _ in range(1000):
        v = (rewards + discount * chances @ v).max(axis=1)
    problem = tp.from_gym(name, features="poly1", horizon=None, discount=discount)
    np.testing.assert_allclose([problem.optimal_value(s) for s in table], v, atol=1e-9)


def test_asking_again_samples_again():
    problem = tp.from_gym("FrozenLake-v1", features="poly1", restore="attributes", reward_range=(0, 1), bound=1.0)
    start = problem.mdp.start(rng())
    access = LocalAccess(problem, start, rng(1))
    where = [problem.mdp.observation(o.next._state) for o in access.query(access.root, 1, 600)]
    counts = np.bincount(where, minlength=16)
    assert counts[[0, 1, 4]].sum() == 600
    assert (np.abs(counts[[0, 1, 4]] - 200) < 70).all()  # six standard deviations


def test_the_table_is_faster_but_not_other_than_attributes():
    fast = tp.from_gym("FrozenLake8x8-v1", features="poly1")
    slow = tp.from_gym("FrozenLake8x8-v1", features="poly1", restore="attributes", reward_range=(0, 1), bound=1.0)
    state, held = fast.mdp.start(rng(3)), slow.mdp.start(rng(3))
    for time in range(50):
        reward, state = fast.mdp.step(state, time % 4, rng(time))
        earned, held = slow.mdp.step(held, time % 4, rng(time))
        assert reward == earned
        assert (state is tp.END) == (held is tp.END)
        if state is tp.END:
            break
        assert state == slow.mdp.observation(held)


def test_a_fickle_passenger_is_not_in_the_table():
    problem = tp.from_gym("Taxi-v4", features="poly1", bound=100.0, reward_range=(-10, 20), fickle_passenger=True)
    assert not isinstance(problem.mdp, GymTable)
    assert not problem.deterministic
    check_problem(problem, episodes=2, max_steps=30)


def test_coordinates_of_the_tables():
    assert tp.from_gym("FrozenLake8x8-v1", features="poly1").mdp.point(17).tolist() == [2, 1]
    assert tp.from_gym("CliffWalking-v1", features="poly1").mdp.point(17).tolist() == [1, 5]
    taxi = tp.from_gym("Taxi-v4", features="poly1").mdp
    assert taxi.point(gymnasium.make("Taxi-v4").unwrapped.encode(3, 1, 4, 2)).tolist() == [3, 1, 4, 2]
    assert taxi.frame.names == ("row", "column", "passenger", "destination")


@pytest.mark.parametrize(
    ("name", "options", "most"),
    [
        ("FrozenLake8x8-v1", {"is_slippery": False, "horizon": None, "discount": 0.99}, 80),
        ("CliffWalking-v1", {}, 60),
        ("Taxi-v4", {}, 90),
    ],
)
@pytest.mark.parametrize("seed", range(5))
def test_tensorplan_is_optimal_with_few_queries(name, options, most, seed):
    """Who learns the table of the first, with global access, asks 256 times."""
    problem = tp.from_gym(name, features="realizing5", seed=seed, **options)
    episode = tp.run(problem, tp.TensorPlan(), seed=seed).episodes[0]
    assert episode.certificate.status == "certified"
    assert episode.total_reward == pytest.approx(problem.optimal_value(episode.start), abs=1e-6)
    assert episode.total_queries <= most


def test_cartpole_is_refuted_honestly():
    problem = tp.from_gym("CartPole-v1", features="poly1", horizon=30, bound=5.0)
    with pytest.raises(tp.NotRealizable, match=r"'CartPole-v1' is not realizable with B=5 \(for certain\)"):
        tp.run(problem, tp.TensorPlan(), budget=2000)


def test_the_catalog_names_environments():
    problem = tp.make("gym/CliffWalking-v1:features=poly2")
    assert problem.name == "gym/CliffWalking-v1:features=poly2"
    assert problem.dimension == 6
    assert tp.make("gym/FrozenLake-v1:features=realizing3:is_slippery=false", seed=4).dimension == 3
    assert tp.make("gym/CliffWalking-v1").dimension == 3
    for option, sentence in (
        ("name=x", "'gym' has no parameter 'name'"),
        ("name=none", "'gym' has no parameter 'name'"),
        ("reward_range=3", "reward_range must be probe, or from Python a pair"),
        ("get_state=3:set_state=4", "get_state must be a function, got 3"),
    ):
        with pytest.raises(tp.BadInput, match=sentence):
            tp.make(f"gym/CliffWalking-v1:features=poly2:{option}")


def test_wrappers_are_respected():
    def make():
        env = gymnasium.make("FrozenLake-v1", is_slippery=False)
        return wrappers.TransformReward(env, lambda r: 5 * r - 1)

    options = {"features": "poly1", "reward_range": (-1, 4), "bound": 10.0, "horizon": 20}
    problem = tp.from_gym(make, **options, deterministic=True)
    assert not isinstance(problem.mdp, GymTable)
    assert problem.deterministic
    assert not tp.from_gym(make, **options).deterministic  # it draws, to no effect; that must be said
    state, rewards = problem.mdp.start(rng()), []
    for action in (1, 1, 2, 1, 2, 2):
        reward, state = problem.mdp.step(state, action, rng())
        rewards.append(reward)
    assert rewards == [-1, -1, -1, -1, -1, 4]
    assert state is tp.END


def test_a_wrapper_with_a_memory_is_part_of_the_state():
    def make():
        return wrappers.FrameStackObservation(gymnasium.make("MountainCar-v0"), 3)

    problem = tp.from_gym(make, features="poly1", reward_range=(-1, 0), bound=10.0)
    assert problem.mdp.frame.size == 6
    check_problem(problem, episodes=2, max_steps=20)


def test_a_time_limit_becomes_the_horizon():
    assert tp.from_gym("CartPole-v1", features="poly1", bound=1.0, max_episode_steps=7).horizon == 7
    assert tp.from_gym("CartPole-v1", features="poly1", bound=1.0, horizon=7).horizon == 7
    assert tp.from_gym("CartPole-v1", features="poly1", bound=1.0, horizon=None).horizon is None
    with pytest.raises(tp.BadInput, match="horizon=501 is longer than the time limit of CartPole-v1, 500 steps"):
        tp.from_gym("CartPole-v1", features="poly1", bound=1.0, horizon=501)


def test_an_environment_that_was_given_is_left_alone():
    env, twin = gymnasium.make("CartPole-v1"), gymnasium.make("CartPole-v1")
    for one in (env, twin):
        one.reset(seed=5)
        one.step(0)
    problem = tp.from_gym(env, features="poly1", bound=50.0, horizon=10)
    state = problem.mdp.capture(env)
    tp.run(problem, tp.UCT(simulations=20))
    np.testing.assert_array_equal(problem.mdp.observation(state), np.float32(env.unwrapped.state))
    for _ in range(5):
        np.testing.assert_array_equal(env.step(1)[0], twin.step(1)[0])


def test_captured_states_go_on_as_the_environment_does():
    for name, action in (("CartPole-v1", 1), ("Acrobot-v1", 2), ("Taxi-v4", 1)):
        problem = tp.from_gym(name, features="poly1", bound=50.0)
        env = gymnasium.make(name)
        env.reset(seed=3)
        reward, following = problem.mdp.step(problem.mdp.capture(env), action, rng())
        observation, earned, *_ = env.step(action)
        assert reward == earned
        np.testing.assert_array_equal(problem.mdp.observation(following), observation)
