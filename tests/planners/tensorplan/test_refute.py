import itertools
import re
from dataclasses import replace

import numpy as np
import pytest
from helpers import Hidden, local
from random_graphs import RANGES, TINY, random_graph, realize, star_survives, terminating
from random_programs import convex_optimum

import tensorplan as tp
from tensorplan.core import return_range
from tensorplan.optimism import Program, solve
from tensorplan.planners.evidence.place import Place


def layered(seed, **options):
    rng = np.random.default_rng([seed, 1400])
    A, d, H = (int(rng.integers(low, high + 1)) for low, high in ((2, 4), (2, 10), (3, 12)))
    task = tp.make("layered", **{"actions": A, "d": d, "horizon": H, "states": 50, "seed": seed} | options)
    return replace(task, mdp=Hidden(task.mdp), theta=task.theta)


def with_bound(task, bound, phi=None):
    phi = task.phi_v if phi is None else phi
    return tp.Problem(task.mdp, phi, bound=bound, name=task.name, solution=task.solution, theta=task.theta)


def refute(task, **options):
    """The refutation before the episode is played on (which measures more); None where there is none."""
    try:
        tp.TensorPlan(**options).begin(local(task), np.random.default_rng(0))
    except tp.NotRealizable as error:
        return error
    return None


def status(error, **changes):
    """What the optimiser says of the planner's Sol, of another η or radius, or of some places alone."""
    sol = error.policy.sol
    return solve(sol.program(np.zeros(sol.dimension), **changes)).status


def said(error, name):
    """What the sentence says is needed at least."""
    return float(re.search(rf"\b{name}=(\S+)", str(error).rpartition("at least")[2])[1])


def explains_itself(error, bound):
    """The places contradict one another, all of them are needed; the η and B are what it takes, to a few hundredths."""
    places = {Place(stage, state) for stage, state in error.places}
    assert len(places) == len(error.places) > 0
    assert status(error) == status(error, among=places) == "infeasible"
    for place in places:
        assert status(error, among=places - {place}) != "infeasible"
    assert status(error, eta=error.eta) != "infeasible"
    assert status(error, eta=0.97 * error.eta) == "infeasible"
    assert status(error, eta=said(error, "eta")) == "infeasible"
    assert said(error, "eta") >= 0.98 * error.eta
    assert f" with B={bound:g} (for certain)" in str(error)
    if error.bound is None:
        assert str(error).count("B=") == 1
    else:
        assert 0.98 * error.bound <= said(error, "B") <= error.bound / 1.01
        assert error.bound > bound
        assert status(error, radius=error.bound) != "infeasible"
        assert status(error, radius=max(bound, 0.97 * error.bound)) == "infeasible"


# ------------------------------------------------------------------------------------------------ B too small


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(4))
def test_a_ball_that_is_too_small_is_found_out(chunk):
    refuted = 0
    for seed in range(15 * chunk, 15 * chunk + 15):
        task = layered(seed)
        length = np.linalg.norm(task.theta)
        bound = float(np.random.default_rng(seed).uniform(0.3, 0.95) * length)
        error = refute(with_bound(task, bound))
        if error is None:  # what was measured fits into the smaller ball
            continue
        refuted += 1
        explains_itself(error, bound)
        assert error.bound <= 1.011 * length  # θ* itself agrees with everything
    assert refuted >= 10


def test_the_named_bound_is_never_more_than_it_takes():
    """It is the least that agrees with what was measured: repeating with it ends below ‖θ*‖, where θ* itself agrees."""
    for seed in range(40):
        task = layered(seed)
        length, bound = np.linalg.norm(task.theta), 0.5 * np.linalg.norm(task.theta)
        rounds = 0
        while (error := refute(with_bound(task, bound))) is not None:
            bound = 1.02 * error.bound
            rounds += 1
            assert bound <= 1.032 * length
        assert rounds <= 8
        (episode,) = tp.run(with_bound(task, length), tp.TensorPlan()).episodes
        assert episode.total_reward == pytest.approx(task.optimal_value(0), abs=1e-9)


def test_the_refuted_run_is_played_to_its_end():
    task = with_bound(tp.make("layered/3x6"), 2.0)
    with pytest.raises(tp.NotRealizable) as raised:
        tp.run(task, tp.TensorPlan(trace=True), episodes=4)
    error = raised.value
    (episode,) = error.run.episodes
    assert episode.complete
    assert episode.steps == task.horizon
    assert episode.certificate.status == "refuted"
    assert episode.certificate.upper == task.horizon  # what the rewards allow: the ball proves nothing any more
    assert episode.certificate.lower <= episode.total_reward + TINY
    assert error.policy.certificate == episode.certificate
    places = ", ".join(f"{state} (stage {stage})" for stage, state in error.places[:4])
    assert str(error).startswith(
        "problem 'layered/3x6' is not realizable with B=2 (for certain): no parameter agrees with what was measured "
        f"at {places}"
    )
    assert all(task.mdp.stage_of(state) == stage for stage, state in error.places)


def test_episodes_before_the_refutation_are_kept():
    """State 0 is worth 1 and its feature says so; state 1 is worth 1 too, and its feature says 0.2 at most."""

    class Coin:
        horizon, actions = 1, 2
        deterministic_transitions = deterministic_rewards = True

        def start(self, rng):
            return int(rng.integers(2))

        def step(self, state, action, rng):
            return float(action), tp.END

    task = tp.Problem(Coin(), lambda s, h: np.array([[1.0, 0.2][s]]), bound=1.0, name="coin")
    seed = next(s for s in range(99) if [e.start for e in tp.run(task, tp.RandomPlanner(), 3, s).episodes] == [0, 0, 1])
    with pytest.raises(tp.NotRealizable) as raised:
        tp.run(task, tp.TensorPlan(), 3, seed, learn=False)
    error = raised.value
    assert [e.certificate.status for e in error.run.episodes] == ["certified", "certified", "refuted"]
    assert [e.total_reward for e in error.run.episodes] == [1.0, 1.0, 1.0]
    assert error.places == ((0, 1),)
    assert error.bound == pytest.approx(5.0, rel=0.011)
    assert error.eta == pytest.approx(0.4, rel=0.011)  # 1 - 0.2 θ <= 2 η with θ <= 1


# ------------------------------------------------------------------------------------------ misspecification


@pytest.mark.parametrize("ask", ["lazy", "all"])
@pytest.mark.parametrize("chunk", range(4))
def test_the_true_eta_is_never_refuted(chunk, ask):
    for seed in range(20 * chunk, 20 * chunk + 20):
        eta = float(10 ** np.random.default_rng(seed).uniform(-6, -0.3))
        task = layered(seed, eta=eta)
        (episode,) = tp.run(task, tp.TensorPlan(eta=eta, ask=ask, trace=True)).episodes
        value, certificate = task.optimal_value(0), episode.certificate
        star_survives(task, episode.trace, value)
        accuracy = 0.1 * min(task.horizon, task.bound + eta)
        assert certificate.status == ("certified" if certificate.gap <= accuracy else "eta")
        assert certificate.explained <= eta * (2 + 2 * task.horizon) + TINY
        assert certificate.lower - TINY <= value <= certificate.upper + TINY
        assert value - episode.total_reward <= certificate.gap + TINY
        assert certificate.gap <= eta * (2 + 2 * task.horizon) + 1e-6 * (1 + task.bound)


def test_the_true_eta_is_never_refuted_in_awkward_problems():
    """Ties, early END, all ranges; with a horizon, discounted, or terminating."""
    for seed in range(150):
        rng = np.random.default_rng([seed, 1500])
        eta, discount, horizon = float(10 ** rng.uniform(-4, -1)), 1.0, int(rng.integers(1, 7))
        if seed % 3 == 0:
            task, horizon = terminating(rng, eta), None
        else:
            if seed % 3 == 1:
                discount, horizon = float(rng.choice([0.5, 0.9])), horizon if seed % 2 else None
            task = realize(rng, random_graph(rng, horizon, ranges=RANGES[:5]), discount, eta)
        planner = tp.TensorPlan(eta=eta, discount=discount, trace=True)
        (episode,) = tp.run(task, planner, max_steps=200).episodes
        value, certificate = task.optimal_value(0), episode.certificate
        slack = 1e-6 * (1 + task.bound)
        star_survives(task, episode.trace, value)
        assert certificate.status in ("certified", "eta", "doubtful")
        assert certificate.lower - slack <= value <= certificate.upper + slack
        earned = sum(reward * discount**i for i, reward in enumerate(episode.rewards))
        assert earned >= certificate.lower - slack - (0 if episode.complete else discount**150 * 100)
        steps = episode.steps if discount == 1 else min(episode.steps, 1 / (1 - discount))
        low, high = return_range(task.reward_range, horizon, 0, discount)
        rest = 0 if horizon or discount == 1 else 0.1 / 8 * (min(high, task.bound + eta) - low)
        assert certificate.gap <= eta * (2 + (1 + discount) * steps) + rest + slack


@pytest.mark.parametrize("chunk", range(4))
def test_a_misspecification_is_found_out(chunk):
    """Its η is at most the true one, and a larger ball is named only where it would really help."""
    refuted = 0
    for seed in range(20 * chunk, 20 * chunk + 20):
        eta = float(10 ** np.random.default_rng(seed).uniform(-6, -0.7))
        task = layered(seed, eta=eta)
        error = refute(task)
        if error is None:
            continue
        refuted += 1
        if error.eta > 1e-7 * (1 + task.bound):  # else the optimiser cannot tell 3 % of it
            explains_itself(error, task.bound)
        assert error.eta <= 1.011 * eta + 3e-9 * (1 + task.bound)
        if error.bound is not None:
            program = error.policy.sol.program(np.zeros(task.dimension), radius=error.bound)
            assert missed_by(program, solve(program).theta) <= error.eta
    assert refuted >= 10


def missed_by(program, theta):
    """By how much θ misses the worst row or disjunction."""
    rows = program.rows @ theta - program.rhs
    forms = np.abs(program.forms[:, :, 0] + program.forms[:, :, 1:] @ theta).min(axis=1) - program.tol
    return max(rows.max(initial=0.0), forms.max(initial=0.0))


@pytest.mark.slow
def test_the_named_eta_is_never_more_than_it_takes():
    for seed in range(30):
        task = layered(seed, eta=0.05)
        eta, rounds = 0.0, 0
        while (error := refute(task, eta=eta)) is not None:
            assert error.eta > eta
            eta = 1.02 * error.eta
            rounds += 1
            assert eta <= 1.04 * 0.05
        assert rounds <= 10


def test_another_solver_agrees_that_nothing_is_left():
    """All choices of one action per disjunction, by Clarabel: empty, and not with the named η."""
    checked = 0
    for seed in range(12):
        task = layered(seed, actions=2, d=3, eta=0.1)
        error = refute(task)
        if error is None:
            continue
        sol, places = error.policy.sol, {Place(*place) for place in error.places}
        for eta, among, empty in (
            (sol.eta, places, True),
            (0.97 * error.eta, None, True),
            (1.03 * error.eta, None, False),
        ):
            program = sol.program(np.zeros(task.dimension), eta=eta, among=among)
            if len(program.forms) > 8:
                continue
            choices = itertools.product(range(2), repeat=len(program.forms))
            found = [convex_optimum(program, [(i, a, program.tol[i]) for i, a in enumerate(c)]) for c in choices]
            assert (max(found) == -np.inf) is empty
            checked += 1
    assert checked >= 10


# --------------------------------------------------------------------------------------------------- rounding


@pytest.mark.parametrize("noise", [1e-13, 1e-11])
def test_rounding_errors_are_no_refutation(noise):
    for seed in range(40):
        task = layered(seed)
        errors = np.random.default_rng(seed).standard_normal((50 * task.horizon, task.dimension)) * noise
        blurred = with_bound(task, task.bound, lambda s, h, t=task, e=errors: (t.phi_v(s, h) + e[s]) / (1 + 1e-9))
        (episode,) = tp.run(blurred, tp.TensorPlan()).episodes
        assert episode.certificate.status == "certified"
        assert episode.total_reward == pytest.approx(task.optimal_value(0), abs=1e-9)


def test_features_in_single_precision_need_an_eta():
    refuted = 0
    for seed in range(20):
        task = layered(seed)
        single = with_bound(task, task.bound, lambda s, h, t=task: np.float32(t.phi_v(s, h) / (1 + 1e-6)))
        error = refute(single)
        if error is not None:
            refuted += 1
            assert error.bound is None
            assert error.eta < 1e-6 * (1 + task.bound)
        (episode,) = tp.run(single, tp.TensorPlan(eta=2e-6 * task.bound)).episodes
        assert episode.certificate.status == "certified"
        assert task.optimal_value(0) - episode.total_reward <= episode.certificate.gap <= 1e-4 * (1 + task.bound)
    assert refuted >= 10


def test_features_realize_the_values_to_the_last_digits():
    """In two dimensions nothing is orthogonal to θ* but one line, and a random vector may be nearly parallel to θ*."""
    task = tp.make("layered", actions=2, d=2, states=5000, horizon=20)
    for stage in range(20):
        features = np.array([task.phi_v(s, stage) for s in task.mdp.states(stage)])
        values = np.array([task.optimal_value(s, stage) for s in task.mdp.states(stage)])
        assert np.abs(features @ task.theta - values).max() <= 1e-14 * (1 + task.bound)
        assert np.abs(np.linalg.norm(features, axis=1) - 1).max() <= 1e-14


def test_the_program_of_a_refuted_trace_is_empty():
    error = refute(tp.make("layered/3x6:eta=0.1"), trace=True)
    trace = error.policy.trace
    records = [trace, *trace.iterations]
    rows = np.array([row for record in records for row in record.rows])
    pairs = [pair for record in records for pair in record.disjunctions]
    program = Program(
        trace.objective, trace.radius, rows[:, :-1], rows[:, -1], [forms for _, forms in pairs], [t for t, _ in pairs]
    )
    assert solve(program).status == "infeasible"


def test_ctrl_c_while_the_refutation_is_explained_keeps_the_refutation_and_the_episode(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("tensorplan.planners.tensorplan.refute.Inquiry.smallest_eta", interrupted)
    with pytest.raises(tp.NotRealizable, match="was not looked for to the end") as caught:
        tp.run(tp.make("layered/3x6:eta=0.3"), tp.TensorPlan())
    assert caught.value.eta is caught.value.bound is None
    assert caught.value.places
    assert caught.value.run.episodes[0].complete


def test_a_return_above_the_bound_refutes_eta():
    """What a rollout has collected rests on no feature: where it is above the upper bound, η is too small."""

    class Lights:
        horizon, actions = 10, 2
        deterministic_transitions = deterministic_rewards = True

        def start(self, rng):
            return 0

        def step(self, state, action, rng):
            return state / 6, min(state + action, 6)

    def phi(state, stage):
        return np.array([(10 - stage) / 10, state / 6]) / 1.5

    problem = tp.Problem(Lights(), phi, bound=30.0, name="lights")
    for eta in (0.0, 0.1, 0.22225):
        with pytest.raises(tp.NotRealizable) as refuted:
            tp.run(problem, tp.TensorPlan(eta=eta))
        assert eta < refuted.value.eta <= 1.2565  # the misfit is 1.25641
    certificate = tp.run(problem, tp.TensorPlan(eta=1.257)).episodes[0].certificate
    assert certificate.lower <= 6.5 <= certificate.upper
    assert type(certificate.upper) is float


def refuted_on_ice(features):
    lake = {"map_name": "8x8", "is_slippery": False, "horizon": None, "discount": 0.99}
    problem = tp.from_gym("FrozenLake-v1", features=features, **lake)
    with pytest.raises(tp.NotRealizable) as caught:
        tp.run(problem, tp.TensorPlan(), max_steps=100)
    (episode,) = caught.value.run.episodes
    return problem, episode


@pytest.mark.parametrize("features", ["linear", "aggregate4"])
def test_a_gap_that_closes_before_any_reward_is_seen_is_attacked(features):
    """A few questions seem to prove that nothing is to be had; episodes without features find the goal."""
    problem, episode = refuted_on_ice(features)
    assert episode.total_reward == pytest.approx(problem.optimal_value(episode.start))
    assert episode.certificate.status == "refuted"
    assert episode.certificate.lower == pytest.approx(episode.total_reward)


def test_a_table_refutes_what_was_measured_does_not():
    """An optimal path, which no answer contradicts; but the features miss v* elsewhere."""
    with pytest.raises(tp.NotRealizable, match=r"its table gives v\*") as caught:
        tp.run(tp.from_gym("CliffWalking-v1", features="poly2"), tp.TensorPlan(), max_steps=100)
    assert caught.value.eta == pytest.approx(0.25)
    assert caught.value.run.episodes[0].total_reward == -13
