"""Environments that are no problem yet, and what is asked of them: bad input, probing, combined spaces."""

import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces, wrappers
from helpers import rng

import tensorplan as tp
from tensorplan.problems.gym.restoring import faithful as gym_verify
from tensorplan.testing import check_problem


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
        (
            Walk,
            {"restore": "adapter", "reward_range": (0, 1)},
            r"Walk has no adapter as a whole: register one for its class \(tp.register_restore\)",
        ),
        (Walk(), {"colour": 3}, r"options for gymnasium.make \(colour\) go with an id"),
        (3, {}, r"expected a Gymnasium id, an environment, or a function that makes one, got 3"),
        (lambda: 3, {}, r"the function must return a gymnasium.Env, got int"),
        (lambda: 1 / 0, {}, r"the function that makes the environment raised ZeroDivisionError: division by zero"),
        ("FrozenLake-v1", {"get_state": id}, r"give both get_state and set_state, or neither"),
        ("FrozenLake-v1", {"features": "realizingx"}, r"unknown feature map 'realizingx'"),
        ("FrozenLake-v1", {"features": "pol2"}, r"unknown feature map 'pol'; did you mean 'poly'\?"),
        ("FrozenLake-v1", {"kind": "w"}, r"kind must be one of v, q, got 'w'"),
        ("CartPole-v1", {"features": "onehot", "bound": 1}, r"'onehot' needs a frame of whole numbers"),
        (
            "Blackjack-v1",
            {"deterministic": True, "bound": 1},
            r"is not deterministic: with other random numbers, step",
        ),
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
    assert 100 < problem.unmetered == len(made) < 300
    assert str(problem.mdp.restoring) == f"restored by attributes, verified over {len(made)} steps"
    assert str(tp.from_gym(Walk, reward_range=(0, 1), bound=2.0, verify=False).mdp.restoring).endswith("not verified")
    assert tp.from_gym("FrozenLake-v1", features="realizing3").unmetered > 100


def test_a_slow_environment_is_tried_out_with_a_word(monkeypatch, caplog):
    monkeypatch.setattr(gym_verify, "SILENCE", 0.0)
    tp.from_gym(Walk, features="poly1", reward_range=(0, 1), bound=2.0)
    assert caplog.messages[0] == "verifying Walk: 1 steps so far"


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
    monkeypatch.delitem(sys.modules, "tensorplan.problems.gym.opening", raising=False)
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
    assert problem.mdp.frame.names == ("a=0", "a=1", "b[0,0]", "b[0,1]", "b[1,0]", "b[1,1]", "c[0]", "c[1]")
    state = problem.mdp.start(rng())
    assert problem.mdp.point(state).tolist() == [1, 0, 0.2, 0.2, 0.2, 0.2, 1, 0]
    for action, expected in ((3, 0.0), (5, 1.0)):  # (1, 0), then (1, 2) at place 3
        reward, state = problem.mdp.step(state, action, rng())
        assert reward == expected
    assert state is tp.END


def test_what_was_verified_once_is_not_verified_again(monkeypatch):
    monkeypatch.setattr("tensorplan.problems.gym.opening._VERIFIED", {})
    first, again = (tp.from_gym("Acrobot-v1", features="poly1", seed=seed) for seed in (0, 1))
    assert again.unmetered < first.unmetered / 2
    assert str(again.mdp.restoring) == str(first.mdp.restoring)
    assert tp.from_gym("Acrobot-v1", features="poly1", verify=200).unmetered >= 150


class Drifting(Walk):
    """Its range is not known: the longer it is played, the more is seen."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(-100, 100))
        return np.array([self.place], np.float32), {}

    def step(self, action):
        self.place += 2 * int(action) - 1
        return np.array([self.place], np.float32), float(self.place), False, False, {}


def test_an_environment_that_was_verified_before_is_the_same_problem(monkeypatch):
    monkeypatch.setattr("tensorplan.problems.gym.opening._VERIFIED", {})
    gymnasium.register("Drifting-v0", Drifting)
    try:
        first, again = (tp.from_gym("Drifting-v0", horizon=20, reward_range="probe", bound=1.0) for _ in range(2))
    finally:
        del gymnasium.registry["Drifting-v0"]
    assert again.unmetered < first.unmetered / 2
    assert again.reward_range == first.reward_range
    assert again.mdp.frame == first.mdp.frame
