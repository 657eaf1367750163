"""Gymnasium environments as problems: the toy-text and classic-control ones, wrappers, features, bad input."""

import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces, wrappers

import tensorplan as tp
from tensorplan.access import LocalAccess
from tensorplan.features import Frame
from tensorplan.problems.gym import faithful as gym_verify
from tensorplan.problems.gym.table import GymTable
from tensorplan.testing import check_problem

OWN = ("gymnasium.envs.toy_text", "gymnasium.envs.classic_control")
DISCRETE = sorted(
    name
    for name, spec in gymnasium.registry.items()
    if str(spec.entry_point).startswith(OWN) and name not in ("Pendulum-v1", "MountainCarContinuous-v0")
)
TABLES = [name for name in DISCRETE if name.startswith(("Frozen", "Cliff", "Taxi"))]


def rng(*seed):
    return np.random.default_rng(seed or 0)


# ------------------------------------------------------------------------------------ Gymnasium's own


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


# -------------------------------------------------------------------------------------------- planning


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
    with pytest.raises(tp.BadInput, match="'gym' needs the parameter 'features'"):
        tp.make("gym/CliffWalking-v1")
    for option, sentence in (
        ("name=x", "'gym' has no parameter 'name'"),
        ("name=none", "'gym' has no parameter 'name'"),
        ("reward_range=3", "reward_range must be probe, or from Python a pair"),
        ("get_state=3:set_state=4", "get_state must be a function, got 3"),
    ):
        with pytest.raises(tp.BadInput, match=sentence):
            tp.make(f"gym/CliffWalking-v1:features=poly2:{option}")


# -------------------------------------------------------------------------------------------- wrappers


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


# -------------------------------------------------------------------------------------------- features


def test_features_of_all_kinds():
    from sklearn.preprocessing import PolynomialFeatures

    poly = PolynomialFeatures(2).fit(np.zeros((1, 2)))
    for features, d in (
        ("onehot", 16),
        ("tiles2x3", 3 * 4),
        (lambda x: [1.0, x[0], x[1]], 3),
        (poly, 6),
        (["poly1", lambda x, stage: [x[0] * stage]], 4),
        ("aggregate2@stage", 4 * 100),
    ):
        scale = 1.0 if isinstance(features, str) else 500.0
        problem = tp.from_gym("FrozenLake-v1", features=features, scale=scale)
        assert problem.dimension == d
        check_problem(problem, episodes=2)


class Ramp(gymnasium.Env):
    """Five steps up cost 1 each and 10 is paid at the top; giving up pays 2 at the bottom, later 1: v* = 5 + x."""

    action_space = spaces.Discrete(2)
    top = 5

    def __init__(self, low=0.0, high=1.0):
        self.observation_space = spaces.Box(low, high, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0
        return np.array([self.x], dtype=np.float32), {}

    def step(self, action):
        reward = (1.0 + (self.x == 0), -1.0 + 10.0 * (self.x == self.top - 1))[action]
        self.x += 1
        return np.array([self.x], dtype=np.float32), reward, action == 0 or self.x == self.top, False, {}


def ramp(env=Ramp, **options):
    return tp.from_gym(env, **{"features": "linear", "reward_range": (-1, 9), "bound": 20.0} | options)


def test_an_observation_outside_of_its_space_is_an_error_not_a_proof():
    """Moved to the end of the space all states but the first look alike, and "certified: v* = 2" follows."""
    with pytest.raises(tp.ProblemError) as error:
        tp.run(ramp(), tp.TensorPlan())
    assert str(error.value) == (
        "x0 = 2 at the point [2.] is outside of [0, 1]: declare a larger space, or give a larger frame=(low, high)"
    )


@pytest.mark.parametrize("frame", [((0,), (5,)), (np.array([0]), [5.0]), Frame((0,), (5,), names=("height",))])
def test_a_frame_may_be_given(frame):
    problem = ramp(frame=frame)
    (episode,) = tp.run(problem, tp.TensorPlan()).episodes
    assert (episode.total_reward, episode.certificate.status) == (5, "certified")
    assert problem.mdp.frame.horizon == problem.horizon
    assert problem.phi_v.map.frame == problem.mdp.frame
    assert problem.mdp.clipped == problem.phi_v.clipped == 0


def test_clipping_must_be_asked_for_and_is_counted():
    problem = ramp(outside="clip")
    with pytest.raises(tp.NotRealizable) as refuted:  # v* = 5 is not linear in features of clipped points
        tp.run(problem, tp.TensorPlan())
    (episode,) = refuted.value.run.episodes
    assert episode.certificate.lower == pytest.approx(5)
    assert any("observations were clipped" in doubt for doubt in episode.certificate.warnings)
    assert problem.mdp.clipped == problem.phi_v.clipped > 0
    assert ramp(outside="clip", frame=((0,), (5,))).mdp.clipped == 0


def test_where_a_space_has_no_end_random_play_suggests_one():
    frame = ramp(Ramp(-np.inf, np.inf)).mdp.frame
    assert frame.guessed == (0,)
    assert frame.low[0] < 0
    assert frame.high[0] >= 8  # random play got to 4 at least
    assert ramp().mdp.frame.guessed == ()


class Tower(Ramp):
    """A ramp of a hundred steps, of which random play sees few, and no end of the space."""

    top = 100

    def __init__(self):
        super().__init__(-np.inf, np.inf)


@pytest.mark.parametrize(
    ("features", "goes_on"), [("poly2", False), ("tiles2x2", False), ("rff9", True), ("rbf3", True)]
)
def test_beyond_the_guess_features_are_refused_unless_they_are_defined_there(features, goes_on):
    problem = ramp(Tower, features=features)
    states = [problem.mdp.start(rng())]
    for _ in range(90):
        states.append(problem.mdp.step(states[-1], 1, rng())[1])
    if goes_on:
        assert len({problem.state_features(state, 0).tobytes() for state in states[:40]}) == 40
        return
    with pytest.raises(tp.ProblemError, match=r"^x0 = 90 at .*, an estimate from random play: give frame="):
        problem.state_features(states[-1], 0)
    problem = ramp(Tower, features=features, frame=((0,), (100,)))
    assert all(np.linalg.norm(problem.state_features(state, 0)) <= 1 + 1e-9 for state in states)


@pytest.mark.parametrize("name", ["CartPole-v1", "MountainCar-v0", "Acrobot-v1"])
def test_classic_control_stays_in_its_frame(name):
    """Whatever is done: at random, always the same, or what makes it fastest."""
    problem = tp.from_gym(name, features="tiles2x2", bound=100.0)
    dice = rng(1)
    for episode in range(12):
        state, stage = problem.mdp.start(rng(episode)), 0
        while state is not tp.END and stage < problem.horizon - 1:
            problem.state_features(state, stage)
            speed = problem.mdp.point(state)[-1]
            action = (int(dice.integers(problem.actions)), 0, problem.actions - 1, (problem.actions - 1) * (speed > 0))
            state, stage = problem.mdp.step(state, action[episode % 4], rng())[1], stage + 1


def test_a_frame_of_a_table():
    wide = tp.from_gym("FrozenLake-v1", features="linear", frame=((0, 0), (7, 7))).mdp.frame
    assert (wide.high, wide.names, wide.whole) == ((7, 7), ("row", "column"), True)


def test_features_of_pairs():
    problem = tp.from_gym("CliffWalking-v1", features="poly1", kind="q")
    assert problem.phi_v is None
    block = problem.action_features(36, 0)
    assert block.shape == (4, 12)
    np.testing.assert_array_equal(block[2, 6:9], tp.from_gym("CliffWalking-v1", features="poly1").state_features(36, 0))
    assert np.count_nonzero(block[2]) == np.count_nonzero(block[2, 6:9])
    assert problem.phi_q.names[3] == "action 1: 1"


def test_the_bound_of_a_table_is_read_off_its_solution():
    problem = tp.from_gym("FrozenLake-v1", features="onehot", horizon=None, discount=0.9)
    values = [problem.optimal_value(s) for s in range(16)]
    assert problem.bound == pytest.approx(1.2 * np.linalg.norm(np.array(values)[list(reached(problem))]))
    pairs = tp.from_gym("FrozenLake-v1", features="onehot", horizon=None, discount=0.9, kind="q")
    solution = pairs.solution
    rows = [[solution.action_value(s, a, 0) for a in range(4)] for s in reached(pairs)]
    assert pairs.bound == pytest.approx(1.2 * np.linalg.norm(rows))


def reached(problem):
    seen, front = {0}, [0]
    while front:
        state = front.pop()
        for action in range(4):
            _, successors, _ = problem.mdp.step_batch(state, action, 1, rng())
            new = {s for s in successors if s is not tp.END} - seen
            seen |= new
            front += new
    return seen


# -------------------------------------------------------------------------------------------- bad input


class Walk(gymnasium.Env):
    """Left or right on a line of five."""

    observation_space = spaces.Discrete(5)
    action_space = spaces.Discrete(2)

    def __init__(self):
        self.place = 2

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 2
        return self.place, {}

    def step(self, action):
        self.place += 2 * int(action) - 1
        return self.place, float(self.place == 4), self.place in (0, 4), False, {}


@pytest.mark.parametrize(
    ("env", "options", "sentence"),
    [
        ("FrozenLak-v1", {}, r"Gymnasium has no environment 'FrozenLak-v1'; did you mean 'FrozenLake-v1'\?"),
        ("Pendulum-v1", {}, r"Pendulum-v1 has continuous actions \(Box.*wrap it with some of them"),
        ("FrozenLake-v1", {"colour": 3}, r"gymnasium.make\('FrozenLake-v1'\) failed: .*'colour'"),
        (Walk, {}, r"the range of the rewards of Walk is not known: give reward_range=\(low, high\); .* saw 0 to 1"),
        (Walk, {"reward_range": (0, 1)}, r"the bound on ‖θ\*‖ is not known for Walk: give bound=B"),
        (Walk, {"reward_range": (0, 1), "features": "realizing"}, r"Walk has no transition table"),
        (Walk, {"restore": "table"}, r"Walk has no transition table \(env.P, env.s\) that its steps follow"),
        (Walk(), {"colour": 3}, r"options for gymnasium.make \(colour\) go with an id"),
        (3, {}, r"expected a Gymnasium id, an environment, or a function that makes one, got 3"),
        (lambda: 3, {}, r"the function must return a gymnasium.Env, got int"),
        (lambda: 1 / 0, {}, r"the function that makes the environment raised ZeroDivisionError: division by zero"),
        ("FrozenLake-v1", {"get_state": id}, r"give both get_state and set_state, or neither"),
        ("FrozenLake-v1", {"features": "realizingx"}, r"unknown feature map 'realizingx'"),
        ("FrozenLake-v1", {"features": "pol2"}, r"unknown feature map 'pol'; did you mean 'poly'\?"),
        ("FrozenLake-v1", {"kind": "w"}, r"kind must be one of v, q, got 'w'"),
        ("CartPole-v1", {"features": "onehot", "bound": 1}, r"'onehot' needs a frame of whole numbers"),
        ("Blackjack-v1", {"deterministic": True, "bound": 1}, r"Blackjack-v1 is not deterministic: step .*other"),
        ("FrozenLake-v1", {"deterministic": True}, r"is not deterministic: its transition table has several outcomes"),
        ("Taxi-v4", {"reward_range": (0, 1)}, r"rewards of Taxi-v4 go from -10 to 20, not reward_range=\(0, 1\)"),
        (lambda: wrappers.Autoreset(Walk()), {}, r"resets itself at the end of an episode"),
        ("CartPole-v1", {"frame": 3}, r"frame must be \(low, high\) or a Frame, got 3"),
        ("CartPole-v1", {"frame": ((0, "a"), (1, 2))}, r"frame must be \(low, high\) or a Frame, got"),
        ("CartPole-v1", {"frame": ((0,), (1,))}, r"observations of CartPole-v1 have 4 coordinates, and frame has 1"),
        ("CartPole-v1", {"frame": ((0,) * 4, (0, 1, 2))}, r"a frame needs as many low as high ends, got 4 and 3"),
        ("FrozenLake-v1", {"frame": ((0, 0), (1.5, 2))}, r"the frame of row must end at whole numbers|column"),
        ("FrozenLake-v1", {"outside": "wrap"}, r"outside must be one of refuse, clip, got 'wrap'"),
    ],
)
@pytest.mark.filterwarnings("ignore:the observation of Blackjack")
def test_one_sentence(env, options, sentence):
    with pytest.raises(tp.BadInput, match=sentence) as error:
        tp.from_gym(env, **{"features": "poly1", **options})
    assert "\n" not in str(error.value)


def test_the_steps_of_trying_it_out_are_counted():
    made = []

    class Counted(Walk):
        def step(self, action):
            made.append(action)
            return super().step(action)

    problem = tp.from_gym(Counted, features="poly1", reward_range=(0, 1), bound=2.0, retries=1)
    assert 500 < problem.unmetered == len(made) < 3000
    assert tp.from_gym("FrozenLake-v1", features="realizing3").unmetered > 100


def test_a_slow_environment_is_tried_out_with_a_word(monkeypatch, caplog):
    monkeypatch.setattr(gym_verify, "SILENCE", 0.0)
    tp.from_gym(Walk, features="poly1", reward_range=(0, 1), bound=2.0)
    assert caplog.messages[0] == "probing Walk: 1 steps so far"


def test_a_range_of_rewards_may_be_probed():
    problem = tp.from_gym(Walk, features="poly1", reward_range="probe", bound=2.0)
    assert problem.reward_range == (0, 1)
    assert problem.deterministic
    with pytest.raises(tp.ProblemError, match=r"the reward 1.0, which is outside of the declared range \[0, 0.5\]"):
        check_problem(tp.from_gym(Walk, features="poly1", reward_range=(0, 0.5), bound=2.0))


def test_blackjack_shows_less_than_its_state():
    with pytest.warns(UserWarning, match="the observation of Blackjack-v1 is not its state"):
        tp.from_gym("Blackjack-v1", features="poly1", bound=2.0)


def test_without_gymnasium(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "tensorplan.problems.gym.mdp", raising=False)
    with pytest.raises(tp.BadInput, match=r"from_gym needs Gymnasium: pip install 'tensorplan\[gym\]'"):
        tp.from_gym("FrozenLake-v1", features="poly1")


class Combined(Walk):
    """Two switches and a lever; what is seen is a dictionary."""

    action_space = spaces.MultiDiscrete([2, 3])
    observation_space = spaces.Dict(
        {"a": spaces.Discrete(2), "b": spaces.Box(-1, 1, (2, 2)), "c": spaces.MultiBinary(2)}
    )

    def seen(self):
        return {"a": self.place % 2, "b": np.full((2, 2), self.place / 10), "c": np.array([1, self.place > 2])}

    def reset(self, **options):
        super().reset(**options)
        return self.seen(), {}

    def step(self, action):
        _, reward, *rest = super().step(action[0])
        return self.seen(), reward * action[1] / 2, *rest


def test_combined_actions_and_observations():
    problem = tp.from_gym(Combined, features="poly1", reward_range=(0, 1), bound=5.0)
    assert problem.actions == 6
    assert problem.mdp.frame.size == 7
    state = problem.mdp.start(rng())
    assert problem.mdp.point(state).tolist() == [0, 0.2, 0.2, 0.2, 0.2, 1, 0]
    for action, expected in ((3, 0.0), (5, 1.0)):  # (1, 0), then (1, 2) at place 3
        reward, state = problem.mdp.step(state, action, rng())
        assert reward == expected
    assert state is tp.END
