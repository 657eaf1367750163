import random

import numpy as np
import pytest
from clocks import set_clock
from finite_noise import problem as tiny
from finite_noise import random_mdp, values
from helpers import Coins, Walk, problem

import tensorplan as tp

HORIZON = 4


def stay(state, stage):
    return 0


@pytest.fixture
def task():
    return tiny(random_mdp(np.random.default_rng(3), HORIZON), discount=0.9)


# ------------------------------------------------------------------------------------------ what comes out


@pytest.mark.parametrize("value", ["fitted", "zero", "optimal", "adversarial", "theta", "pathwise"])
def test_a_bracket_for_any_value_function(task, value):
    functions = {
        "fitted": None,
        "zero": lambda state, stage: 0.0,
        "optimal": values(task),
        "adversarial": lambda state, stage: (-1e9, 1e9)[(state + stage) % 2],
        "theta": [0.7],
        "pathwise": "pathwise",
    }
    audit = tp.audit(task, stay, functions[value], budget=40_000)
    best, mine = values(task)(0, 0), values(task, stay)(0, 0)
    assert audit.lower <= mine <= best <= audit.upper
    assert audit.gap >= best - mine
    assert audit.gap <= audit.upper - audit.lower + 1e-12
    assert audit.queries <= 40_000
    assert (audit.status, audit.confidence, audit.assumes) == ("budget", pytest.approx(0.95), "")
    assert "this rests on nothing but the simulator and its declared range of returns" in audit.sentence


def test_better_values_make_it_narrower(task):
    good, bad = (tp.audit(task, stay, value, budget=60_000) for value in (values(task), lambda state, stage: 9.0))
    assert good.upper < bad.upper


def test_the_means_over_random_start_states():
    steps = np.full((3, 2, 3), 1 / 3)
    means = np.array([[0.1, 0.2], [0.4, 0.3], [0.9, 0.5]])
    mdp = tp.TabularMDP(steps, means, horizon=3, start=[0.2, 0.3, 0.5], noise=True)
    best, task = tp.solve_tabular(mdp), tp.Problem(mdp, lambda state, stage: np.ones(1), bound=3.0)
    expected = sum(weight * best.value(state, 0) for state, weight in mdp.start_weights())
    actions = best.action_value
    audit = tp.audit(task, lambda state, stage: int(actions(state, 1, stage) > actions(state, 0, stage)), budget=50_000)
    assert audit.lower <= expected <= audit.upper
    assert audit.upper - audit.lower < 0.5
    assert audit.mean_return == pytest.approx(expected, abs=0.1)


def test_it_ends_early_when_it_is_as_narrow_as_asked_for(task):
    audit = tp.audit(task, stay, budget=400_000, width=6.0)
    assert audit.status == "width"
    assert audit.upper - audit.lower <= 6.0
    assert audit.queries < 200_000


def test_every_look_is_shown_and_the_last_one_is_the_result(task):
    looks = []
    audit = tp.audit(task, stay, budget=30_000, progress=lambda bounds, queries: looks.append((bounds, queries)))
    assert looks[-1][0] == (audit.lower, audit.upper, audit.gap)
    assert [queries for _, queries in looks] == sorted(queries for _, queries in looks)


def test_where_the_gap_comes_from_adds_up(task):
    audit = tp.audit(task, stay, budget=60_000)
    assert set(audit.stages) <= set(range(HORIZON))
    assert len(audit.states) <= 5
    totals = [share.total for _, share in audit.states]
    assert totals == sorted(totals, reverse=True)


def test_same_seed_same_audit_whatever_the_global_generators(task):
    def run(seed):
        found = tp.audit(task, stay, budget=30_000, seed=seed)
        return found.lower, found.upper, found.gap, found.queries, found.design, found.mean_return

    first = run(0)
    random.seed(5)
    np.random.seed(5)
    assert run(0) == first
    assert run(1) != first


@pytest.mark.parametrize(
    "mdp",
    [
        Walk(horizon=1),
        Walk(actions=1),
        Walk(horizon=None, return_range=(0.0, 3.0), step=lambda state, action, rng: (0.5, tp.END if state == 5 else 5)),
    ],
    ids=["one step", "one action", "no horizon"],
)
def test_small_cases(mdp):
    audit = tp.audit(problem(mdp), stay, budget=5_000)
    low, high = problem(mdp).return_range()
    assert low <= audit.lower <= audit.upper <= high


def test_discounted_without_a_horizon():
    task = tiny(random_mdp(np.random.default_rng(0), None), discount=0.8)
    audit = tp.audit(task, stay, budget=100_000)
    assert audit.lower <= values(task, stay)(0, 0)
    assert values(task)(0, 0) <= audit.upper


def test_a_tree_too_wide_for_memory_is_cut_and_this_is_said(monkeypatch):
    from tensorplan.hindsight import scenario

    monkeypatch.setattr(scenario, "WIDTH", 3)
    audit = tp.audit(problem(), stay, budget=30_000)  # as many states as steps so far
    assert audit.cut > 0
    assert audit.lower <= 3.0 <= audit.upper


# ------------------------------------------------------------------------------------------ queries, Ctrl-C, errors


@pytest.mark.parametrize("budget", [1, 7, 50, 300, 3_000, 30_000])
def test_queries_are_the_calls_of_step_and_never_exceed_the_budget(budget):
    task = problem(Coins())
    audit = tp.audit(task, stay, budget=budget)
    assert audit.queries <= budget
    assert task.mdp.calls == audit.queries + task.unmetered
    assert (audit.status, audit.lower >= 0, audit.upper <= 5) == ("budget", True, True)
    assert audit.lower <= 0.625  # the value of action 0 is 5/8, and v* is 25/8
    assert audit.upper >= 3.125


@pytest.mark.parametrize("calls", [1, 30, 500, 3_000, 12_000])
def test_after_ctrl_c_there_is_the_bracket_reached_by_then(calls):
    mdp = Coins()
    mdp.raises = (calls, KeyboardInterrupt)
    audit = tp.audit(problem(mdp), stay, budget=20_000)
    assert audit.status == "interrupted"
    assert audit.lower <= 0.625
    assert audit.upper >= 3.125
    assert audit.sentence
    if calls == 12_000:
        assert audit.upper - audit.lower < 5


def test_errors_of_the_simulator_are_told():
    mdp = Coins()
    mdp.raises = (100, ZeroDivisionError("oops"))
    with pytest.raises(tp.ProblemError, match=r"step\(state=.* raised ZeroDivisionError: oops"):
        tp.audit(problem(mdp), stay, budget=20_000)


class Rewards(Walk):
    def step(self, state, action, rng):
        return (1.5 if state == 3 else 0.5), state + 1


class Returns(Walk):
    return_range = (0.0, 2.0)


def test_rewards_outside_of_their_range():
    with pytest.raises(tp.ProblemError, match=r"reward 1\.5, which is outside of the declared range \[0, 1\]"):
        tp.audit(problem(Rewards()), stay, budget=20_000)


def test_returns_outside_of_their_range():
    with pytest.raises(tp.ProblemError, match=r"declares returns in \[0, 2\], and an episode had 3"):
        tp.audit(problem(Returns()), stay, budget=20_000)


class Global(Walk):
    def step(self, state, action, rng):
        return random.random(), state


def test_a_simulator_that_ignores_the_generator():
    with pytest.raises(tp.ProblemError, match="must draw its random numbers from the generator"):
        tp.audit(problem(Global()), stay, budget=20_000)


def test_a_simulator_whose_declarations_change():
    task = problem(Walk())
    task.mdp.reward_range = (0.0, 9.0)
    with pytest.raises(tp.ProblemError, match="make a new problem"):
        tp.audit(task, stay, budget=1_000)


@pytest.mark.parametrize("confidence", [0, 1, 0.4, 1.5, "high", None, float("nan")])
def test_confidence(confidence):
    with pytest.raises(tp.BadInput, match="confidence"):
        tp.audit(problem(), stay, confidence=confidence)


@pytest.mark.parametrize("budget", [0, -1, 1.5, "many"])
def test_budget(budget):
    with pytest.raises(tp.BadInput, match="budget"):
        tp.audit(problem(), stay, budget=budget)


def test_no_finite_range_of_returns():
    with pytest.raises(tp.BadInput, match="has no finite range of returns"):
        tp.audit(problem(Walk(horizon=None)), stay)


@pytest.mark.parametrize("value", [[1.0], "high", {}, [float("nan"), 1.0]])
def test_value(value):
    with pytest.raises(tp.BadInput, match="value must be"):
        tp.audit(problem(), stay, value, budget=1_000)


@pytest.mark.parametrize("value", [float("nan"), "high", None])
def test_value_functions_that_give_no_number(value):
    with pytest.raises(tp.ProblemError, match="the value function at state 0, stage 0"):
        tp.audit(problem(), stay, lambda state, stage: value, budget=1_000)


def test_a_budget_for_episodes_only_gives_a_lower_bound_and_says_so():
    audit = tp.audit("lost-sales/2", lambda state, stage: min(3, max(0, 5 - sum(state))), budget=100_000)
    assert (audit.scenarios, audit.upper) == (0, audit.return_range[1])
    assert audit.episodes > 20
    assert audit.return_range[0] < audit.lower <= 17.4655
    assert audit.advice.startswith(
        f"the policy earns at least {audit.lower:.6g}, at confidence 0.95; the budget was spent"
    )
    assert "the upper end is the largest possible return" in audit.advice


# ------------------------------------------------------------------------------------------ a time limit


@pytest.mark.parametrize("policy", [stay, "uct:simulations=5", tp.TensorPlan(delta=0.2)], ids=["stay", "uct", "tp"])
@pytest.mark.parametrize("seconds", [0.01, 1.0, 20.0])
def test_an_audit_ends_in_time(task, monkeypatch, policy, seconds):
    clock = set_clock(monkeypatch, 1e-3)
    audit = tp.audit(task, policy, time_limit=seconds)
    assert clock.time < seconds + 1
    assert audit.status == "time"
    assert audit.lower <= values(task)(0, 0) <= audit.upper
    if seconds == 0.01:
        assert audit.advice.startswith("the time was over before the first look")
        assert "give more of it" in audit.advice


def test_the_budget_is_what_the_time_allows(task, monkeypatch):
    set_clock(monkeypatch, 1e-3)
    audit = tp.audit(task, stay, time_limit=20.0)
    assert audit.scenarios > 0
    assert audit.episodes > 0
    assert audit.upper - audit.lower < tp.audit(task, stay, time_limit=2.0).upper - audit.lower


def test_an_audit_with_time_to_spare_ends_by_its_budget(task):
    assert tp.audit(task, stay, budget=5_000, time_limit=1_000).status == "budget"


def test_a_planner_that_is_audited_does_not_plan_beyond_the_deadline(monkeypatch):
    clock = set_clock(monkeypatch, 1e-3)
    audit = tp.audit("layered-stochastic/2x3", tp.TensorPlan(delta=0.001), time_limit=3.0)
    assert (audit.status, audit.episodes) == ("time", 0)
    assert clock.time < 4.0


@pytest.mark.parametrize("seconds", [0, -1, "soon"])
def test_time_limits_of_audits_are_positive(task, seconds):
    with pytest.raises(tp.BadInput, match="time_limit must be a positive number of seconds"):
        tp.audit(task, stay, time_limit=seconds)
