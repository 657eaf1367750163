import numpy as np
import pytest
from finite_noise import Follows, guesses, problem, random_mdp, values

from tensorplan.access import batches
from tensorplan.access.batches import BatchAccess
from tensorplan.access.meter import Meter
from tensorplan.access.noise import Purpose
from tensorplan.core.intervals import BETS
from tensorplan.hindsight.bracket import BracketTest
from tensorplan.hindsight.pilot import Bets, Pilot, Plan
from tensorplan.hindsight.ranges import least_policy, most_gap, most_upper
from tensorplan.hindsight.scenario import Rules
from tensorplan.hindsight.subject import Design, Subject
from tensorplan.hindsight.values import Values


def subject(task, function, budget=None, seed=0):
    access = BatchAccess(task, Meter(budget), seed)
    players = lambda purpose, index, start: Follows(lambda state, stage: 0)  # noqa: E731
    return Subject(access, Values(access, function), players, lambda purpose, index: 0)


def bracket(whom, paired, pooled, scenarios=30, episodes=100, alpha=0.05, limit=np.inf):
    rules = Rules(whom.access.problem.horizon or 8, 100, limit, paired)
    most = (most_gap if paired else most_upper)(whom.values, rules)
    plan = Plan(Design(rules, 4, pooled), most, scenarios, episodes, 1.0, least_policy(whom.values, rules))
    return BracketTest(whom, plan, Bets(BETS, BETS, BETS), alpha)


@pytest.mark.parametrize(("paired", "episodes"), [(True, 100), (False, 100), (False, 0)])
@pytest.mark.parametrize("pooled", [True, False])
def test_every_look_at_a_bracket_holds(paired, episodes, pooled):
    """At a confidence of 0.5, of 20 brackets 17 or more would be wrong with probability 1.3e-3 at most."""
    wrong = 0
    for seed in range(5):
        rng = np.random.default_rng(seed)
        task = problem(random_mdp(rng, (4, None)[seed % 2]), discount=0.8)
        best, mine = values(task)(0, 0), values(task, lambda state, stage: 0)(0, 0)
        for function in guesses(task, rng).values():
            whom = subject(task, function, seed=seed)
            looks = list(bracket(whom, paired, pooled, episodes=episodes, alpha=0.5).grow())
            assert len(looks) == 6
            wrong += any(b.lower > mine or b.upper < best or b.gap < best - mine - 1e-9 for b in looks)
            assert all(b.lower <= b.upper and b.gap >= 0 for b in looks)
    assert wrong < 17


def test_with_many_scenarios_a_bracket_is_narrow():
    task = problem(random_mdp(np.random.default_rng(3), 4), discount=0.8)
    low, high = task.return_range()
    *_, last = bracket(subject(task, values(task)), False, False, scenarios=500, episodes=4000).grow()
    assert last.lower <= values(task, lambda state, stage: 0)(0, 0)
    assert values(task)(0, 0) <= last.upper
    assert last.width < 0.5 * (high - low)


@pytest.mark.parametrize("paired", [True, False])
def test_without_evidence_a_bracket_is_the_range_of_returns(paired):
    task = problem(random_mdp(np.random.default_rng(3), 4), discount=0.8)
    assert bracket(subject(task, values(task)), paired, True).bounds()[:2] == pytest.approx(task.return_range())


@pytest.mark.parametrize("budget", [1, 50, 500, 5000])
def test_a_spent_budget_ends_a_bracket_with_what_there_is(budget):
    task = problem(random_mdp(np.random.default_rng(3), 4), discount=0.8)
    whom = subject(task, values(task), budget)
    looks = list(bracket(whom, False, False).grow())
    assert whom.access.meter.spent <= budget
    assert looks[-1].lower <= values(task)(0, 0) <= looks[-1].upper


@pytest.mark.parametrize("pooled", [True, False])
def test_a_scenario_does_not_depend_on_what_was_simulated_before(pooled, monkeypatch):
    """Nor on the numbers that states have, nor on whether these were given anew."""
    task = problem(random_mdp(np.random.default_rng(3), 4), discount=0.8)
    design = Design(Rules(4, 100), 4, pooled)

    def seventh(*before):
        whom = subject(task, values(task))
        for index in before:
            whom.scenario(design, Purpose.TEST, index)
            whom.episode(4, Purpose.EPISODE, index)
        found = whom.scenario(design, Purpose.TEST, 7)
        return found.upper, found.policy, [step.state for step in found.path], whom.episode(4, Purpose.EPISODE, 7)

    alone = seventh()
    assert seventh(3, 9, 7) == alone
    monkeypatch.setattr(batches, "REMEMBERED", 1)
    assert seventh(1, 2) == alone


def test_the_same_seed_gives_the_same_bracket_and_another_one_does_not():
    task = problem(random_mdp(np.random.default_rng(3), 4), discount=0.8)

    def bounds(seed):
        whom = subject(task, values(task), 10_000, seed)
        return list(BracketTest(*Pilot(whom, Rules.of(task), 0.05, 10_000).choose(), 0.05).grow())

    np.random.seed(1)
    first = bounds(0)
    np.random.seed(2)
    assert bounds(0) == first
    assert bounds(1) != first
