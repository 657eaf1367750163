"""Many scenarios at once are the same scenarios one at a time."""

import numpy as np
import pytest

import tensorplan as tp
from tensorplan.access.batches import BatchAccess, Columns
from tensorplan.access.meter import Meter
from tensorplan.access.noise import Purpose
from tensorplan.hindsight.bundle import BLOCK, Bundle
from tensorplan.hindsight.columns import Ahead
from tensorplan.hindsight.ranges import least_policy, most_upper
from tensorplan.hindsight.scenario import Rules, play
from tensorplan.hindsight.subject import Design, RandomStarts, Subject, blocks
from tensorplan.hindsight.values import Values


class Drift:
    """A point that drifts; actions push it, so that paths never meet; the last one ends the walk, for a prize."""

    actions, uniforms = 3, 2

    def __init__(self, horizon=4):
        self.horizon = horizon
        self.reward_range = (-1.0, 2.0)

    def start(self, rng):
        return (float(rng.random()), 0.5)

    def step(self, state, action, rng):
        rewards, following, ended = self.step_many(np.array([state]), np.array([action]), self.draw_noise(1, rng))
        return float(rewards[0]), tp.END if ended[0] else tuple(following[0].tolist())

    def draw_noise(self, n, rng):
        return rng.random((n, 2))

    def step_many(self, states, actions, noise):
        ended = (actions == 2) | (states[:, 1] + noise[:, 1] > 1.8)
        rewards = np.where(actions == 2, 2 * states[:, 0], noise[:, 1] - 0.5 * actions)
        return rewards, (states * (1 + 0.3 * actions[:, None]) + noise) % 1.0, ended


class Guess:
    """Some value function, also for arrays."""

    def __call__(self, state, stage):
        return float(self.many(np.array([state]), stage)[0])

    def many(self, states, stage):
        return 2 * states[:, 0] - 0.3 * stage + states[:, 1] ** 2


class Pusher:
    """Some policy, also for arrays."""

    def act(self, state, stage):
        return int(self.act_many(np.array([state]), stage)[0])

    def act_many(self, states, stage):
        return np.where(states[:, 0] > 0.8, 2, (states[:, 1] > 0.5).astype(int))

    def __call__(self, purpose, index, start):
        return self

    def arrive(self, action, reward, state):
        pass


def task(horizon=4):
    discount = 0.9 if horizon is None else 1.0
    return tp.Problem(Drift(horizon), lambda state, stage: np.ones(1), bound=9.0, discount=discount)


def setting(horizon=4, seed=0):
    access = BatchAccess(task(horizon), Meter(), seed)
    return Subject(access, Values(access, Guess()), Pusher(), RandomStarts(access))


class SameNoise:
    """The noise that a bundle would use for one of its scenarios."""

    def __init__(self, whom, samples, purpose, block, row):
        self.whom, self.samples, self.key, self.row = whom, samples, (purpose, block), row

    def look(self, time, stage, ids):
        access, values = self.whom.access, self.whom.values
        rng = np.random.default_rng(access.noise.at(*self.key, (1 << 41) + time).integers(2**63, size=4))
        move = access.separate_noise(BLOCK, 1, rng)[[self.row]]
        nested = access.separate_noise(BLOCK, self.samples, rng).reshape(BLOCK, self.samples, -1)[self.row]
        columns = Columns(self.key[0], 0, 0, self.samples + 1, np.concatenate([move, nested]))
        rewards, following = access.steps(ids, stage, columns)
        gains = rewards + access.problem.discount * values(following, access.problem.next_stage(stage))
        residuals = gains[..., 1:].mean(axis=-1) - values(ids, stage)[:, None]
        return Ahead(residuals, rewards[..., 0], following[..., 0])


@pytest.mark.parametrize(
    "rules",
    [
        Rules(4, 100),
        Rules(4, 2),
        Rules(4, 100, limit=3.0),
        Rules(4, 100, limit=0.3, paired=True),
        Rules(4, 100, floor=1.5),
        Rules(4, 3, limit=3.5, floor=1.0),
    ],
)
@pytest.mark.parametrize("horizon", [4, None])
def test_scenarios_of_a_bundle_are_those_of_the_same_noise(rules, horizon):
    whom = setting(horizon)
    design = Design(rules, 3, pooled=False)
    found = list(whom.some_scenarios(design, Purpose.TEST, range(BLOCK, BLOCK + 40)))
    cut = 0
    for row, scenario in enumerate(found):
        start = whom.starts(Purpose.TEST, BLOCK + row)
        noise = SameNoise(whom, 3, Purpose.TEST, 1, row)
        alone = play(whom.values, noise, start, rules, Pusher())
        if rules.width == 100 or not alone.cut:  # a bundle never cuts the path of the policy
            for name in ("upper", "policy", "largest", "largest_gap", "smallest"):
                assert getattr(scenario, name) == pytest.approx(getattr(alone, name), abs=1e-12), name
            assert (scenario.stopped, scenario.cut, scenario.looked) == (alone.stopped, alone.cut, alone.looked)
            stages = np.zeros_like(scenario.stages[0])
            for step in alone.path:
                stages[step.stage] += step.residual
            np.testing.assert_allclose(scenario.stages[0], stages, atol=1e-12)
        cut += scenario.cut > 0
    assert (cut > 0) == (rules.width < 100)


def test_a_scenario_depends_on_its_number_alone():
    design = Design(Rules(4, 100), 3, pooled=False)
    every = [s.upper for s in setting().some_scenarios(design, Purpose.TEST, range(2 * BLOCK + 5))]
    for indices in (range(7), range(100, 150), range(2 * BLOCK, 2 * BLOCK + 5)):
        some = [s.upper for s in setting().some_scenarios(design, Purpose.TEST, indices)]
        assert some == every[indices.start : indices.stop]


def test_queries_are_those_that_a_design_foresees():
    whom, design = setting(), Design(Rules(4, 100), 3, pooled=False, steady=frozenset([2]))
    found = list(whom.some_scenarios(design, Purpose.TEST, range(50)))
    assert whom.access.meter.spent == sum(design.queries(s, 3) for s in found)


def test_steady_actions_are_those_without_noise():
    """Ending leaves nothing to chance; with one sample instead of three, its temporal differences are the same."""
    whom, design = setting(), Design(Rules(4, 100), 3, pooled=False)
    steady = whom.steady_actions(design)
    assert steady == {2}
    uppers = [
        [s.upper for s in setting().some_scenarios(each, Purpose.TEST, range(30))]
        for each in (design, Design(Rules(4, 100), 3, pooled=False, steady=steady))
    ]
    assert uppers[0] == pytest.approx(uppers[1])


@pytest.mark.parametrize("limit", [np.inf, 3.0])
def test_means_bound_what_is_true(limit):
    """The policy is worth its mean return, or less if cut, and the best is worth no less; five standard errors."""
    whom = setting()
    rules = Rules(4, 100, limit=limit)
    found = list(whom.some_scenarios(Design(rules, 6, pooled=False), Purpose.TEST, range(20 * BLOCK)))
    returns = np.array(list(whom.episodes(4, range(20_000))))
    upper, policy = np.array([s.upper for s in found]), np.array([s.policy for s in found])
    error = 5 * (returns.std() / len(returns) ** 0.5 + policy.std() / len(policy) ** 0.5)
    assert policy.mean() < returns.mean() + error
    assert (policy.mean() > returns.mean() - error) == (limit == np.inf)
    assert upper.mean() > returns.mean() - error
    assert upper.max() <= most_upper(whom.values, rules)
    assert policy.min() >= least_policy(whom.values, rules)


def test_episodes_in_blocks_are_episodes():
    """The same law as one at a time, and each depends on its number alone."""
    whom = setting()
    together = np.array(list(whom.episodes(4, range(3000))))
    alone = np.array([setting().episode(4, Purpose.EPISODE, i) for i in range(2000)])
    spread = together.std() * (1 / 3000 + 1 / 2000) ** 0.5
    assert abs(together.mean() - alone.mean()) < 5 * spread
    assert list(setting().episodes(4, range(1500, 2500))) == together[1500:2500].tolist()


def test_blocks():
    assert list(blocks(range(5, 23), 10)) == [(0, range(5, 10)), (1, range(10)), (2, range(3))]
    assert list(blocks(range(4, 4), 10)) == [(0, range(4, 4))]


def test_a_bundle_of_one_array_of_starts():
    whom = setting()
    bundle = Bundle(whom.values, Pusher(), Rules(4, 100), [2, 2, 1], np.array([[0.1, 0.2]]), range(1))
    (scenario,) = bundle.run(Purpose.TEST, 0)
    assert scenario.upper >= scenario.policy
