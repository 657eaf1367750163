import random
from enum import Enum
from typing import NamedTuple

import numpy as np
import pytest

import tensorplan as tp

pytest.importorskip("skdecide", reason="needs scikit-decide: pip install 'tensorplan[skdecide]'")

from skdecide import (
    DeterministicPlanningDomain,
    DiscreteDistribution,
    EnumerableSpace,
    ImplicitSpace,
    MDPDomain,
    POMDPDomain,
    RLDomain,
    StatelessSimulatorDomain,
    TransitionOutcome,
    Value,
)
from skdecide.builders.domain import FullyObservable, Initializable, UncertainInitialized, UnrestrictedActions
from skdecide.utils import match_solvers, rollout

from tensorplan.bridges.scikit_decide import TensorPlanSolver
from tensorplan.testing import check_problem

WIDTH, HEIGHT = 6, 4


class Listed(EnumerableSpace):
    """A list; the spaces of scikit-decide's hub need an older Gymnasium."""

    def __init__(self, elements):
        self.elements = list(elements)

    def get_elements(self):
        return self.elements


class Cell(NamedTuple):
    x: int
    y: int


class Move(Enum):
    left = (-1, 0)
    right = (1, 0)
    down = (0, -1)
    up = (0, 1)


class Grid(DeterministicPlanningDomain, UnrestrictedActions):
    """From corner to corner: a step costs 1, running against the wall 2."""

    T_state = T_observation = Cell
    T_event, T_value, T_predicate, T_info = Move, float, bool, None

    def _get_next_state(self, memory, action):
        x, y = memory.x + action.value[0], memory.y + action.value[1]
        return Cell(min(max(x, 0), WIDTH - 1), min(max(y, 0), HEIGHT - 1))

    def _get_transition_value(self, memory, action, next_state=None):
        return Value(cost=2 if next_state == memory else 1)

    def _is_terminal(self, state):
        return self._is_goal(state)

    def _get_action_space_(self):
        return Listed(Move)

    def _get_goals_(self):
        return Listed([Cell(WIDTH - 1, HEIGHT - 1)])

    def _get_initial_state_(self):
        return Cell(0, 0)

    def _get_observation_space_(self):
        return Listed(Cell(x, y) for x in range(WIDTH) for y in range(HEIGHT))


def distance(cell):
    return WIDTH - 1 - cell.x + HEIGHT - 1 - cell.y


def grid_features(cell, stage):
    return np.array([(WIDTH - 1 - cell.x) / (WIDTH - 1), (HEIGHT - 1 - cell.y) / (HEIGHT - 1)]) / np.sqrt(2)


GRID = {"features": grid_features, "bound": np.sqrt(2) * np.hypot(WIDTH - 1, HEIGHT - 1), "reward_range": (-2.0, 0.0)}


class Walled(DeterministicPlanningDomain):
    """The same grid where moves against the wall are not applicable, and fail."""

    T_state = T_observation = Cell
    T_event, T_value, T_predicate, T_info = Move, float, bool, None
    _is_terminal, _get_action_space_ = Grid._is_terminal, Grid._get_action_space_
    _get_goals_, _get_initial_state_ = Grid._get_goals_, Grid._get_initial_state_
    _get_observation_space_, _get_transition_value = Grid._get_observation_space_, Grid._get_transition_value

    def _get_applicable_actions_from(self, memory):
        return Listed([move for move in Move if Grid._get_next_state(self, memory, move) != memory])

    def _get_next_state(self, memory, action):
        following = Grid._get_next_state(self, memory, action)
        assert following != memory
        return following


LENGTH, HORIZON, SLIP, REST = 2, 4, 0.25, 0.05


class Chain(MDPDomain, UnrestrictedActions):
    """Going on succeeds with probability 3/4 and pays 1 at the end; resting pays a little."""

    T_state = T_observation = int
    T_event, T_value, T_predicate, T_info = str, float, bool, None

    def _get_next_state_distribution(self, memory, action):
        if action == "rest":
            return DiscreteDistribution([(memory, 2.0), (memory + 1, 0.0)])
        return DiscreteDistribution([(memory, 5 * SLIP), (memory + 1, 5 - 5 * SLIP)])  # weights need not sum to 1

    def _get_transition_value(self, memory, action, next_state=None):
        return Value(reward=1.0 if next_state == LENGTH else REST * (action == "rest"))

    def _is_terminal(self, state):
        return state == LENGTH

    def _get_action_space_(self):
        return Listed(["rest", "go"])

    def _get_initial_state_(self):
        return 0

    def _get_observation_space_(self):
        return Listed(range(LENGTH + 1))


def chain_values():
    """v* by backward induction, (HORIZON + 1, LENGTH + 1)."""
    v = np.zeros((HORIZON + 1, LENGTH + 1))
    for h in reversed(range(HORIZON)):
        for s in range(LENGTH):
            go = SLIP * v[h + 1, s] + (1 - SLIP) * ((s + 1 == LENGTH) + v[h + 1, s + 1])
            v[h, s] = max(go, REST + v[h + 1, s])
    return v


VALUES = chain_values()
CHAIN = {
    "features": lambda state, stage: np.array([VALUES[stage, state], 1.0]) / 2,
    "bound": 2.0,
    "reward_range": (0.0, 1.0),
    "horizon": HORIZON,
}


class Sampled(StatelessSimulatorDomain, FullyObservable, UnrestrictedActions, Initializable):
    """The chain as a black box that draws from the global generators."""

    T_state = T_observation = int
    T_event, T_value, T_predicate, T_info = str, float, bool, None
    _get_action_space_, _get_observation_space_ = Chain._get_action_space_, Chain._get_observation_space_

    def _state_reset(self):
        return 0

    def _state_sample(self, memory, action):
        luck = random.random() if memory % 2 else np.random.random()
        following = memory + (action == "go" and luck >= SLIP)
        reward = 1.0 if following == LENGTH else REST * (action == "rest")
        return TransitionOutcome(following, Value(reward=reward), following == LENGTH, None)


def play(domain, solver, **options):
    """Episodes as (observations, actions, rewards), by scikit-decide's own loop."""
    random.seed(0)
    np.random.seed(0)
    options = {"max_steps": 100, "render": False, "verbose": False} | options
    episodes = rollout(domain, solver, return_episodes=True, **options)
    return [(seen, actions, [value.reward for value in values]) for seen, actions, values in episodes]


# ------------------------------------------------------------------------------------- deterministic


def test_a_grid_is_solved_at_its_known_cost():
    with TensorPlanSolver(Grid, **GRID) as solver:
        solver.solve()
        assert solver.certificate.status == "certified"
        assert solver.certificate.lower == -distance(Cell(0, 0)) == -8
        for seen, actions, rewards in play(Grid(), solver, num_episodes=3):
            assert sum(rewards) == -8
            assert len(actions) == 8
            assert seen[-1] == Cell(WIDTH - 1, HEIGHT - 1)
        assert solver.queries[0] > 0
        assert solver.queries[1:] == [0] * 7 + ([1] + [0] * 7) * 2  # later episodes ask a tenth of the path again


def test_what_solve_planned_is_used_by_the_rollout():
    solver = TensorPlanSolver(Grid, **GRID)
    solver.solve()
    certificate = solver.certificate
    play(Grid(), solver)
    assert solver.certificate is certificate


def test_it_is_the_same_plan_as_in_the_same_problem_of_ours():
    class Same:
        horizon, actions, reward_range = None, 4, (-2.0, 0.0)
        deterministic_transitions = deterministic_rewards = True

        def start(self, rng):
            return Cell(0, 0)

        def step(self, state, action, rng):
            following = Grid._get_next_state(self, state, list(Move)[action])
            return (-2.0 if following == state else -1.0), tp.END if distance(following) == 0 else following

    ours = tp.run(tp.Problem(Same(), grid_features, bound=GRID["bound"], name="Grid"), tp.TensorPlan(), seed=3)
    solver = TensorPlanSolver(Grid, **GRID, seed=3)
    solver.solve()
    ((_, actions, rewards),) = play(Grid(), solver)
    (episode,) = ours.episodes
    assert tuple(list(Move).index(action) for action in actions) == episode.actions
    assert tuple(rewards) == episode.rewards
    assert tuple(solver.queries) == episode.queries
    assert solver.certificate == episode.certificate


def test_from_any_state():
    solver = TensorPlanSolver(Grid, **GRID)
    for cell in (Cell(4, 3), Cell(0, 2), Cell(5, 0)):
        solver.solve(from_memory=cell)
        assert solver.certificate.lower == -distance(cell)
        ((_, _, rewards),) = play(Grid(), solver, from_memory=cell)
        assert sum(rewards) == -distance(cell)
        solver.solve_from(cell)
        assert solver.certificate.lower == -distance(cell)


def test_states_that_the_plan_does_not_lead_to():
    solver = TensorPlanSolver(Grid, **GRID)
    for cell in (Cell(0, 0), Cell(3, 3), Cell(2, 1), Cell(5, 0), Cell(0, 3)):
        assert solver.is_policy_defined_for(cell)
        action = solver.get_next_action(cell)
        assert distance(Grid()._get_next_state(cell, action)) == distance(cell) - 1
        assert solver.get_next_action_distribution(cell).get_values()[0][1] == 1.0


def test_inapplicable_actions_are_never_taken():
    solver = TensorPlanSolver(Walled, **GRID)
    solver.solve()
    ((_, _, rewards),) = play(Walled(), solver)
    assert sum(rewards) == -8
    assert check_problem(solver.problem, episodes=3) > 0


def test_a_state_without_any_action_is_an_error():
    class Stuck(Walled):
        def _get_applicable_actions_from(self, memory):
            return Listed([])

    with pytest.raises(tp.ProblemError, match=r"no action is applicable in state Cell\(x=0, y=0\), which is not termi"):
        TensorPlanSolver(Stuck, **GRID).solve()


def test_wrong_features_are_refuted_and_the_rollout_goes_on():
    solver = TensorPlanSolver(Grid, **GRID | {"features": lambda cell, stage: grid_features(cell, stage)[:1] * 0.5})
    solver.solve()
    assert "is not realizable" in str(solver.refutation)
    assert solver.certificate.status == "refuted"
    play(Grid(), solver, max_steps=5)


# --------------------------------------------------------------------------------------------- random


def test_an_mdp_is_solved_within_delta():
    solver = TensorPlanSolver(Chain, **CHAIN, planner=tp.TensorPlan(delta=0.5))
    solver.solve()
    certificate, value = solver.certificate, VALUES[0, 0]
    assert certificate.status == "certified"
    assert certificate.lower <= value <= certificate.upper
    assert certificate.lower >= value - 0.5
    returns = [sum(rewards) for _, _, rewards in play(Chain(), solver, num_episodes=200, max_steps=HORIZON)]
    assert np.mean(returns) >= value - 0.5 > REST * HORIZON  # which resting does not collect


def test_the_mdp_is_the_domain():
    """Samples against the exact probabilities, single and in batches."""
    problem = TensorPlanSolver(Chain, **CHAIN).problem
    assert (problem.actions, problem.horizon) == (2, HORIZON)
    assert not problem.deterministic_transitions
    assert not problem.deterministic_rewards
    assert check_problem(problem, episodes=5) > 0
    rng, n = np.random.default_rng(0), 4000
    single = [problem.mdp.step(LENGTH - 1, 1, rng) for _ in range(n)]
    rewards, successors, which = problem.mdp.step_batch(LENGTH - 1, 1, n, rng)
    batch = [(reward, successors[i]) for reward, i in zip(rewards.tolist(), which.tolist(), strict=True)]
    for drawn in (single, batch):
        assert set(drawn) == {(1.0, tp.END), (0.0, LENGTH - 1)}
        share = drawn.count((1.0, tp.END)) / n
        assert abs(share - (1 - SLIP)) < 5 * np.sqrt(SLIP * (1 - SLIP) / n)
    assert set(problem.mdp.successors(0, 1)) == {0, 1}
    assert problem.mdp.successors(0, 0) == [0]


def test_values_that_do_not_depend_on_the_next_state_are_deterministic():
    class Plain(Chain):
        def _get_transition_value(self, memory, action, next_state=None):
            return Value(reward=0.2)

        def _is_transition_value_dependent_on_next_state_(self):
            return False

    problem = TensorPlanSolver(Plain, **CHAIN).problem
    assert problem.deterministic_rewards
    assert not problem.deterministic_transitions


@pytest.mark.parametrize("domain", [Chain, Sampled])
def test_the_seed_decides_whatever_the_global_generators_do(domain):
    def actions(seed, noise):
        random.seed(noise)
        np.random.seed(noise)
        before = random.getstate(), np.random.get_state()[1].tolist()
        solver = TensorPlanSolver(domain, **CHAIN, planner=tp.UCT(simulations=20), seed=seed)
        solver.solve()
        said = []
        for _ in range(10):
            solver.reset()
            said.append([solver.get_next_action(state) for state in (0, 0, 1, 1)])
        assert (random.getstate(), np.random.get_state()[1].tolist()) == before
        return said, solver.queries

    assert actions(1, noise=5) == actions(1, noise=6)
    assert actions(1, noise=5) != actions(2, noise=5)


def test_a_black_box_is_planned_in():
    solver = TensorPlanSolver(Sampled, **CHAIN, planner=tp.UCT(simulations=100))
    assert not hasattr(solver.problem.mdp, "step_batch")
    solver.solve()
    returns = [sum(rewards) for _, _, rewards in play(Sampled(), solver, num_episodes=100, max_steps=HORIZON)]
    assert np.mean(returns) == pytest.approx(VALUES[0, 0], abs=0.25)


def test_start_states_that_are_random():
    class Anywhere(Chain, UncertainInitialized):
        def _get_initial_state_distribution_(self):
            return DiscreteDistribution([(0, 1.0), (1, 3.0)])

        def _state_reset(self):
            return self._get_initial_state_distribution().sample()

    mdp = TensorPlanSolver(Anywhere, **CHAIN).problem.mdp
    starts = [mdp.start(np.random.default_rng(seed)) for seed in range(400)]
    assert abs(np.mean(starts) - 0.75) < 0.11


def test_a_domain_without_initial_state_is_solved_from_one():
    class Nowhere(StatelessSimulatorDomain, FullyObservable, UnrestrictedActions):
        T_state = T_observation = int
        T_event, T_value, T_predicate, T_info = str, float, bool, None
        _get_action_space_, _get_observation_space_ = Chain._get_action_space_, Chain._get_observation_space_
        _state_sample = Sampled._state_sample

    solver = TensorPlanSolver(Nowhere, **CHAIN, planner=tp.UCT(simulations=20))
    with pytest.raises(tp.BadInput, match="Nowhere has no initial state: use solve"):
        solver.solve()
    solver.solve(from_memory=1)
    assert solver.get_next_action(1) in ("rest", "go")


# -------------------------------------------------------------------------------------- who is refused


class Blind(POMDPDomain, UnrestrictedActions):
    _get_action_space_ = Chain._get_action_space_


class Box(RLDomain, FullyObservable, UnrestrictedActions):
    _get_action_space_ = Chain._get_action_space_


class Steering(Grid):
    def _get_action_space_(self):
        return ImplicitSpace(lambda angle: -1.0 <= angle <= 1.0)


@pytest.mark.parametrize(
    ("domain", "sentence"),
    [
        (Blind, "needs a domain with FullyObservable, and Blind does not show its state"),
        (Box, "needs a domain with Simulation, and Box cannot be asked what happens in a given state"),
        (Steering, "chooses among finitely many actions, and those of Steering cannot be listed: discretise"),
    ],
)
def test_domains_that_do_not_fit(domain, sentence):
    with pytest.raises(tp.BadInput, match=sentence):
        TensorPlanSolver(domain, **GRID)
    assert not TensorPlanSolver.check_domain(domain())


def test_domains_that_fit_are_matched():
    for domain in (Grid, Walled, Chain, Sampled):
        assert match_solvers(domain(), [TensorPlanSolver]) == [TensorPlanSolver]


def test_bad_arguments():
    with pytest.raises(tp.ProblemError, match="the bound B must be a positive number"):
        TensorPlanSolver(Grid, **GRID | {"bound": -1})
    with pytest.raises(tp.ProblemError, match="reward_range must be two finite numbers"):
        TensorPlanSolver(Grid, **GRID | {"reward_range": None})
    with pytest.raises(tp.ProblemError, match="outside of the declared range"):
        TensorPlanSolver(Grid, **GRID | {"reward_range": (0.0, 1.0)}).solve()
    for features in (lambda cell: [0.0], "poly2"):
        with pytest.raises(tp.BadInput, match=r"features must be a function of \(state, stage\), and .* is not: "):
            TensorPlanSolver(Grid, **GRID | {"features": features})
    with pytest.raises(tp.BadInput, match=r"state Cell\(x=5, y=3\) is terminal: there is nothing to plan"):
        TensorPlanSolver(Grid, **GRID).solve(from_memory=Cell(WIDTH - 1, HEIGHT - 1))
    with pytest.raises(tp.Refused, match="neither a horizon nor a discount"):
        TensorPlanSolver(Chain, **CHAIN | {"horizon": None, "features": lambda state, stage: [0.5]}).solve()
