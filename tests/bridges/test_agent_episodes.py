"""Where an agent begins to plan anew, and the observations it takes for states."""

import numpy as np
import pytest
from agents import Script, episode
from helpers import Walk, problem

import tensorplan as tp
from tensorplan.bridges.agent import PlannerAgent
from tensorplan.bridges.gymnasium_env import ID, register_envs, to_gym

gymnasium = pytest.importorskip("gymnasium")


def test_one_planning_episode_per_episode():
    script = Script()
    agent, env = PlannerAgent(script), to_gym(problem())
    for _ in range(3):
        episode(agent, env)
    assert script.roots == [(0, 0, 6)] * 3
    assert script.nodes == [(i, i) for i in range(6)] * 3


@pytest.mark.parametrize("horizon", [6, None])
def test_a_reset_is_noticed_even_where_the_state_could_have_come_about(horizon):
    script = Script(lambda node: 0)  # stays at 0, the start state
    agent, env = PlannerAgent(script), to_gym(problem(Walk(horizon=horizon, deterministic_transitions=True)))
    env.reset()
    for _ in range(3):
        env.step(agent.act(env))
    env.reset()
    agent.act(env)
    assert [root[0] for root in script.roots] == [0, 0]
    assert [stage for _, stage in script.nodes] == ([0, 1, 2, 0] if horizon else [0] * 4)


def test_asked_twice_without_a_step_it_begins_anew():
    """Episodes of one step from the same state look just the same, and must not share their luck."""
    agent, env = PlannerAgent(tp.RandomPlanner()), to_gym(problem(Walk(horizon=1)))
    actions = [action for _ in range(40) for action in episode(agent, env)[0]]
    assert 10 < sum(actions) < 30


def test_other_actions_than_those_advised():
    """A deterministic plan must not be replayed from a state that it does not lead to."""
    agent, env = PlannerAgent(tp.TensorPlan()), to_gym("hanoi/4")
    env.reset(seed=0)
    chooser, steps = np.random.default_rng(1), 0
    for _ in range(30):
        agent.act(env)
        env.step(int(chooser.integers(3)))
    value = env.problem.optimal_value(env.state)
    while env.state is not tp.END:
        env.step(agent.act(env))
        steps += 1
    assert steps == -value


def test_an_episode_joined_midway_is_planned_from_its_stage():
    task = tp.make("layered/3x4:horizon=8:states=20")
    for planner in (tp.TensorPlan(), tp.Oracle()):
        agent, env = PlannerAgent(planner), to_gym(task)
        env.reset(seed=0)
        for _ in range(5):
            env.step(0)
        value, total = task.optimal_value(env.state, env.stage), 0.0
        for _ in range(3):
            total += env.step(agent.act(env))[1]
        assert env.state is tp.END
        assert total == pytest.approx(value, abs=1e-9)
        if agent.certificate is not None:
            assert agent.certificate.lower == pytest.approx(value, abs=1e-4)


def test_joined_midway_where_a_table_has_no_solution_yet():
    task = tp.make("layered/3x4:horizon=4:states=20")
    bare = tp.Problem(task.mdp, task.phi_v, bound=task.bound)
    agent, env = PlannerAgent(tp.Oracle()), to_gym(bare)
    env.reset(seed=0, options={"state": 30, "stage": 1})
    assert agent.act(env) == task.optimal_policy(30, 1)


def test_the_tail_keeps_the_budget_the_stage_and_the_features():
    seen = []
    script = Script(lambda node: seen.append(node.phi_v[0]) or 1)
    task = problem(phi_v=lambda state, stage: np.array([stage / 10, 0.0]))
    agent, env = PlannerAgent(script, task), to_gym(task)
    env.reset(options={"state": 4, "stage": 2})
    for _ in range(3):
        env.step(agent.act(env))
    assert seen == [0.2, 0.3, 0.4]
    assert script.roots == [(4, 0, 4)]


def test_memory_is_kept_between_episodes():
    agent, env = PlannerAgent(tp.TensorPlan()), to_gym("hanoi/5")
    episode(agent, env)
    first = sum(agent.queries)
    episode(agent, env)
    assert first > 0
    assert sum(agent.queries) - first == 4  # a tenth of the path of 31 is asked again


def test_another_environment_is_another_problem():
    agent = PlannerAgent(tp.TensorPlan())
    for seed in range(3):
        env = to_gym(f"layered/3x4:horizon=4:seed={seed}")
        _, rewards = episode(agent, env)
        env.reset()
        assert agent.problem is env.problem
        assert sum(rewards) == pytest.approx(env.problem.optimal_value(env.state), abs=1e-9)


def test_without_a_clock_reset_must_be_called():
    class Clockless:
        """A problem that reads the state of an environment which counts no steps."""

        horizon, actions = None, 2

        def start(self, rng):
            return 0

        def step(self, state, action, rng):
            return 0.5, state + action

        def capture(self, env, observation=None):
            return env.unwrapped.place

    class Bare(gymnasium.Env):  # type: ignore[name-defined]
        action_space = observation_space = gymnasium.spaces.Discrete(2)
        place = 0

    script, env = Script(), Bare()
    agent = PlannerAgent(script, problem(Clockless()))
    for env.place in (0, 1, 5):  # steps may be random
        agent.act(env)
    assert len(script.roots) == 1
    agent.reset()
    agent.act(env)
    assert [root[0] for root in script.roots] == [0, 5]


def test_the_planner_begins_again_where_the_environment_goes_on_after_the_horizon():
    register_envs()

    class Reading(Walk):
        def capture(self, env, observation=None):
            return env.unwrapped.state[0]

    script = Script()
    agent = PlannerAgent(script, problem(Reading(horizon=3)))
    env = gymnasium.make(ID, problem="grid/9x1", max_episode_steps=50)
    episode(agent, env)
    assert [root[0] for root in script.roots] == [0, 3, 6]
    assert [stage for _, stage in script.nodes] == [0, 1, 2, 0, 1, 2, 0, 1]


def test_observations_of_a_table_are_states():
    task = tp.make("layered/3x4:horizon=5:states=20")
    env = to_gym(task, observation="state")
    agent, twin = PlannerAgent(tp.TensorPlan(), task), PlannerAgent(tp.TensorPlan())
    for _ in range(2):
        seen, _ = env.reset()
        over = False
        while not over:
            action = agent.act(seen)
            assert action == twin.act(env)
            seen, _, over, _, _ = env.step(action)
    assert agent.queries == twin.queries


def test_a_state_that_cannot_follow_in_a_random_table_begins_a_new_episode():
    chain = np.zeros((4, 2, 5))
    chain[0, :, [1, 2]] = chain[1, :, 3] = chain[2, :, 3] = chain[3, :, 4] = 1
    chain[0] /= 2
    script = Script()
    agent = PlannerAgent(script, tp.featurize(tp.TabularMDP(chain, np.full((4, 2), 0.5), horizon=None), 2))
    for state in (0, 1, 3, 0, 2, 2, np.int64(3)):
        agent.act(state)
    assert [root[0] for root in script.roots] == [0, 0, 2]


def test_observations_after_the_horizon_begin_a_new_episode():
    script, stays = Script(), tp.TabularMDP(np.ones((1, 2, 1)), np.full((1, 2), 0.5), horizon=2)
    agent = PlannerAgent(script, tp.featurize(stays, 2))
    for _ in range(5):
        agent.act(0)
    assert [stage for _, stage in script.nodes] == [0, 1, 0, 1, 0]
    assert len(script.roots) == 3


def test_observations_that_are_not_the_state():
    agent = PlannerAgent(tp.TensorPlan(), tp.make("hanoi/3"))
    with pytest.raises(tp.BadInput, match="an observation of problem 'hanoi/3' is not its state: act takes the env"):
        agent.act(np.zeros(3))
    agent = PlannerAgent(tp.TensorPlan(), tp.make("layered/2x3"))
    with pytest.raises(tp.BadInput, match="act takes a Gymnasium environment, or the number of a state"):
        agent.act(np.zeros(3))
    with pytest.raises(tp.BadInput, match="there is no state 99999"):
        agent.act(99999)


def test_plannings_at_one_stage_are_in_one_problem():
    identities = []

    class Recording(Script):
        def begin(self, access, rng):
            identities.append((access.root.key, access.identity))
            return super().begin(access, rng)

    task = problem(Walk(deterministic_transitions=True))
    agent, env = PlannerAgent(Recording(), task), to_gym(task)
    for state, stage in ((4, 2), (3, 2), (4, 3), (0, 0)):
        env.reset(options={"state": state, "stage": stage})
        agent.act(env)
    (first, a), (second, b), (_, c), (_, d) = identities
    assert (first, second) == (4, 3)
    assert a is b
    assert len({id(a), id(c), id(d)}) == 3
    assert d is task.identity


def test_looking_whether_a_planning_episode_goes_on_is_counted():
    task = problem(Walk(deterministic_transitions=True, deterministic_rewards=True))
    agent, env = PlannerAgent(Script()), to_gym(task)
    episode(agent, env)
    assert task.unmetered == 5  # at each of six steps but the first


def test_a_planning_that_is_over_answers_no_more_queries():
    kept = []

    class Keeping(Script):
        def begin(self, access, rng):
            kept.append(access)
            return super().begin(access, rng)

    task = problem(Walk(deterministic_transitions=True))
    agent, env = PlannerAgent(Keeping(), task), to_gym(task)
    for state in (4, 3):
        env.reset(options={"state": state, "stage": 2})
        agent.act(env)
    with pytest.raises(tp.NotReached, match="is over"):
        kept[0].query(kept[0].root, 0)
    assert kept[1].query(kept[1].root, 0)
