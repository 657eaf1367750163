import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import tensorplan as tp
from tensorplan.diagnosis import targets as places
from tensorplan.diagnosis.diagnosis import Bracket, Fitted, between, diagnose
from tensorplan.diagnosis.guarantee import rounded_down, rounded_up
from tensorplan.diagnosis.inputs import named, refeatured
from tensorplan.diagnosis.redundancy import redundant
from tensorplan.features.misfit import misfit_floor
from tensorplan.problems.random.featurize import reachable


def table(seed, *, states=8, actions=2, horizon=3, noise=False, chance=True):
    """A random stationary table; from the start not all states are reached at every stage."""
    rng = np.random.default_rng(seed)
    steps = np.zeros((states, actions, states + 1))
    for pair in np.ndindex(states, actions):
        following = rng.choice(states + 1, size=2 if chance else 1, replace=False)
        steps[pair][following] = rng.dirichlet(np.ones(len(following)))
    return tp.TabularMDP(steps, rng.random((states, actions)), horizon=horizon, start=0, noise=noise)


def random_problem(seed, *, d=3, staged=True, discount=1.0, bound=10.0, eta=0.0, **options):
    """A table with random features, of states or of states and stages, for v* and q*."""
    mdp = table(seed, **options)
    rng = np.random.default_rng([seed, 1])
    raw = rng.standard_normal((mdp.horizon or 1, len(mdp.states(0)), mdp.actions + 1, d))
    phi = raw / np.linalg.norm(raw, axis=-1, keepdims=True)

    def at(state, stage):
        return phi[stage if staged else 0, state]

    v, q = (lambda s, h: at(s, h)[0]), (lambda s, h: at(s, h)[1:])
    return tp.Problem(mdp, v, q, bound=bound, eta=eta, discount=discount, name="random")


def rows(task, values, everywhere=False):
    """Features and values of all places, listed by hand."""
    mdp, solution = task.mdp, tp.solve_tabular(task)
    phi, x = [], []
    for stage, mask in enumerate(reachable(mdp)):
        for state in mdp.states(stage):
            if everywhere or mask[mdp.index(state, stage)]:
                if values == "v":
                    phi.append(task.phi_v(state, stage))
                    x.append(solution.value(state, stage))
                else:
                    phi.extend(task.phi_q(state, stage))
                    x.extend(solution.action_value(state, a, stage) for a in range(mdp.actions))
    return np.array(phi), np.array(x)


def full_program(phi, x):
    ones = np.ones((len(x), 1))
    answer = linprog(
        np.append(np.zeros(phi.shape[1]), 1.0),
        A_ub=np.block([[phi, -ones], [-phi, -ones]]),
        b_ub=np.concatenate([x, -x]),
        bounds=[(None, None)] * phi.shape[1] + [(0, None)],
    )
    return answer.fun


def contains(bracket, truth, width=1e-7):
    return bracket.lower - 1e-8 <= truth <= bracket.upper + 1e-8 and bracket.upper - bracket.lower <= width


# ------------------------------------------------------------------------------------------- where places are listed


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([(3, 1.0), (4, 0.7), (None, 0.8)]))
def test_the_misfit_is_that_of_the_full_program(seed, staged, ends):
    """v* and q*, reachable and all, features of states or of stages too, with a horizon or a discount."""
    horizon, discount = ends
    task = random_problem(seed, staged=staged, horizon=horizon, discount=discount)
    diagnosis = diagnose(task)
    for values in "vq":
        part, (phi, x) = diagnosis[values], rows(task, values)
        assert part.complete
        assert part.places == len(x)
        assert contains(part.eta, full_program(phi, x))
        everywhere = full_program(*rows(task, values, everywhere=True))
        assert contains(part.everywhere or part.eta, everywhere)
        theta = np.array(part.theta)
        assert np.abs(x - phi @ theta).max() <= part.eta.upper + 1e-8
        assert np.linalg.norm(theta) <= part.norm.upper
        assert part.rank == np.linalg.matrix_rank(phi)


def test_the_places_that_fit_worst_prove_the_bound():
    """From the worst states alone, with the problem's own features and values: no θ fits these few places better."""
    task = random_problem(3)
    for values, part in zip("vq", diagnose(task).parts, strict=True):
        solution = tp.solve_tabular(task)
        phi, x, weights = [], [], []
        for worst in part.worst:
            if values == "v":
                phi.append(task.phi_v(worst.state, worst.stage))
                assert worst.value == solution.value(worst.state, worst.stage)
            else:
                phi.append(task.phi_q(worst.state, worst.stage)[worst.action])
                assert worst.value == solution.action_value(worst.state, worst.action, worst.stage)
            x.append(worst.value)
            weights.append(math.copysign(worst.weight, worst.residual))
            assert worst.fitted == pytest.approx(phi[-1] @ np.array(part.theta))
            assert abs(worst.residual) == pytest.approx(part.eta.upper, abs=1e-6)
        assert sum(map(abs, weights)) == pytest.approx(1)
        assert [worst.weight for worst in part.worst] == sorted((b.weight for b in part.worst), reverse=True)
        floor = misfit_floor(np.array(phi), np.array(x), np.array(weights), part.radius)
        assert floor == pytest.approx(part.eta.lower, abs=1e-9)


@pytest.mark.parametrize("features", ["v", "q", "vq"])
@pytest.mark.parametrize("eta", [0.05, 0.1])
def test_featurize_keeps_its_promise(features, eta):
    mdp = tp.make("layered", actions=3, d=4, states=20, horizon=5, seed=1).mdp
    for part in diagnose(tp.featurize(mdp, 4, kind=features, eta=eta, seed=2)).parts:
        assert contains(part.everywhere, eta)
        assert part.eta.upper <= eta + 1e-9  # of the states that episodes get to
        assert part.suffices


@pytest.mark.parametrize("name", ["hanoi/5", "chinese-rings/6", "grid/4x5", "layered/3x5", "layered-stochastic/2x3"])
def test_what_is_realized_by_nature(name):
    task = tp.make(name)
    (part,) = diagnose(task).parts
    assert part.realized
    assert part.eta.lower == 0
    assert part.suffices
    assert part.declared_norm == pytest.approx(part.norm)
    assert part.norm.upper <= np.linalg.norm(task.theta) + 1e-6
    assert part.norm.upper - part.norm.lower <= 1e-6
    assert part.redundant == ()
    assert part.guarantee.loss == 0
    assert "realized" in str(diagnose(task))


def test_all_the_hanoi_states_are_looked_at():
    task = tp.make("hanoi/5")
    (part,) = diagnose(task).parts
    assert part.places == 3**5 - 1  # the goal is END
    marks = [task.mdp.marks(state) for state in np.ndindex(*[3] * 5)]
    theta = np.linalg.lstsq(np.array(marks) / math.sqrt(5), -np.array(marks) @ task.mdp.weights, rcond=None)[0]
    assert part.norm.upper == pytest.approx(np.linalg.norm(theta), rel=1e-7)


def test_realized_where_episodes_go_only():
    mdp = tp.make("layered", actions=3, d=4, states=20, horizon=5, seed=1).mdp
    for part in diagnose(tp.featurize(mdp, 4, kind="vq", reach=True)).parts:
        assert part.realized
        assert part.everywhere.lower > 0.1


@pytest.mark.parametrize("kind", ["v", "q"])
def test_a_ball_that_is_too_small(kind):
    task = random_problem(5, bound=0.2, eta=0.3)
    part = diagnose(task, kind=kind)[kind]
    phi, x = rows(task, kind)
    assert part.suffices is False
    rng = np.random.default_rng(0)
    for theta in rng.standard_normal((200, 3)):
        theta *= 0.2 / np.linalg.norm(theta)
        assert np.abs(x - phi @ theta).max() >= part.in_ball.lower - 1e-12
    assert part.in_ball.upper - part.in_ball.lower <= 1e-7
    if part.eta.upper <= 0.3:
        assert part.declared_norm.lower > 0.2
        assert "needs B" in str(diagnose(task, kind=kind))
    else:
        assert part.declared_norm is None
        assert "no B up to" in str(diagnose(task, kind=kind))
    wide = diagnose(random_problem(5, bound=100.0, eta=rounded_up(part.eta.upper)), kind=kind)[kind]
    assert wide.suffices
    assert wide.declared_norm.upper <= part.norm.upper + 1e-6
    assert wide.in_ball == pytest.approx(wide.eta, abs=1e-8)


def test_an_environment_with_a_table():
    pytest.importorskip("gymnasium")
    for kind in "vq":
        lake = named("FrozenLake-v1", features="poly2", kind=kind, horizon=10)
        part = diagnose(lake)[kind]
        assert contains(part.eta, full_program(*rows(lake, kind)))
        assert contains(part.everywhere, full_program(*rows(lake, kind, everywhere=True)))


def test_a_sample_gives_a_lower_bound_only():
    task = random_problem(7, states=30, horizon=4)
    truth = diagnose(task, kind="v")["v"]
    some = diagnose(task, kind="v", sample=20)["v"]
    assert not some.complete
    assert some.eta.lower <= truth.eta.upper
    assert some.eta.upper == some.norm.upper == some.in_ball.upper == math.inf
    assert some.norm == (0.0, math.inf)
    assert some.places == 20
    assert (some.theta, some.guarantee, some.realized) == (None, None, False)
    assert "a sample of 20 reachable states" in str(diagnose(task, kind="v", sample=20))
    assert diagnose(task, kind="v", sample=20) == diagnose(task, kind="v", sample=20)
    assert some.worst != diagnose(task, kind="v", sample=20, seed=1)["v"].worst
    enough = diagnose(task, kind="v", sample=10_000)["v"]
    assert enough.eta == truth.eta


def test_places_that_look_the_same_are_merged():
    """Features that do not see the stage: as many rows as states, twice where values differ."""
    task = random_problem(8, staged=False, horizon=50, states=10)
    known = places.listed(task, 1)
    gathered = places.gather(task, *known, "v", sample=1000, seed=0)
    assert len(gathered.inside) <= 10
    targets = gathered.inside.targets()
    assert len(targets.x) <= 20
    assert targets.count == int(known[0].reach.sum())
    phi, x = rows(task, "v")
    assert contains(diagnose(task, kind="v")["v"].eta, full_program(phi, x))


def test_a_deterministic_simulator_with_few_states():
    """The same problem as a table and as a simulator."""
    mdp = table(11, chance=False, horizon=4)
    features = np.random.default_rng(0).standard_normal((4, 8, 3))
    features /= np.linalg.norm(features, axis=-1, keepdims=True)

    class Simulator:
        horizon, actions = 4, 2
        deterministic_transitions = deterministic_rewards = True

        def start(self, rng):
            return ("place", 0)

        def step(self, state, action, rng):
            reward, following = mdp.step(state[1], action, rng)
            return reward, following if following is tp.END else ("place", following)

    as_table = tp.Problem(mdp, lambda s, h: features[h, s], bound=2.0, name="table")
    task = tp.Problem(Simulator(), lambda s, h: features[h, s[1]], bound=2.0, name="simulator")
    one, other = diagnose(as_table)["v"], diagnose(task)["v"]
    assert isinstance(other, Fitted)
    assert other.everywhere is None
    for field in ("eta", "norm", "in_ball"):
        assert getattr(one, field) == pytest.approx(getattr(other, field), abs=1e-9)
    assert other.worst[0].state[0] == "place"


# ------------------------------------------------------------------------------------------------------- guarantees


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("features", ["v", "q"])
def test_the_guarantee_holds_when_tensorplan_runs(seed, features):
    """As the diagnosis suggests: its eta, its bound."""
    mdp = tp.make("layered", actions=2, d=3, states=15, horizon=4, seed=seed).mdp
    task = tp.featurize(mdp, 3, kind=features, eta=0.05, seed=seed)
    promise = diagnose(task)[features].guarantee
    told = tp.Problem(mdp, task.phi_v, task.phi_q, bound=promise.bound, name="told")
    planner = (tp.TensorPlan if features == "v" else tp.TensorPlanQ)(eta=promise.eta)
    (episode,) = tp.run(told, planner).episodes
    assert type(planner).__name__ == promise.planner
    assert episode.certificate.status == "certified"
    steps = 4 if features == "v" else 5
    assert promise.loss == pytest.approx(promise.eta * (1 + 2 * steps))
    assert episode.total_reward >= tp.solve_tabular(mdp).value(episode.start, 0) - promise.loss - 1e-9


def test_the_loss_is_discounted_with_the_steps():
    task = random_problem(2, horizon=None, discount=0.5, chance=True)
    promise = diagnose(task, kind="v")["v"].guarantee
    assert promise.loss == pytest.approx(promise.eta * (1 + 1.5 * 2))
    assert promise.uses_delta
    assert "- delta -" in promise.sentence
    task = random_problem(2, horizon=3, discount=0.5)
    promise = diagnose(task, kind="v")["v"].guarantee
    assert promise.loss == pytest.approx(promise.eta * (1 + 1.5 * 1.75))


def test_no_guarantee_where_there_is_none():
    crooked = refeatured(tp.make("hanoi/3"), "poly1")
    promise = diagnose(crooked)["v"].guarantee
    assert promise.planner is None
    assert "errors add up" in promise.sentence
    assert "random transitions" in diagnose(random_problem(1), kind="q")["q"].guarantee.sentence
    vague = diagnose(random_problem(1, d=1), kind="v")["v"].guarantee
    assert vague.vacuous
    assert "says nothing" in vague.sentence


@given(st.floats(1e-12, 1e12), st.integers(1, 8))
def test_rounding_goes_one_way(x, digits):
    low, high = rounded_down(x, digits), rounded_up(x, digits)
    assert low <= x <= high
    assert high - low <= 1.001 * x * 10 ** (1 - digits)
    assert float(f"{high:.{digits}g}") == high
    assert rounded_up(high, digits) == high == rounded_down(high, digits)


def test_brackets_in_words():
    assert between(Bracket(0.25, 0.25 + 1e-9)) == "= 0.25"
    assert between(Bracket(0.12345678, math.inf)) == ">= 0.12345"
    assert between(Bracket(0.1, 0.2)) == "in [0.1, 0.2]"


# ------------------------------------------------------------------------------------------------------- redundancy


def test_planted_dependencies_are_found():
    rng = np.random.default_rng(0)
    base = rng.standard_normal((50, 3))
    phi = np.column_stack(
        [base[:, 0], np.zeros(50), base[:, 1], 2 * base[:, 0] - base[:, 1], 1e-11 * base[:, 2], base @ [1, 1, 1]]
    )
    found = redundant(phi, [f"f{i}" for i in range(6)])
    assert [(r.index, r.name, r.zero) for r in found] == [(1, "f1", True), (3, "f3", False), (5, "f5", False)]
    assert max(r.left for r in found) <= 1e-9
    assert [r.index for r in redundant(rng.standard_normal((3, 5)))] == [3, 4]


def test_redundant_features_are_named():
    mdp = table(1)

    class Features:
        names = ("one", "x", "one again", "never")

        def __call__(self, state, stage):
            return np.array([1.0, state / 8, 1.0, 0.0]) / 2

    part = diagnose(tp.Problem(mdp, Features(), bound=1.0))["v"]
    assert [(r.name, r.zero) for r in part.redundant] == [("one again", False), ("never", True)]
    assert (part.dimension, part.rank) == (4, 2)
    text = str(diagnose(tp.Problem(mdp, Features(), bound=1.0)))
    assert "1 zero: never" in text
    assert "1 combination of earlier ones: one again" in text


def test_bad_input():
    task = tp.featurize(table(1), 3)
    with pytest.raises(tp.BadInput, match="has no phi_q"):
        diagnose(task, kind="q")
    with pytest.raises(tp.BadInput, match="kind must be one of v, q"):
        diagnose(task, kind="w")
    with pytest.raises(tp.BadInput, match="sample must be a whole number >= 1"):
        diagnose(task, sample=0)
    with pytest.raises(tp.BadInput, match="budget"):
        diagnose(task, budget=-1)
    with pytest.raises(tp.ProblemError, match="norm"):
        diagnose(tp.Problem(table(1), lambda s, h: np.array([2.0]), bound=1.0))
