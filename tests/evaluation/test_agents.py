"""Trained agents and networks as policies and value functions."""

import gymnasium
import numpy as np
import pytest

import tensorplan as tp

PROBLEM = "queue-admission/6:features=poly2"


class Agent:
    """Predicts as agents of Stable-Baselines3 do."""

    def __init__(self):
        self.explores = False

    def predict(self, observation, state=None, deterministic=False):
        self.explores |= not deterministic
        return np.array(int(observation < 3)), None


class Simple:
    def predict(self, observation):
        return np.int64(observation < 3)


def threshold(state, stage):
    return int(state < 3)


@pytest.fixture(scope="module")
def expected():
    return tp.audit(PROBLEM, threshold, lambda state, stage: 1.0, budget=20_000)


def same(one, other):
    return (one.lower, one.upper, one.queries) == (other.lower, other.upper, other.queries)


def test_agents_with_predict(expected):
    agent = Agent()
    assert same(tp.audit(PROBLEM, agent, lambda state, stage: 1.0, budget=20_000), expected)
    assert not agent.explores
    assert same(tp.audit(PROBLEM, Simple(), lambda state, stage: 1.0, budget=20_000), expected)


def test_agents_see_observations():
    """Of Gymnasium's environments, not the captured states."""

    class Corridor(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(0.0, 4.0, (1,))
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.x = 0
            return np.array([0.0], np.float32), {}

        def step(self, action):
            self.x = min(self.x + (action if self.np_random.random() < 0.8 else 0), 4)
            return np.array([self.x], np.float32), float(self.x == 4), False, False, {}

    class Right:
        def predict(self, observation):
            assert observation.shape == (1,)
            return 1

    problem = tp.from_gym(Corridor(), features="poly1", horizon=6, reward_range=(0, 1), bound=10.0)
    audit = tp.audit(problem, Right(), budget=8_000)
    assert 0 < audit.lower <= audit.upper <= 6


def test_networks(expected):
    torch = pytest.importorskip("torch")

    class Network(torch.nn.Module):  # type: ignore[name-defined]
        def forward(self, x):
            return torch.stack([x * 0 + 2.5, 5.0 - x], dim=-1) if self.outputs == 2 else x * 0 + 1.0

    policy, critic = Network(), Network()
    policy.outputs, critic.outputs = 2, 1
    assert same(tp.audit(PROBLEM, policy, critic, budget=20_000), expected)
