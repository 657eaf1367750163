"""Where nothing is random Hindsight's bracket holds for certain, and closes where the problem is small enough.

v* is computed by backward induction over whole tables (``random_graphs.Graph.values``), which shares no code with the
search.  Features are constant throughout: they tell nothing.
"""

import math
import warnings

import numpy as np
import pytest
from random_graphs import Arrays, Graph

import tensorplan as tp

TINY = 1e-9
"""What rounding may do, relative to 1 + |v*|."""

SIGNS = {"both": (-1.0, 1.0), "gains": (0.0, 1.0), "losses": (-1.0, 0.0)}


def useless(mdp, discount=1.0):
    return tp.Problem(mdp, lambda state, stage: np.array([0.5]), bound=50.0, discount=discount)


def random_graph(rng, horizon, sign, kind=Graph):
    states, actions = rng.integers(1, 8), rng.integers(1, 4)
    rewards = rng.choice([0.0, 0.1, 0.25, 0.3, 1.0], size=(states, actions))
    signs = {"both": rng.choice([-1, 1], size=rewards.shape), "gains": 1, "losses": -1}[sign]
    return kind(rng.integers(-1, states, size=rewards.shape), signs * rewards, SIGNS[sign], horizon)


def grid(size, horizon=None, prize=1.0):
    """Four moves on a square; the corner opposite to the start pays when it is left, which ends the episode."""
    x, y = np.divmod(np.arange(size * size), size)
    moves = [(np.maximum(x - 1, 0), y), (np.minimum(x + 1, size - 1), y)]
    moves += [(x, np.maximum(y - 1, 0)), (x, np.minimum(y + 1, size - 1))]
    following, rewards = np.array([i * size + j for i, j in moves]).T, np.zeros((size * size, 4))
    following[-1], rewards[-1] = -1, prize
    return Graph(following, rewards, (0.0, prize), horizon)


def plan(problem, budget=None, seed=0, **options):
    """The episode, and all looks at its bracket."""
    looks = []
    planner = tp.Hindsight(**{"callback": lambda bounds, queries: looks.append(bounds), **options})
    (episode,) = tp.run(problem, planner, seed=seed, budget=budget, max_steps=400).episodes
    return episode, looks


def holds(bounds, best):
    return bounds.lower - TINY * (1 + abs(best)) <= best <= bounds.upper + TINY * (1 + abs(best))


def attains(episode, low=0.0):
    """Whether the episode earns the lower bound, with the least that can follow where it was cut off."""
    rest = 0.0 if episode.complete else episode.discount**episode.steps * low
    return episode.total_reward + rest >= episode.certificate.lower - TINY * (1 + abs(episode.total_reward))


# --------------------------------------------------------------------------------------- against backward induction


@pytest.mark.parametrize("kind", [Graph, Arrays], ids=["merging", "trees"])
@pytest.mark.parametrize("sign", SIGNS)
def test_with_a_horizon(sign, kind):
    """The bracket holds at every look, closes if the budget allows it, and the policy earns the lower bound."""
    rng = np.random.default_rng(1)
    for seed in range(60):
        mdp = random_graph(rng, int(rng.integers(1, 6)), sign, kind)
        discount, delta = float(rng.choice([1.0, 0.9])), float(rng.choice([1e-12, 0.3]))
        budget = int(rng.integers(0, 40)) if rng.random() < 0.5 else None
        episode, looks = plan(useless(mdp, discount), budget, seed, delta=delta)
        best, certificate = mdp.values(discount)[0][0], episode.certificate
        assert all(holds(bounds, best) for bounds in [*looks, certificate])
        assert attains(episode)
        assert budget is None or episode.total_queries <= budget
        if budget is None:
            assert certificate.status == "certified"
            assert certificate.gap <= delta
            assert delta > 0.1 or certificate.lower == pytest.approx(episode.total_reward, abs=1e-12)


@pytest.mark.parametrize("sign", SIGNS)
def test_discounted_without_a_horizon(sign):
    rng = np.random.default_rng(2)
    for seed in range(60):
        mdp, discount = random_graph(rng, None, sign), float(rng.choice([0.5, 0.9, 0.97]))
        budget = int(rng.integers(0, 40)) if rng.random() < 0.5 else None
        problem = useless(mdp, discount)
        episode, looks = plan(problem, budget, seed, delta=1e-6)
        best, certificate = mdp.values(discount)[0][0], episode.certificate
        assert all(holds(bounds, best) for bounds in [*looks, certificate])
        assert attains(episode, problem.return_range()[1])  # what is cut off is less than the most that can follow
        assert budget is not None or (certificate.status == "certified" and certificate.gap <= 1e-6)


@pytest.mark.parametrize("sign", ["gains", "losses"])
def test_neither_horizon_nor_discount(sign):
    """States recur, some of them in cycles without rewards."""
    rng, closed = np.random.default_rng(3), 0
    for seed in range(80):
        mdp = random_graph(rng, None, sign)
        if sign == "gains":  # only the end pays, or returns would be infinite
            mdp.rewards = np.where(mdp.following < 0, mdp.rewards, 0.0)
            mdp.return_range = (0.0, 1.0)
        values = np.zeros(len(mdp.rewards))
        for _ in range(100):
            values = mdp.improve(values, 1.0)
        episode, looks = plan(useless(mdp), int(rng.integers(0, 60)), seed, delta=1e-9)
        if mdp.improve(values, 1.0)[0] == values[0]:  # otherwise v* is infinite
            assert all(holds(bounds, values[0]) for bounds in [*looks, episode.certificate])
        assert not episode.complete or attains(episode)
        closed += episode.certificate.status == "certified"
    assert closed > 15


def test_rewards_of_both_signs_that_may_cancel_in_a_cycle_leave_the_largest_return():
    mdp = Graph(np.array([[1, -1], [0, 0]]), np.array([[0.5, 0.2], [-0.5, -0.5]]), (-1.0, 1.0))
    mdp.return_range = (-3.0, 3.0)
    certificate = plan(useless(mdp), 50)[0].certificate
    assert (certificate.status, certificate.upper) == ("limit", 3.0)
    assert certificate.lower >= 0.2


@pytest.mark.parametrize(
    ("name", "most"), [("hanoi/3", 90), ("grid/4x4", 90), ("layered/3x5", 1_100), ("layered/6x2", 1_500)]
)
def test_problems_of_the_catalog_with_useless_features(name, most):
    source = tp.make(name)
    problem = useless(source.mdp)
    episode, _ = plan(problem, delta=1e-9)
    best = source.optimal_value(episode.start)
    assert episode.certificate.status == "certified"
    assert episode.certificate.lower == pytest.approx(best, abs=1e-9)
    assert episode.certificate.upper == pytest.approx(best, abs=1e-9)
    assert episode.total_reward == pytest.approx(best, abs=1e-9)
    assert episode.total_queries <= most


# --------------------------------------------------------------------------------------------------- what it costs


@pytest.mark.parametrize("options", [{"horizon": 12}, {"discount": 0.95}])
def test_a_pair_is_charged_once_however_often_it_is_reached(options):
    """100 states with 4 actions, and a tenth of the path again; as a tree there would be 4^12 paths."""
    episode, _ = plan(useless(grid(10, options.get("horizon")), options.get("discount", 1.0)), delta=1e-6)
    assert episode.certificate.status == "certified"
    assert episode.total_queries <= 400 + 14


@pytest.mark.parametrize("budget", [1, 7, 40, 300])
@pytest.mark.parametrize("cache", [True, False])
def test_both_budgets_hold(budget, cache):
    problem = useless(grid(8, 20))
    one = tp.run(problem, tp.Hindsight(delta=1e-6), budget=budget, cache=cache).episodes[0]
    other = tp.run(problem, tp.Hindsight(delta=1e-6, budget=budget), cache=cache).episodes[0]
    for episode in (one, other):
        assert episode.total_queries <= budget
        assert holds(episode.certificate, 1.0)
        assert episode.certificate.status == "budget" or budget == 300


def test_a_good_path_is_found_where_the_bracket_cannot_close():
    """2^40 different states."""

    class Long:
        actions, horizon = 2, 40
        deterministic_transitions = deterministic_rewards = True

        def start(self, rng):
            return ()

        def step(self, state, action, rng):
            return (0.9 if action == len(state) % 2 else 0.1), (*state, action)

    episode, _ = plan(useless(Long()), 3_000, delta=1e-6)
    certificate = episode.certificate
    assert certificate.status == "budget"
    assert 25 < certificate.lower <= 36 <= certificate.upper  # random actions earn 20 on average
    assert episode.total_reward == pytest.approx(certificate.lower)


def test_the_search_ends_before_memory_does(monkeypatch):
    monkeypatch.setattr("tensorplan.planners.hindsight.certain.LARGEST", 200)
    certificate = plan(useless(grid(20, 45)), delta=1e-6)[0].certificate
    assert certificate.status == "limit"
    assert holds(certificate, 1.0)
    assert "to bound memory" in certificate.notes[1]


# ------------------------------------------------------------------------------------------------- the certificate


def test_the_certificate_says_that_it_holds_for_certain():
    certificate = plan(tp.make("layered/3x5"))[0].certificate
    assert (certificate.failure, certificate.lower_failure, certificate.assumes) == (0.0, 0.0, "")
    assert "for certain" in certificate.notes[0]
    assert "confidence" not in certificate.sentence


def test_by_default_the_width_is_a_tenth_of_the_range_of_returns_or_zero():
    assert plan(useless(grid(6, 12, 5.0)))[0].certificate.gap <= 0.1 * 60
    certificate = plan(tp.make("hanoi/3"))[0].certificate  # any loss is possible
    assert (certificate.lower, certificate.upper) == (-7.0, -7.0)


def test_returns_without_an_upper_end_are_refused():
    with pytest.raises(tp.Refused, match="hindsight needs a finite range of returns"):
        plan(useless(grid(3)))


def test_the_path_that_is_best_may_go_round_for_ever():
    """Three states in a circle that pay 1, and a way out that pays 2 once."""
    mdp = Graph(np.array([[1, -1], [2, -1], [0, -1]]), np.array([[0.0, 2.0], [0.0, 2.0], [1.0, 2.0]]), (0.0, 2.0))
    episode, _ = plan(useless(mdp, 0.9), delta=1e-6)
    assert episode.certificate.lower == pytest.approx(0.81 / (1 - 0.9**3))
    assert episode.actions == (0,) * 400


# ------------------------------------------------------------------------------------------------- how it may end


class Interrupted(Graph):
    """Ctrl-C comes with a certain step."""

    calls, last = 0, math.inf

    def step(self, state, action, rng):
        self.calls += 1
        if self.calls == self.last:
            raise KeyboardInterrupt
        return super().step(state, action, rng)


@pytest.mark.parametrize("discount", [1.0, 0.9])
@pytest.mark.parametrize("last", [1, 2, 9, 30, 100])
def test_after_ctrl_c_there_is_a_policy_and_the_bracket_reached_by_then(last, discount):
    horizon = 12 if discount == 1 else None
    mdp = grid(7, horizon)
    mdp = Interrupted(mdp.following, mdp.rewards, mdp.reward_range, horizon)
    mdp.last = last
    episode, _ = plan(useless(mdp, discount), delta=1e-9)
    assert episode.certificate.status == "interrupted"
    assert holds(episode.certificate, mdp.values(discount)[0][0])
    assert episode.steps


def test_the_callback_stops_it():
    episode, _ = plan(useless(grid(7, 20)), delta=1e-6, callback=lambda bounds, queries: True)
    assert episode.certificate.status == "stopped"
    assert episode.steps


def test_same_seed_same_plan():
    def outcome(seed):
        episode, looks = plan(useless(grid(8, 20)), 300, seed, delta=1e-6)
        return episode.actions, episode.total_queries, looks

    first = outcome(1)
    np.random.seed(9)
    assert outcome(1) == first


def test_a_session_plans_once_for_each_start_state():
    mdp = grid(5, 12)
    mdp.starts = 2
    played = tp.run(useless(mdp), tp.Hindsight(delta=1e-6), episodes=8).episodes
    assert {episode.start for episode in played} == {0, 1}
    assert sum(episode.total_queries > 0 for episode in played) == 2
    assert {episode.total_reward for episode in played} == {1.0}
    assert {episode.certificate.failure for episode in played} == {0.0}


# -------------------------------------------------------------------------------- what is not what it was declared


class Drawing(Graph):
    """Draws a random number, and may use it."""

    chance = 0.0

    def step(self, state, action, rng):
        reward, following = super().step(state, action, rng)
        return reward * float(rng.random() >= self.chance), following


def drawing(chance):
    mdp = Drawing(np.array([[1, 1], [2, 2], [-1, -1]]), np.array([[1.0, 0.5]] * 3), (0.0, 1.0), 3)
    mdp.chance = chance
    return useless(mdp)


def test_random_numbers_that_were_drawn_are_a_doubt():
    with pytest.warns(UserWarning, match="the simulator draws random numbers, although"):
        episode, _ = plan(drawing(0.0), delta=1e-6)
    assert episode.certificate.status == "doubtful"
    assert episode.certificate.notes == ()
    assert episode.total_reward == 3.0


def test_chance_that_was_declared_away_is_found_out():
    """A path of three rewards that are each paid with probability 0.7 is queried five times more: 0.7^18 remain."""
    problem, found = drawing(0.3), []
    for seed in range(50):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert plan(problem, seed=seed, delta=1e-6)[0].certificate.status == "doubtful"
        except tp.ProblemError as error:
            found.append(str(error))
    assert len(found) >= 45
    assert all("deterministic" in message for message in found)


def test_a_return_beyond_its_declared_range_is_an_error():
    mdp = Graph(np.array([[1, 1], [-1, -1]]), np.array([[0.6, 0.0], [0.6, 0.0]]), (0.0, 1.0), 2)
    mdp.return_range = (0.0, 1.0)
    with pytest.raises(tp.ProblemError, match="declares returns in") as error:
        plan(useless(mdp), delta=1e-6)
    assert error.value.certificate.status == "failed"
