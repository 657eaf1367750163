import copy
import pickle

import numpy as np
import pytest
from helpers import Walk, problem

import tensorplan as tp
from tensorplan.bridges.gymnasium_env import ID, register_envs, to_gym
from tensorplan.problems.catalog import CATALOG

gymnasium = pytest.importorskip("gymnasium")
env_checker = pytest.importorskip("gymnasium.utils.env_checker")

EXAMPLES = [entry.example for entry in CATALOG.values()]
NUMBERED = ["hanoi/3", "chinese-rings/3", "grid/3x2", "layered/2x3", "layered/2x3:procedural=true"]


def play(env, seed, steps=200):
    """Everything that an environment says in random episodes."""
    chooser = np.random.default_rng(seed)
    said = [env.reset(seed=seed)]
    for _ in range(steps):
        said.append(env.step(chooser.integers(env.action_space.n)))
        if said[-1][2] or said[-1][3]:
            said.append(env.reset())
    return said


def equal(one, two):
    return env_checker.data_equivalence(one, two, exact=True)


# ------------------------------------------------------------------------------- Gymnasium's own checks


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("spec", EXAMPLES)
def test_every_problem_of_the_catalog_passes_check_env(spec):
    register_envs()
    env_checker.check_env(gymnasium.make(ID, problem=spec).unwrapped)
    env_checker.check_env(to_gym(spec), skip_render_check=True)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("spec", NUMBERED)
def test_states_pass_check_env(spec):
    register_envs()
    env_checker.check_env(gymnasium.make(ID, problem=spec, observation="state").unwrapped)


@pytest.mark.filterwarnings("error")
def test_other_problems_pass_check_env():
    table = tp.TabularMDP(np.full((3, 2, 3), 1 / 3), np.full((3, 2), 0.5), horizon=4, noise=True)
    arrays = Walk(start=lambda rng: np.zeros(2), step=lambda state, action, rng: (0.5, state + action))
    for task in (tp.featurize(table, 3), tp.delayed(tp.make("exponential/64:noise=false")), problem(arrays)):
        env_checker.check_env(to_gym(task), skip_render_check=True)
    env_checker.check_env(to_gym(tp.featurize(table, 3), observation="state"), skip_render_check=True)


@pytest.mark.parametrize("spec", EXAMPLES)
def test_episodes_stay_in_the_space_and_repeat_with_the_seed(spec):
    env = to_gym(spec)
    first, other = play(env, seed=3), play(to_gym(spec), seed=3)
    assert equal(first, other)
    assert all(said[0] in env.observation_space for said in first)
    low, high = env.problem.reward_range
    assert all(low <= said[1] <= high for said in first if len(said) == 5)


def test_seeds_matter():
    env = to_gym("layered-stochastic/2x3")
    assert not equal(play(env, seed=3), play(env, seed=4))


# --------------------------------------------------------------------------------------- what is shown


@pytest.mark.parametrize("spec", EXAMPLES)
def test_features_are_those_of_the_problem_to_the_bit(spec):
    env = to_gym(spec)
    task = env.problem
    seen, info = env.reset(seed=0)
    for _ in range(5):
        features = task.state_features if task.phi_v is not None else task.action_features
        expected = features(info["state"], info["stage"]).ravel()
        assert np.array_equal(seen[: expected.size], expected)
        assert seen[expected.size :].tolist() == ([] if task.horizon is None else [info["stage"] / task.horizon])
        seen, _, terminated, _, info = env.step(0)
        if terminated:
            break


def test_the_end_shows_no_features_and_the_last_stage():
    env = to_gym("layered/2x3:horizon=4")
    env.reset(seed=0)
    said = [env.step(0) for _ in range(4)]
    assert [s[2] for s in said] == [False, False, False, True]
    assert said[-1][0].tolist() == [0.0, 0.0, 0.0, 1.0]
    assert said[-1][4] == {"stage": 4}  # no state


def test_rewards_add_up_to_the_optimal_value_along_the_optimal_policy():
    for spec in ("hanoi/4", "layered/3x4:horizon=6", "grid/3x4"):
        env = to_gym(spec)
        _, info = env.reset(seed=0)
        value, total, terminated = info["optimal_value"], 0.0, False
        while not terminated:
            _, reward, terminated, _, _ = env.step(env.problem.optimal_policy(env.state, env.stage))
            total += reward
        assert total == pytest.approx(value, abs=1e-9)


def test_states_are_shown_as_whole_numbers():
    env = to_gym("grid/2x2", observation="state")
    assert env.observation_space == gymnasium.spaces.MultiDiscrete([3, 3])
    assert env.reset(seed=0)[0].tolist() == [0, 0]
    assert env.step(1)[0].tolist() == [1, 0]
    seen, reward, terminated, truncated, _ = env.step(3)  # the goal is END, one past the last number
    assert (seen.tolist(), reward, terminated, truncated) == ([2, 2], -1.0, True, False)


def test_a_state_that_carries_its_stage_is_one_number():
    env = to_gym("layered/2x3:states=5:horizon=3", observation="state")
    assert env.observation_space == gymnasium.spaces.Discrete(16)
    said = [env.reset(seed=0)[0], *(env.step(0)[0] for _ in range(3))]
    assert [s // 5 for s in said] == [0, 1, 2, 3]
    assert said[-1] == 15


def test_the_stage_is_shown_where_states_do_not_carry_it():
    table = tp.TabularMDP(np.eye(2)[[[0, 1], [1, 0]]], np.full((2, 2), 0.5), horizon=3)
    env = to_gym(tp.featurize(table, 2), observation="state")
    assert env.observation_space == gymnasium.spaces.MultiDiscrete([3, 4])
    said = [env.reset(seed=0)[0], *(env.step(1)[0] for _ in range(3))]
    assert [s.tolist() for s in said] == [[0, 0], [1, 1], [0, 2], [2, 3]]


# ------------------------------------------------------------------------------------------ episodes


def test_truncation_is_no_end():
    env = to_gym("hanoi/5", max_steps=3)
    env.reset(seed=0)
    assert [env.step(0)[2:4] for _ in range(4)] == [(False, False), (False, False), (False, True), (False, True)]
    env.reset()
    assert env.step(0)[3] is False


def test_an_end_at_max_steps_is_an_end():
    env = to_gym("grid/2x1", max_steps=1)
    env.reset(seed=0)
    assert env.step(1)[2:4] == (True, False)


def test_the_horizon_is_an_end():
    env = to_gym(problem())
    env.reset(seed=0)
    assert [env.step(1)[2:4] for _ in range(6)] == [(False, False)] * 5 + [(True, False)]


def test_episodes_can_start_anywhere():
    env = to_gym("layered/2x3:states=5:horizon=3")
    _, info = env.reset(seed=0, options={"state": 7, "stage": 1})
    assert info == {"stage": 1, "state": 7, "optimal_value": env.problem.optimal_value(7, 1)}
    assert [env.step(0)[2] for _ in range(2)] == [False, True]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sate": 1}, "no option 'sate'; did you mean 'state'"),
        ({"stage": 1}, "needs the option 'state'"),
        ({"state": 7, "stage": 3}, "from 0 to 2, got 3"),
        ({"state": tp.END}, "cannot start at END"),
        ({"state": 99, "stage": 1}, "there is no state 99"),
    ],
)
def test_bad_options_of_reset(options, sentence):
    env = to_gym("layered/2x3:states=5:horizon=3")
    with pytest.raises(tp.TensorplanError, match=sentence):
        env.reset(options=options)


def test_a_state_outside_of_the_space_is_refused():
    env = to_gym("hanoi/2", observation="state")
    with pytest.raises(tp.BadInput, match=r"\(0, 7\) is no state of problem 'hanoi/2' at stage 0"):
        env.reset(options={"state": (0, 7)})


def test_steps_before_the_reset_after_the_end_and_with_a_wrong_action():
    env = to_gym("grid/2x1")
    with pytest.raises(tp.BadInput, match="call reset"):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(tp.BadInput, match=r"actions are 0 \.\. 3"):
        env.step(4)
    env.step(1)
    with pytest.raises(tp.BadInput, match="call reset"):
        env.step(0)


# ----------------------------------------------------------------------------------- copies and vectors


@pytest.mark.parametrize("spec", EXAMPLES)
def test_a_copy_goes_the_same_way_and_leaves_the_original_alone(spec):
    env = to_gym(spec)
    env.reset(seed=5)
    env.step(0)
    twin = copy.deepcopy(env)
    assert twin.problem is env.problem
    assert twin.np_random is not env.np_random
    said = [twin.step(1)]
    while not said[-1][2] and len(said) < 50:
        said.append(twin.step(1))
    assert all(equal(one, env.step(1)) for one in said)


def test_pickles_where_the_problem_does():
    env = to_gym("exponential/64")
    env.reset(seed=5)
    twin = pickle.loads(pickle.dumps(env))
    for _ in range(3):
        assert equal(env.step(1), twin.step(1))


def test_states_in_info_are_not_those_inside():
    env = to_gym(problem(Walk(start=lambda rng: [0], step=lambda state, action, rng: (0.5, [state[0] + action]))))
    _, info = env.reset(seed=0)
    info["state"][0] = 99
    assert env.step(1)[4]["state"] == [1]


@pytest.mark.parametrize(("spec", "observation"), [("layered-stochastic/2x3", "state"), ("grid/2x2", "features")])
def test_vectors_of_environments_that_end_at_different_times(spec, observation):
    register_envs()
    vector = gymnasium.make_vec(
        ID, num_envs=3, vectorization_mode="sync", vector_kwargs={}, problem=spec, observation=observation
    )
    vector.reset(seed=0)
    vector.action_space.seed(0)
    ends = sum(vector.step(vector.action_space.sample())[2].astype(int) for _ in range(60))
    assert (ends > 0).all()


# -------------------------------------------------------------------------------------------- learning


def test_q_learning_finds_the_optimal_policy():
    """Tabular Q-learning, as a library would do it, knowing nothing but the environment."""
    env = to_gym("grid/3x3", observation="state", max_steps=100)
    q, rng = {}, np.random.default_rng(0)
    seen, _ = env.reset(seed=0)
    for _ in range(3000):
        here = q.setdefault(tuple(seen), np.zeros(4))
        action = int(rng.integers(4)) if rng.random() < 0.2 else int(np.argmax(here))
        seen, reward, terminated, truncated, _ = env.step(action)
        ahead = 0.0 if terminated else q.setdefault(tuple(seen), np.zeros(4)).max()
        here[action] += 0.5 * (reward + ahead - here[action])
        if terminated or truncated:
            seen, _ = env.reset()
    seen, info = env.reset()
    total, terminated = 0.0, False
    for _ in range(20):
        seen, reward, terminated, _, _ = env.step(int(np.argmax(q[tuple(seen)])))
        total += reward
        if terminated:
            break
    assert terminated
    assert total == info["optimal_value"] == -4.0


# ------------------------------------------------------------------------------------------- bad input


def test_bad_arguments():
    with pytest.raises(tp.BadInput, match="observation must be one of features, state, got 'pixels'"):
        to_gym("hanoi/3", observation="pixels")
    with pytest.raises(tp.BadInput, match="max_steps must be a whole number >= 1"):
        to_gym("hanoi/3", max_steps=0)
    with pytest.raises(tp.BadInput, match=r"expected a problem, or the name of one such as .*, got 3"):
        to_gym(3)
    with pytest.raises(tp.BadInput, match="did you mean 'hanoi'"):
        to_gym("hanio/3")
    for spec in ("hard/2x3", "exponential/64", f"layered/2x3:states={10**19}"):
        with pytest.raises(tp.BadInput, match="not whole numbers of a known size: use observation='features'"):
            to_gym(spec, observation="state")
