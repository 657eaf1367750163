"""Both ways over the bridge: our planners in Gymnasium's environments, and our problems out to Gymnasium and back."""

import numpy as np
import pytest

import tensorplan as tp
from tensorplan.bridges.agent import PlannerAgent
from tensorplan.bridges.gymnasium_env import to_gym

gymnasium = pytest.importorskip("gymnasium")
data_equivalence = pytest.importorskip("gymnasium.utils.env_checker").data_equivalence
from_gym = pytest.importorskip("tensorplan.problems.gym.convert").from_gym


class Asking:
    """A planner that asks about every action, twice, and goes its own way."""

    def begin(self, access, rng):
        self.access, self.rng = access, rng
        return self

    def act(self, node):
        for action in range(self.access.actions):
            self.access.query(node, action, 2)
        return int(self.rng.integers(self.access.actions))


def put(env, place):
    env.state, env.stage = place
    env.steps = 0


def back(task, **options):
    """The problem after a round trip."""
    shown = task.dimension * (1 if task.phi_v is not None else task.actions)
    assert task.phi_v is not None
    return from_gym(
        lambda: to_gym(task),
        features=lambda x: x[:shown],
        bound=task.bound,
        horizon=task.horizon,
        reward_range=task.reward_range,
        **options,
    )


def strip(run):
    return [(e.actions, e.rewards, e.queries, e.certificate) for e in run.episodes]


# ----------------------------------------------------------------------------------- out and back


@pytest.mark.filterwarnings("ignore:the observation of ProblemEnv is not its state")
@pytest.mark.parametrize("way", ["attributes", "functions"])
@pytest.mark.parametrize("spec", ["hanoi/4", "grid/3x3", "layered/3x4:horizon=5", "hard/2x3:noise=false"])
def test_a_problem_plans_the_same_after_a_round_trip(spec, way):
    task = tp.make(spec)
    functions = {"get_state": lambda env: (env.state, env.stage), "set_state": put}
    again = back(task, **(functions if way == "functions" else {"restore": way}))
    assert again.deterministic == task.deterministic
    assert hash(again.mdp.start(np.random.default_rng(0))) is not None  # states can be told apart
    assert strip(tp.run(again, tp.TensorPlan(), seed=1)) == strip(tp.run(task, tp.TensorPlan(), seed=1))


@pytest.mark.parametrize("planner", [tp.UCT(simulations=20), tp.SparseSampling(width=2), tp.RandomPlanner()])
def test_random_problems_draw_the_same_after_a_round_trip(planner):
    class Single:
        """The simulator without batches, which draw in another order."""

        def __init__(self, mdp):
            self.start, self.step = mdp.start, mdp.step
            self.horizon, self.actions, self.reward_range = mdp.horizon, mdp.actions, mdp.reward_range

    table = tp.make("layered-stochastic/2x3:horizon=3:states=5")
    task = tp.Problem(Single(table.mdp), table.phi_v, bound=table.bound)
    again = back(task, get_state=lambda env: (env.state, env.stage), set_state=put)
    assert not again.deterministic_transitions
    assert strip(tp.run(again, planner, episodes=3, seed=1)) == strip(tp.run(task, planner, episodes=3, seed=1))


def test_an_agent_in_the_round_trip():
    task = tp.make("layered/3x4:horizon=5")
    agent = PlannerAgent(tp.TensorPlan(), back(task))
    env = to_gym(task)
    _, info = env.reset(seed=0)
    total, terminated = 0.0, False
    while not terminated:
        _, reward, terminated, _, _ = env.step(agent.act(env))
        total += reward
    assert total == pytest.approx(info["optimal_value"], abs=1e-9)
    assert len([q for q in agent.queries if q]) == 1  # planned once


# ------------------------------------------------------------------------- in Gymnasium's environments


def named(name):
    """The newest version that this Gymnasium has."""
    return [spec for spec in gymnasium.registry if spec.startswith(f"{name}-v")][-1]


ENVIRONMENTS = {
    "FrozenLake": {"features": "onehot"},
    "Taxi": {"features": "realizing3"},
    "CartPole": {"features": "poly1", "bound": 100.0},
    "MountainCar": {"features": "poly1", "bound": 100.0},
    "Acrobot": {"features": "poly1", "bound": 100.0},
    "Blackjack": {"features": "poly1", "bound": 1.0, "horizon": 20},
}


@pytest.mark.filterwarnings("ignore:the observation of Blackjack")
@pytest.mark.parametrize("bare", [False, True])
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_planning_leaves_the_environment_as_it_was_to_the_bit(name, bare):
    env, twin = (gymnasium.make(named(name)) for _ in range(2))
    if bare:
        env, twin = env.unwrapped, twin.unwrapped
    agent, chooser = PlannerAgent(Asking(), **{"horizon": 50} | ENVIRONMENTS[name]), np.random.default_rng(0)
    assert data_equivalence(env.reset(seed=1), twin.reset(seed=1), exact=True)
    for _ in range(60):
        assert agent.act(env) in env.action_space
        action = int(chooser.integers(env.action_space.n))
        said = env.step(action)
        assert data_equivalence(said, twin.step(action), exact=True)
        assert env.unwrapped.np_random.bit_generator.state == twin.unwrapped.np_random.bit_generator.state
        if said[2] or said[3]:
            assert data_equivalence(env.reset(), twin.reset(), exact=True)
    assert len(agent.queries) == 60
    assert max(agent.queries) == (1 if agent.problem.deterministic else 2) * env.action_space.n


def play(agent, env, seed):
    env.reset(seed=seed)
    total, over = 0.0, False
    while not over:
        _, reward, terminated, truncated, _ = env.step(agent.act(env))
        total, over = total + reward, terminated or truncated
    return total


@pytest.mark.parametrize(
    ("name", "options", "best"),
    [
        ("FrozenLake", {"is_slippery": False, "map_name": "8x8"}, {0: 1.0}),
        ("CliffWalking", {"max_episode_steps": 60}, {0: -13.0}),
    ],
)
def test_the_loop_that_everybody_writes(name, options, best):
    env = gymnasium.make(named(name), **options)
    agent = PlannerAgent(tp.TensorPlan(), features="realizing5")
    for seed, total in best.items():
        assert play(agent, env, seed) == total
    assert agent.certificate.status == "certified"
    assert agent.certificate.lower == pytest.approx(total)
    assert len([q for q in agent.queries if q]) == 1


def test_taxi_from_many_starts_is_optimal():
    env = gymnasium.make(named("Taxi"), max_episode_steps=30)
    agent = PlannerAgent(tp.TensorPlan(), features="realizing5")
    for seed in range(5):
        env.reset(seed=seed)
        agent.act(env)
        value = agent.problem.optimal_value(int(env.unwrapped.s))
        assert play(agent, env, seed) == pytest.approx(value)


def test_an_agent_acts_on_observations_of_a_table():
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    agent = PlannerAgent(tp.TensorPlan(), from_gym(env, features="realizing5"))
    for _ in range(2):
        seen, _ = env.reset(seed=0)
        over, total = False, 0.0
        while not over:
            seen, reward, terminated, truncated, _ = env.step(agent.act(seen))
            total, over = total + reward, terminated or truncated
        assert total == 1.0


def test_another_environment_of_gymnasium_is_another_problem():
    agent = PlannerAgent(tp.TensorPlan(), features="realizing5")
    for size in ("4x4", "8x8"):
        env = gymnasium.make("FrozenLake-v1", is_slippery=False, map_name=size)
        assert play(agent, env, 0) == 1.0
    assert agent.problem.mdp.states(0) == range(64)


def test_a_time_limit_is_a_horizon_and_the_agent_can_join_midway():
    """From the third step on, with the stage that the environment's clock shows."""
    env = gymnasium.make("FrozenLake-v1", is_slippery=False, max_episode_steps=8)
    agent = PlannerAgent(tp.TensorPlan(), features="realizing5")
    env.reset(seed=0)
    for action in (0, 0):  # against the wall: six steps are left, just enough
        env.step(action)
    assert agent.act(env) in (1, 2)
    assert agent.certificate.lower == 1.0
    env.reset(seed=0)
    for action in (0, 0, 0):  # one too many
        env.step(action)
    agent.act(env)
    assert agent.certificate.upper == pytest.approx(0.0, abs=1e-4)


def test_an_environment_that_cannot_be_asked_what_it_showed():
    class Mute(gymnasium.Env):  # type: ignore[name-defined]
        """Shows a coordinate, and keeps it under a name that nobody knows."""

        action_space = gymnasium.spaces.Discrete(2)
        observation_space = gymnasium.spaces.Box(0.0, 20.0, (1,), np.float64)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.hidden = 0
            return np.array([0.0]), {}

        def step(self, action):
            self.hidden += action
            return np.array([float(self.hidden)]), 0.0, self.hidden == 20, False, {}

    agent = PlannerAgent(Asking(), features="poly1", bound=1.0, horizon=5, reward_range=(0.0, 1.0))
    env = Mute()
    seen, _ = env.reset()
    with pytest.raises(tp.BadInput, match="pass the observation as well"):
        agent.act(env)
    assert agent.act(env, seen) in (0, 1)


@pytest.mark.parametrize("name", ["FrozenLake", "CartPole"])
def test_an_environment_that_was_not_reset(name):
    agent = PlannerAgent(Asking(), **{"horizon": 50} | ENVIRONMENTS[name])
    with pytest.raises(tp.BadInput, match="was not reset yet: call reset\\(\\) before act"):
        agent.act(gymnasium.make(named(name)))
