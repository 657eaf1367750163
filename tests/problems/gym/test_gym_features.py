"""Features and frames of Gymnasium environments."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from helpers import rng

import tensorplan as tp
from tensorplan.features import Frame
from tensorplan.testing import check_problem


def test_features_of_all_kinds():
    from sklearn.preprocessing import PolynomialFeatures

    poly = PolynomialFeatures(2).fit(np.zeros((1, 2)))
    for features, d in (
        ("onehot", 16),
        ("tiles2x3", 3 * 4),
        (lambda x: [1.0, x[0], x[1]], 3),
        (poly, 6),
        (["poly1", lambda x, stage: [x[0] * stage]], 4),
        ("aggregate2@stage", 4 * 100),
    ):
        scale = 1.0 if isinstance(features, str) else 500.0
        problem = tp.from_gym("FrozenLake-v1", features=features, scale=scale)
        assert problem.dimension == d
        check_problem(problem, episodes=2)


class Ramp(gymnasium.Env):
    """Five steps up cost 1 each and 10 is paid at the top; giving up pays 2 at the bottom, later 1: v* = 5 + x."""

    action_space = spaces.Discrete(2)
    top = 5

    def __init__(self, low=0.0, high=1.0):
        self.observation_space = spaces.Box(low, high, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0
        return np.array([self.x], dtype=np.float32), {}

    def step(self, action):
        reward = (1.0 + (self.x == 0), -1.0 + 10.0 * (self.x == self.top - 1))[action]
        self.x += 1
        return np.array([self.x], dtype=np.float32), reward, action == 0 or self.x == self.top, False, {}


def ramp(env=Ramp, **options):
    return tp.from_gym(env, **{"features": "linear", "reward_range": (-1, 9), "bound": 20.0} | options)


def test_an_observation_outside_of_its_space_is_an_error_not_a_proof():
    """Moved to the end of the space all states but the first look alike, and "certified: v* = 2" follows."""
    with pytest.raises(tp.ProblemError) as error:
        tp.run(ramp(), tp.TensorPlan())
    assert str(error.value) == (
        "x0 = 2 at the point [2.] is outside of [0, 1]: declare a larger space, or give a larger frame=(low, high)"
    )


@pytest.mark.parametrize("frame", [((0,), (5,)), (np.array([0]), [5.0]), Frame((0,), (5,), names=("height",))])
def test_a_frame_may_be_given(frame):
    problem = ramp(frame=frame)
    (episode,) = tp.run(problem, tp.TensorPlan()).episodes
    assert (episode.total_reward, episode.certificate.status) == (5, "certified")
    assert problem.mdp.frame.horizon == problem.horizon
    assert problem.phi_v.map.frame == problem.mdp.frame
    assert problem.mdp.clipped == problem.phi_v.clipped == 0


def test_clipping_must_be_asked_for_and_is_counted():
    problem = ramp(outside="clip")
    with pytest.raises(tp.NotRealizable) as refuted:  # v* = 5 is not linear in features of clipped points
        tp.run(problem, tp.TensorPlan())
    (episode,) = refuted.value.run.episodes
    assert episode.certificate.lower == pytest.approx(5)
    assert any("observations were clipped" in doubt for doubt in episode.certificate.warnings)
    assert problem.mdp.clipped == problem.phi_v.clipped > 0
    assert ramp(outside="clip", frame=((0,), (5,))).mdp.clipped == 0


def test_where_a_space_has_no_end_random_play_suggests_one():
    frame = ramp(Ramp(-np.inf, np.inf)).mdp.frame
    assert frame.guessed == (0,)
    assert frame.low[0] < 0
    assert frame.high[0] >= 8  # random play got to 4 at least
    assert ramp().mdp.frame.guessed == ()


class Tower(Ramp):
    """A ramp of a hundred steps, of which random play sees few, and no end of the space."""

    top = 100

    def __init__(self):
        super().__init__(-np.inf, np.inf)


@pytest.mark.parametrize(
    ("features", "goes_on"), [("poly2", False), ("tiles2x2", False), ("rff9", True), ("rbf3", True)]
)
def test_beyond_the_guess_features_are_refused_unless_they_are_defined_there(features, goes_on):
    problem = ramp(Tower, features=features)
    states = [problem.mdp.start(rng())]
    for _ in range(90):
        states.append(problem.mdp.step(states[-1], 1, rng())[1])
    if goes_on:
        assert len({problem.state_features(state, 0).tobytes() for state in states[:40]}) == 40
        return
    with pytest.raises(tp.ProblemError, match=r"^x0 = 90 at .*, an estimate from random play: give frame="):
        problem.state_features(states[-1], 0)
    problem = ramp(Tower, features=features, frame=((0,), (100,)))
    assert all(np.linalg.norm(problem.state_features(state, 0)) <= 1 + 1e-9 for state in states)


@pytest.mark.parametrize("name", ["CartPole-v1", "MountainCar-v0", "Acrobot-v1"])
def test_classic_control_stays_in_its_frame(name):
    """Whatever is done: at random, always the same, or what makes it fastest."""
    problem = tp.from_gym(name, features="tiles2x2", bound=100.0)
    dice = rng(1)
    for episode in range(12):
        state, stage = problem.mdp.start(rng(episode)), 0
        while state is not tp.END and stage < problem.horizon - 1:
            problem.state_features(state, stage)
            speed = problem.mdp.point(state)[-1]
            action = (int(dice.integers(problem.actions)), 0, problem.actions - 1, (problem.actions - 1) * (speed > 0))
            state, stage = problem.mdp.step(state, action[episode % 4], rng())[1], stage + 1


def test_a_frame_of_a_table():
    wide = tp.from_gym("FrozenLake-v1", features="linear", frame=((0, 0), (7, 7))).mdp.frame
    assert (wide.high, wide.names, wide.whole) == ((7, 7), ("row", "column"), True)


def test_features_of_pairs():
    problem = tp.from_gym("CliffWalking-v1", features="poly1", kind="q")
    assert problem.phi_v is None
    block = problem.action_features(36, 0)
    assert block.shape == (4, 12)
    np.testing.assert_array_equal(block[2, 6:9], tp.from_gym("CliffWalking-v1", features="poly1").state_features(36, 0))
    assert np.count_nonzero(block[2]) == np.count_nonzero(block[2, 6:9])
    assert problem.phi_q.names[3] == "action 1: 1"


def test_the_bound_of_a_table_is_read_off_its_solution():
    problem = tp.from_gym("FrozenLake-v1", features="onehot", horizon=None, discount=0.9)
    values = [problem.optimal_value(s) for s in range(16)]
    assert problem.bound == pytest.approx(1.2 * np.linalg.norm(np.array(values)[list(reached(problem))]))
    pairs = tp.from_gym("FrozenLake-v1", features="onehot", horizon=None, discount=0.9, kind="q")
    solution = pairs.solution
    rows = [[solution.action_value(s, a, 0) for a in range(4)] for s in reached(pairs)]
    assert pairs.bound == pytest.approx(1.2 * np.linalg.norm(rows))


def reached(problem):
    seen, front = {0}, [0]
    while front:
        state = front.pop()
        for action in range(4):
            _, successors, _ = problem.mdp.step_batch(state, action, 1, rng())
            new = {s for s in successors if s is not tp.END} - seen
            seen |= new
            front += new
    return seen
