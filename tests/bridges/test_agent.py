import copy
import warnings

import numpy as np
import pytest
from helpers import Walk, problem

import tensorplan as tp
from tensorplan.bridges.agent import PlannerAgent
from tensorplan.bridges.gymnasium_env import ID, register_envs, to_gym

gymnasium = pytest.importorskip("gymnasium")
data_equivalence = pytest.importorskip("gymnasium.utils.env_checker").data_equivalence


class Script:
    """A planner that asks about action 1, ``ask`` times, and does as the function says; it remembers its episodes."""

    def __init__(self, act=lambda node: 1, ask=1):
        self.do, self.ask, self.roots, self.nodes = act, ask, [], []

    def begin(self, access, rng):
        self.access = access
        self.roots.append((access.root.key, access.root.stage, access.horizon))
        return self

    def act(self, node):
        self.access.query(node, 1, self.ask)
        self.nodes.append((node.key, node.stage))
        return self.do(node)


def episode(agent, env, seed=None, limit=1000):
    """An evaluation loop as everybody writes it."""
    env.reset(seed=seed)
    actions, rewards, over = [], [], False
    while not over and len(actions) < limit:
        actions.append(agent.act(env))
        _, reward, terminated, truncated, _ = env.step(actions[-1])
        rewards.append(reward)
        over = terminated or truncated
    return actions, rewards


# --------------------------------------------------------------------------------- the same as the loop


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


# ------------------------------------------------------------------------- the environment is left alone


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


# ------------------------------------------------------------------------------ where episodes begin anew


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


# -------------------------------------------------------------------------------------------- observations


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


# ------------------------------------------------------------------------------------- refuted, and spent


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


# ------------------------------------------------------------------- environments that are not what they were


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
pytestmark = pytest.mark.filterwarnings("ignore:the observation of Stairs")


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


def test_an_environment_made_of_an_environment():
    task = tp.from_gym(lake(), features="realizing5")
    agent, env = PlannerAgent(tp.TensorPlan()), to_gym(task)
    assert sum(episode(agent, env)[1]) == 1


def test_looking_whether_a_planning_episode_goes_on_is_counted():
    task = problem(Walk(deterministic_transitions=True, deterministic_rewards=True))
    agent, env = PlannerAgent(Script()), to_gym(task)
    episode(agent, env)
    assert task.unmetered == 5  # at each of six steps but the first


def test_an_agent_takes_names():
    agent, env = PlannerAgent("uct:simulations=5", "hanoi/2"), to_gym("hanoi/2")
    env.reset()
    assert agent.act(env) in range(3)
    assert agent.problem.name == "hanoi/2"


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


# ------------------------------------------------------------------------------------------------ bad input


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
