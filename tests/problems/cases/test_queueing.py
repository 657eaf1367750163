"""The queue against its own story, told again event by event; thresholds, shapes, features and certificates."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensorplan as tp
from tensorplan.core import END
from tensorplan.core.errors import BadInput
from tensorplan.problems.cases.queueing import queue_admission
from tensorplan.testing import check_problem

SETTINGS = [
    {"capacity": capacity, "servers": servers, "arrival": arrival, "holding": holding, "discount": discount}
    for capacity, servers, arrival, holding, discount in itertools.product(
        (1, 4, 10), (1, 3), (0.3, 0.7), (0.05, 0.2, 0.5), (0.8, 0.95)
    )
]


def events(present, gate, *, capacity, servers, arrival):
    """[(probability, present after, whether one came in)], one event a step."""
    enters = gate == 1 and present < capacity
    listed = [(arrival, present + enters, enters)]
    for server in range(servers):
        listed.append(((1 - arrival) / servers, present - (server < present), False))
    return listed


def value_iteration(capacity, servers, arrival, holding, discount, reward=1.0):
    v = [0.0] * (capacity + 1)
    room = {"capacity": capacity, "servers": servers, "arrival": arrival}
    while True:
        before, v = v, []
        for present in range(capacity + 1):
            q = [
                sum(p * (reward * came - holding * present + discount * before[n]) for p, n, came in listed)
                for listed in (events(present, gate, **room) for gate in (0, 1))
            ]
            v.append(max(q))
        if max(abs(a - b) for a, b in zip(v, before, strict=True)) < 1e-13:
            return v


@pytest.mark.parametrize("setting", SETTINGS[::5], ids=str)
def test_values_are_those_of_the_events(setting):
    problem = queue_admission(**setting)
    np.testing.assert_allclose(problem.solution.v[0], value_iteration(**setting), atol=1e-10)
    assert problem.discount == setting["discount"]
    assert problem.return_range() == pytest.approx(
        (-setting["holding"] * setting["capacity"] / (1 - problem.discount), 1 / (1 - problem.discount))
    )


@pytest.mark.parametrize("servers", [1, 3])
@pytest.mark.parametrize("gate", [0, 1])
def test_steps_draw_events(servers, gate):
    """Of 20,000 draws a share is off by 0.02 with probability below 1e-6 (Hoeffding)."""
    mdp = queue_admission(4, servers=servers, arrival=0.4, reward=2.0, holding=0.1).mdp
    for present in range(5):
        expected: dict[tuple[float, int], float] = {}
        for p, n, came in events(present, gate, capacity=4, servers=servers, arrival=0.4):
            outcome = round(2.0 * came - 0.1 * present, 9), n
            expected[outcome] = expected.get(outcome, 0.0) + p
        rng = np.random.default_rng(present)
        rewards, successors, which = mdp.step_batch(present, gate, 20_000, rng)
        batch = [(round(r, 9), successors[i]) for r, i in zip(rewards.tolist(), which.tolist(), strict=True)]
        single = [(round(r, 9), n) for r, n in (mdp.step(present, gate, rng) for _ in range(20_000))]
        for drawn in (batch, single):
            assert set(drawn) == set(expected)
            assert all(abs(drawn.count(outcome) / 20_000 - p) < 0.02 for outcome, p in expected.items())
        mean = sum(p * reward for (reward, _), p in expected.items())
        assert mdp.rewards(0)[present, gate] == pytest.approx(mean)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_the_gate_has_a_threshold(setting):
    """Open below it, shut from there on; v* is decreasing and concave."""
    solution = queue_admission(**setting).solution
    greedy = solution.greedy[0].tolist()
    assert greedy == sorted(greedy, reverse=True)
    assert greedy[-1] == 0  # a full queue lets nobody in either way
    slopes = np.diff(solution.v[0])
    assert (slopes < 0).all()
    assert (np.diff(slopes) <= 1e-12).all()


def test_the_threshold_follows_the_cost():
    def threshold(**setting):
        return int(queue_admission(10, **setting).solution.greedy[0].sum())

    assert threshold(holding=0.0) == 10  # nothing speaks against a customer
    assert threshold(holding=50.0) == 0
    costs = [threshold(holding=c) for c in (0.05, 0.1, 0.15, 0.2, 0.3, 0.4)]
    assert costs == sorted(costs, reverse=True)
    assert len(set(costs)) > 3
    assert threshold() == 2


def test_before_closing_time_more_are_let_in():
    """With a horizon the last customers cost little: thresholds rise from stage to stage."""
    problem = queue_admission(6, horizon=12, discount=1.0)
    assert problem.horizon == 12
    thresholds = []
    for greedy in problem.solution.greedy:
        assert greedy.tolist() == sorted(greedy.tolist(), reverse=True)
        thresholds.append(int(greedy.sum()))
    assert thresholds == sorted(thresholds)
    assert thresholds[0] < thresholds[-1] == 6
    rng = np.random.default_rng(0)
    state = problem.mdp.start(rng)
    for stage in range(12):
        _, state = problem.mdp.step(state, 1, rng)
        state = problem.arrive(state, stage)
    assert state is END


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
def test_polynomials_miss_by_no_more_than_they_must(degree):
    """The residual of the best polynomial of degree k takes both signs of η in turn, k + 2 times (Chebyshev)."""
    problem = queue_admission(10, features=f"poly{degree}")
    phi = np.array([problem.state_features(n, 0) for n in range(11)])
    residual = problem.solution.v[0] - phi @ problem.theta
    assert problem.dimension == degree + 1
    assert np.abs(residual).max() == pytest.approx(problem.eta)
    extreme = np.sign(residual[np.abs(residual) > problem.eta * (1 - 1e-6)])
    assert 1 + np.count_nonzero(np.diff(extreme)) >= degree + 2
    assert np.linalg.norm(problem.theta) <= problem.bound


def test_the_misfit_falls_with_the_degree():
    etas = [queue_admission(10, features=f"poly{k}").eta for k in (1, 2, 3, 4)]
    assert etas == pytest.approx([0.7339, 0.1383, 0.0378, 0.0156], abs=1e-4)


@pytest.mark.parametrize(
    "setting",
    [
        {},
        {"features": "poly3"},
        {"features": "realizing5", "servers": 2},
        {"features": "onehot"},
        {"features": "poly2@time", "horizon": 5, "discount": 1.0},
    ],
    ids=str,
)
def test_the_contract_is_kept(setting):
    problem = queue_admission(6, **setting)
    assert check_problem(problem, max_steps=30) > 20
    assert problem.name == "queue-admission/6" + (f":features={setting['features']}" if setting.get("features") else "")
    assert (problem.eta < 1e-12) == (setting.get("features", "realizing3") in ("realizing3", "realizing5", "onehot"))


@pytest.mark.parametrize("features", ["realizing3", "poly4"])
def test_tensorplan_certifies(features):
    problem = tp.make(f"queue-admission/10:features={features}")
    episode = tp.run(problem, tp.TensorPlan(delta=3.0, eta=problem.eta), max_steps=20).episodes[0]
    certificate = episode.certificate
    assert certificate.status == "certified"
    assert certificate.lower <= problem.optimal_value(0) <= certificate.upper
    assert certificate.gap <= 1.5 + problem.eta * (1 + 1.9 / 0.1) + 1e-9


def test_tensorplan_refutes_a_line():
    problem = tp.make("queue-admission/10:features=poly1")
    with pytest.raises(tp.NotRealizable) as info:
        tp.run(problem, tp.TensorPlan(delta=1.0), max_steps=5)
    assert 0 < info.value.eta <= problem.eta


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"capacity": 0}, "capacity must be a whole number >= 1, got 0"),
        ({"servers": 0}, "servers must be a whole number >= 1, got 0"),
        ({"arrival": 1.5}, "arrival must be a number from 0 to 1, got 1.5"),
        ({"holding": -1}, "holding must be a number >= 0, got -1"),
        ({"reward": "high"}, "reward must be a number >= 0, got 'high'"),
        ({"horizon": 0}, "horizon must be a whole number >= 1, got 0"),
        ({"discount": 1.0}, "a queue without a horizon needs a discount below 1"),
        ({"discount": 0.0}, "discount must be above 0 and at most 1, got 0"),
        ({"features": "realizing1"}, "d must be a whole number >= 2, got 1"),
        ({"features": "poly2@time"}, "'poly2@time' needs a problem with a horizon"),
        ({"features": "polly3"}, "unknown feature map 'polly'; did you mean 'poly'?"),
        ({"features": 3}, "a feature spec is a string such as 'poly2', got 3"),
    ],
    ids=str,
)
def test_bad_input_is_one_clear_sentence(options, sentence):
    with pytest.raises(BadInput) as info:
        queue_admission(**options)
    assert str(info.value) == sentence
