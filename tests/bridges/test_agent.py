"""An agent does what run does, leaves the environment alone, and says what is wrong."""

import numpy as np
import pytest
from agents import Script, episode
from helpers import problem

import tensorplan as tp
from tensorplan.bridges.agent import PlannerAgent
from tensorplan.bridges.gymnasium_env import ID, register_envs, to_gym

gymnasium = pytest.importorskip("gymnasium")
data_equivalence = pytest.importorskip("gymnasium.utils.env_checker").data_equivalence


@pytest.mark.parametrize(
    ("spec", "planner"),
    [
        ("hanoi/5", tp.TensorPlan()),
        ("layered/3x4:horizon=5", tp.TensorPlan()),
        ("grid/3x3", tp.UCT(simulations=50)),
        ("layered/2x3", tp.Oracle()),
        ("exponential/32:noise=false", tp.TensorPlanQ()),
        ("layered-stochastic/2x3:horizon=3", tp.SparseSampling(width=2)),
    ],
)
def test_an_agent_does_what_run_does(spec, planner):
    """Deterministic worlds go the same way; in a random one the first call sees the same state."""
    task = tp.make(spec)
    expected = tp.run(task, planner, episodes=2, seed=4)
    agent, env = PlannerAgent(planner, seed=4), to_gym(task)
    calls = 0
    for there in expected.episodes:
        actions, rewards = episode(agent, env, seed=0)
        queries, calls = agent.queries[calls:], len(agent.queries)
        if task.deterministic:
            assert (tuple(actions), tuple(rewards), tuple(queries)) == (there.actions, there.rewards, there.queries)
        else:
            assert (actions[0], queries[0]) == (there.actions[0], there.queries[0])
        assert agent.certificate == there.certificate


def test_the_certificate_and_the_queries_of_each_call():
    agent, env = PlannerAgent(tp.TensorPlan()), to_gym("hanoi/4")
    assert agent.certificate is None
    _, rewards = episode(agent, env, seed=0)
    assert sum(rewards) == agent.certificate.lower == pytest.approx(agent.certificate.upper, abs=1e-4)
    assert len(agent.queries) == 15
    assert agent.queries[0] > 0
    assert set(agent.queries[1:]) == {0}


@pytest.mark.parametrize("spec", ["hanoi/3", "layered-stochastic/2x3", "hard/2x3"])
def test_planning_does_not_touch_the_environment(spec):
    register_envs()
    chooser = np.random.default_rng(0)
    env, twin = (gymnasium.make(ID, problem=spec, max_episode_steps=200) for _ in range(2))
    agent = PlannerAgent(tp.UCT(simulations=5))
    assert data_equivalence(env.reset(seed=1), twin.reset(seed=1), exact=True)
    for _ in range(60):
        agent.act(env)
        action = int(chooser.integers(env.action_space.n))
        said = env.step(action)
        assert data_equivalence(said, twin.step(action), exact=True)
        assert env.unwrapped.np_random.bit_generator.state == twin.unwrapped.np_random.bit_generator.state
        if said[2] or said[3]:
            env.reset()
            twin.reset()
    assert sum(agent.queries) > 0


def test_a_refuted_problem_is_played_on():
    task = tp.make("hanoi/4")
    wrong = tp.Problem(task.mdp, lambda state, stage: task.phi_v(state, stage)[:2], bound=task.bound, name="short")
    with pytest.raises(tp.NotRealizable) as refuted:
        tp.run(wrong, tp.TensorPlan(), seed=0, max_steps=40)
    agent, env = PlannerAgent(tp.TensorPlan()), to_gym(wrong, max_steps=40)
    actions, _ = episode(agent, env)
    assert tuple(actions) == refuted.value.run.episodes[0].actions
    assert str(agent.refutation) == str(refuted.value)
    assert agent.certificate.status == "refuted"


def test_a_budget_is_for_an_episode():
    script = Script(ask=2)
    agent, env = PlannerAgent(script, budget=5), to_gym(problem())
    for _ in range(2):
        env.reset()
        for _ in range(2):
            env.step(agent.act(env))
        with pytest.raises(tp.BudgetSpent, match="the budget of 5 queries is spent"):
            agent.act(env)
    assert agent.queries == [2, 2, 0] * 2


def test_a_budget_spent_while_planning_is_listed():
    class Eager(Script):
        def begin(self, access, rng):
            access.query(access.root, 0, 3)
            access.query(access.root, 0, 3)

    agent, env = PlannerAgent(Eager(), budget=5), to_gym(problem())
    env.reset()
    with pytest.raises(tp.BudgetSpent):
        agent.act(env)
    assert agent.queries == [3]


def test_the_same_seed_gives_the_same_actions():
    def actions(seed):
        agent, env = PlannerAgent(tp.UCT(simulations=5), seed=seed), to_gym("layered-stochastic/4x3")
        return [episode(agent, env, seed=0) for _ in range(5)]

    np.random.seed(0)
    first = actions(3)
    assert actions(3) == first
    assert actions(4) != first


def test_an_environment_made_of_an_environment():
    task = tp.from_gym(gymnasium.make("FrozenLake-v1", is_slippery=False), features="realizing5")
    agent, env = PlannerAgent(tp.TensorPlan()), to_gym(task)
    assert sum(episode(agent, env)[1]) == 1


def test_an_agent_takes_names():
    agent, env = PlannerAgent("uct:simulations=5", "hanoi/2"), to_gym("hanoi/2")
    env.reset()
    assert agent.act(env) in range(3)
    assert agent.problem.name == "hanoi/2"


def test_bad_arguments():
    with pytest.raises(tp.BadInput, match=r"expected a problem, .*, got <class .*Lake'>, a class: make an instance"):
        PlannerAgent(tp.TensorPlan(), type("Lake", (), {}))
    with pytest.raises(tp.BadInput, match="'horizon' is an option for making a problem, and a problem was given"):
        PlannerAgent(tp.TensorPlan(), tp.make("hanoi/3"), horizon=3)
    with pytest.raises(tp.BadInput, match=r"expected a planner, .*, got 3: a planner has a method begin"):
        PlannerAgent(3)
    with pytest.raises(tp.Refused, match="asks for 'divine' access"):
        PlannerAgent(type("Oracle", (Script,), {"access": "divine"})())
    with pytest.raises(tp.BadInput, match="seed must be a whole number"):
        PlannerAgent(tp.TensorPlan(), seed=-1)
    with pytest.raises(tp.BadInput, match="there is no problem to plan in yet"):
        PlannerAgent(tp.TensorPlan()).act(0)


def test_environments_that_are_over_or_foreign():
    agent, env = PlannerAgent(tp.TensorPlan()), to_gym("grid/2x1")
    with pytest.raises(tp.BadInput, match="the episode of problem 'grid/2x1' is over: reset the environment"):
        agent.act(env)
    agent = PlannerAgent(tp.TensorPlan(), tp.make("hanoi/3"))
    with pytest.raises(tp.BadInput, match=r"problem 'hanoi/3' cannot read the state of .*: make the problem with"):
        agent.act(gymnasium.make("CartPole-v1"))
    with pytest.raises(tp.BadInput, match="an agent needs features, as in PlannerAgent"):
        PlannerAgent(tp.TensorPlan()).act(gymnasium.make("CartPole-v1"))
