"""Features that do not realize v*, on problems that users have: what is called certified is right.

Families, and what is known of them, are in :mod:`benchmarks.families`; ``benchmarks/soundness.py`` runs many more.
"""

import itertools

import pytest
from benchmarks import families

import tensorplan as tp
from tensorplan.planners.baselines.random import RandomPlanner

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def verdicts(cases, budget=None):
    return [(case, families.judge(case, seed, budget)) for seed, case in enumerate(cases)]


def check(judged, allowed=0):
    """At most so many wrong certificates, and a lower bound that is right in any case."""
    wrong = [case.name for case, verdict in judged if verdict.status == "certified" and verdict.wrong]
    assert len(wrong) <= allowed, wrong
    for case, verdict in judged:
        assert verdict.certificate.lower <= case.optimal + 1e-9


def test_mazes_with_a_prize():
    judged = verdicts(families.mazes(range(4)))
    check(judged)
    assert all(verdict.earned == 1.0 for _, verdict in judged)  # the prize is found, whatever the features say
    assert all(verdict.status == "refuted" for _, verdict in judged)


def test_rooms_as_in_minigrid():
    judged = verdicts(families.rooms([0]))
    check(judged)
    assert all(verdict.earned == 1.0 for _, verdict in judged)


@pytest.mark.slow
def test_an_inventory_with_lost_sales():
    """The package's own model of what it saw earns 15 of 17 at least, where a policy that never orders earns 2."""
    judged = verdicts(itertools.islice(families.inventories([5.0]), 4), budget=300_000)
    check(judged)
    for _, verdict in judged:
        assert verdict.certificate.lower > 14


@pytest.mark.slow
def test_slippery_frozen_lake():
    cases = [case for case in families.lakes() if "hidden" in case.name and "time" not in case.name]
    judged = verdicts(cases[::2], budget=300_000)
    check(judged)
    assert all(verdict.certificate.lower > 0.03 for _, verdict in judged)  # random play earns 0.01
    shown = verdicts([case for case in families.lakes() if case.name == "lake tiles2x2"], budget=300_000)
    check(shown)
    assert {verdict.status for _, verdict in shown} == {"refuted"}


def test_without_an_attack_it_would_be_otherwise(monkeypatch):
    """What these tests are about: the same planner, with a challenge that asks nothing and no table to look at."""
    from tensorplan.planners.tensorplan import exact

    monkeypatch.setattr(exact.ExactPlanning, "_challenge", lambda self, hopeless=False: False)
    monkeypatch.setattr(exact, "unfit_by_table", lambda *args: False)
    monkeypatch.setattr(exact, "inconclusive", lambda *args: False)
    judged = verdicts(families.mazes(range(4)))
    assert sum(verdict.status == "certified" and verdict.wrong for _, verdict in judged) >= 5


@pytest.mark.parametrize("budget", [0, 10, 100, 1_000, 20_000])
def test_a_budget_in_an_inventory_leaves_a_policy_that_is_no_worse_than_random(budget):
    case = next(families.inventories([5.0]))
    earned = [families.judge(case, seed, budget).earned for seed in range(5)]
    (random,) = ([tp.run(case.problem, RandomPlanner(), seed=seed).episodes[0].total_reward for seed in range(20)],)
    assert sum(earned) / 5 >= sum(random) / 20 - 2.5  # its standard error
    if budget >= 20_000:
        assert sum(earned) / 5 > sum(random) / 20 + 5


def test_the_lower_bound_has_its_share():
    """Whatever ends the planning, a tenth of the queries has gone into episodes of the policy that acts."""
    case = next(c for c in families.inventories([2.0]) if "time" in c.name)
    for budget, least in ((50_000, 0), (200_000, 10)):
        verdict = families.judge(case, 0, budget)
        assert verdict.status == "budget"
        assert verdict.certificate.lower > least
        assert verdict.queries <= budget


# ------------------------------------------------------------------------------------------- words


class Swing:
    """Four steps to and fro that pay nothing, or the same each time."""

    actions, horizon = 2, 4
    deterministic_transitions = deterministic_rewards = True

    def __init__(self, pay):
        self.pay = pay

    def start(self, rng):
        return 0

    def step(self, state, action, rng):
        return self.pay, 1 - state


def swing(pay, phi):
    return tp.Problem(Swing(pay), phi, bound=2.0, name="swing")


@pytest.mark.filterwarnings("default")
def test_doubts_are_said_in_words():
    """On the object and as warnings: nothing was ever paid; the features do not know the time."""
    time, zero = "the features ignore the time, and episodes end after 4 steps", "no reward other than zero was ever"
    with pytest.warns(UserWarning, match=zero) as said:
        (episode,) = tp.run(swing(0.0, lambda state, stage: [1.0, 0.0]), tp.TensorPlan()).episodes
    assert episode.certificate.status == "doubtful"
    assert [str(w.message).split(": ")[1] for w in said] == [w.split(":")[0] for w in episode.certificate.warnings]
    assert len(episode.certificate.warnings) == 2
    with pytest.raises(tp.NotRealizable) as refuted:
        tp.run(swing(0.25, lambda state, stage: [1.0, 0.0]), tp.TensorPlan())
    (doubt,) = refuted.value.run.episodes[0].certificate.warnings
    assert doubt.startswith(time)
    (episode,) = tp.run(swing(0.25, lambda state, stage: [1 - stage / 4, 0.0]), tp.TensorPlan()).episodes
    assert episode.certificate.status == "certified"
    assert episode.certificate.warnings == ()
