import numpy as np
import pytest
from finite_noise import Follows, guesses, problem, random_mdp, values

from tensorplan.access.batches import BatchAccess
from tensorplan.access.meter import Meter
from tensorplan.hindsight.pilot import Pilot, Shares
from tensorplan.hindsight.ranges import most_gap, most_upper
from tensorplan.hindsight.scenario import Rules
from tensorplan.hindsight.subject import Subject
from tensorplan.hindsight.values import Values


def subject(task, function, budget=None, seed=0):
    access = BatchAccess(task, Meter(budget), seed)
    players = lambda purpose, index, start: Follows(lambda state, stage: 0)  # noqa: E731
    return Subject(access, Values(access, function), players, lambda purpose, index: 0)


@pytest.mark.parametrize("paired", [True, False])
def test_the_shares_of_the_failure_probability_add_up(paired):
    assert sum(Shares.of(0.05, paired)) == pytest.approx(0.05)
    assert all(share >= 0 for share in Shares.of(0.05, paired))


@pytest.mark.parametrize("horizon", [4, None])
@pytest.mark.parametrize("guess", ["zero", "optimal", "random", "adversarial"])
def test_what_it_chooses_is_consistent(horizon, guess):
    """The range that bounds rely on is that of the chosen rules and of V within the chosen band."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        task = problem(random_mdp(rng, horizon), discount=0.8)
        whom = subject(task, guesses(task, rng)[guess], 20_000)
        chosen, plan, bets = Pilot(whom, Rules.of(task), 0.05, 20_000).choose()
        most = (most_gap if plan.design.rules.paired else most_upper)(chosen.values, plan.design.rules)
        assert plan.most == pytest.approx(most)
        assert plan.scenarios >= 1
        for each in (bets.scenarios, bets.lower, *([bets.upper] if plan.design.rules.paired else [])):
            assert (each > 0).all()
            assert (each < 1).all()
        for stage in range(horizon or 1):
            low, high = task.return_range(stage)
            assert low <= chosen.values.band(stage)[0] <= chosen.values.band(stage)[1] <= high


def test_it_leaves_most_of_the_budget():
    task = problem(random_mdp(np.random.default_rng(0), 4), discount=0.8)
    whom = subject(task, values(task), 100_000)
    Pilot(whom, Rules.of(task), 0.05, 100_000).choose()
    assert 0 < whom.access.meter.spent < 40_000


def test_it_does_not_use_noise_of_the_test():
    """What the test will draw does not influence the choice: else bounds would not hold."""
    task = problem(random_mdp(np.random.default_rng(0), 4), discount=0.8)
    whom, used = subject(task, values(task), 50_000), set()
    at = whom.access.noise.at
    whom.access.noise.at = lambda purpose, *rest: (used.add(purpose.name), at(purpose, *rest))[1]
    Pilot(whom, Rules.of(task), 0.05, 50_000).choose()
    assert used <= {"PILOT", "POLICY", "START", "CHECK"}


@pytest.mark.parametrize("budget", [1, 10, 100, 1000])
def test_a_pilot_that_the_budget_cannot_pay(budget):
    task = problem(random_mdp(np.random.default_rng(0), 4), discount=0.8)
    whom = subject(task, values(task), budget)
    _, plan, _ = Pilot(whom, Rules.of(task), 0.05, budget).choose()
    assert whom.access.meter.spent <= budget
    assert plan.episodes >= 0
