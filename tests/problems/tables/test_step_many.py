"""Tables that step many pairs at once: exactly the table on a grid of noise, and the same law as step."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import sparse, stats
from stored_tables import FORMS, stored

import tensorplan as tp
from tensorplan.core import END, Batched
from tensorplan.parallel.replicas import ReplicatedMDP
from tensorplan.problems.tables.tabular import TabularMDP
from tensorplan.problems.transforms.tail import tail
from tensorplan.testing import tabular_mdps

GRID = 64
MIDPOINTS = (np.arange(GRID) + 0.5) / GRID
# probabilities and means that are multiples of 1/64, so that a grid of noise meets each of them exactly


def sixty_fourths(rng, size, following, actions=2):
    counts = rng.multinomial(GRID, np.ones(following + 1) / (following + 1), (size, actions))
    return counts / GRID


def grid_mdp(form: str, noise: bool, layered: bool) -> tuple[TabularMDP, list]:
    """An MDP, and its transitions (S, A, S'+1) per table, None for the last one of a layered MDP."""
    rng = np.random.default_rng(7)
    options = {"noise": noise, "reward_range": (-1.0, 3.0)}
    means = lambda size: rng.integers(0, GRID + 1, (size, 2)) / GRID * 4 - 1  # noqa: E731
    if not layered:
        law = sixty_fourths(rng, 5, 5)
        return TabularMDP(stored(law, form), means(5), horizon=4, **options), [law]
    sizes = [2, 5, 3]
    laws = [sixty_fourths(rng, n, m) for n, m in itertools.pairwise(sizes)]
    given_ = [*(stored(law, form) for law in laws), None]
    return TabularMDP(given_, [means(n) for n in sizes], horizon=3, **options), [*laws, None]


def stepped(mdp, states, actions, noise):
    """[(reward, next state or END)] of one call of step_many, after checking its types."""
    rewards, following, ended = mdp.step_many(np.asarray(states), np.asarray(actions), noise)
    assert rewards.shape == following.shape == ended.shape == (len(states),)
    assert (rewards.dtype, ended.dtype) == (np.float64, np.bool_)
    return [(r, END if e else n) for r, n, e in zip(rewards.tolist(), following.tolist(), ended.tolist(), strict=True)]


@pytest.mark.parametrize("layered", [False, True])
@pytest.mark.parametrize("noise", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_a_grid_of_noise_gives_the_table_exactly(form, noise, layered):
    mdp, laws = grid_mdp(form, noise, layered)
    grid = np.stack(np.meshgrid(*[MIDPOINTS] * (1 + noise)), axis=-1).reshape(-1, 1 + noise)
    assert mdp.draw_noise(3, np.random.default_rng(0)).shape == (3, 1 + noise)
    for stage, law in enumerate(laws):
        for state, action in itertools.product(mdp.states(stage), range(2)):
            local = mdp.index(state, stage)
            outcomes = stepped(mdp, [state] * len(grid), [action] * len(grid), grid)
            assert np.mean([r for r, _ in outcomes]) == mdp.rewards(stage)[local, action]
            following = [*mdp.states(stage + 1), END] if law is not None else [END]
            shares = [sum(n is f or n == f for _, n in outcomes) / len(grid) for f in following]
            assert shares == ([1.0] if law is None else law[local, action].tolist())


class Scripted:
    """A generator that draws given numbers."""

    def __init__(self, numbers):
        self.numbers = list(numbers)

    def random(self):
        return self.numbers.pop(0)


@settings(max_examples=60, deadline=None)
@given(mdp=tabular_mdps())
def test_the_same_noise_is_the_same_step(mdp):
    """With the uniform numbers of ``step`` as noise, step_many gives the very same outcomes, all stages mixed."""
    rng = np.random.default_rng(0)
    states = rng.integers(mdp.states(mdp.horizon - 1).stop, size=200)
    actions, noise = rng.integers(mdp.actions, size=200), mdp.draw_noise(200, rng)
    singles = []
    for state, action, row in zip(states.tolist(), actions.tolist(), noise, strict=True):
        needs = len(mdp._row(state, action)[0]) > 0
        singles.append(mdp.step(state, action, Scripted(row if needs else row[1:])))
    assert stepped(mdp, states, actions, noise) == singles


def test_shared_noise_is_shared_and_arguments_decide():
    mdp, _ = grid_mdp("csr", True, False)
    row = mdp.draw_noise(1, np.random.default_rng(1))
    assert len(set(stepped(mdp, [2] * 50, [1] * 50, np.repeat(row, 50, axis=0)))) == 1
    states, actions = np.arange(5), np.array([0, 1, 0, 1, 0])
    order = np.array([3, 1, 4, 0, 2])
    noise = mdp.draw_noise(5, np.random.default_rng(2))
    forward = stepped(mdp, states, actions, noise)
    assert stepped(mdp, states[order], actions[order], noise[order]) == [forward[i] for i in order]
    assert stepped(mdp, states, actions, noise) == forward
    assert (states.tolist(), actions.tolist()) == ([0, 1, 2, 3, 4], [0, 1, 0, 1, 0])


def test_no_pairs_and_unknown_states():
    mdp, _ = grid_mdp("dense", False, True)
    assert stepped(mdp, np.zeros(0, int), np.zeros(0, int), np.zeros((0, 1))) == []
    with pytest.raises(tp.BadInput, match=r"there is no state 10: states are 0 .. 9"):
        mdp.step_many(np.array([0, 10]), np.zeros(2, int), np.zeros((2, 1)))
    with pytest.raises(tp.BadInput, match="there is no state -1"):
        mdp.step_many(np.array([0, -1]), np.zeros(2, int), np.zeros((2, 1)))


def test_a_large_table_takes_memory_for_its_entries_only():
    """A row that is full among 100,000 short ones: a padded table would take 80 GB."""
    size = 100_000
    rows = np.append(np.arange(1, size), np.zeros(size, int))
    columns = np.append(np.arange(1, size), np.arange(size))
    weights = np.append(np.ones(size - 1), np.full(size, 1 / size))
    mdp = TabularMDP(sparse.csr_array((weights, (rows, columns))), np.zeros((size, 1)), horizon=2)
    noise = MIDPOINTS[:, None]
    assert [n for _, n in stepped(mdp, [0] * GRID, [0] * GRID, noise)] == np.floor(noise[:, 0] * size).tolist()
    assert stepped(mdp, [7], [0], noise[:1]) == [(0.0, 7)]


# ----------------------------------------------------------------------------------- the law of step

DRAWS, ALARM = 20_000, 1e-6
# Two samples of DRAWS each, chi-square of homogeneity at level 1e-6 per pair, seeds are fixed.  If 0.05 of the
# probability moved between two of at most eight outcomes, the noncentrality is at least DRAWS * 0.05^2 * 2 = 100, which
# slips through with probability below 1e-3.


def test_the_two_sample_test_has_the_stated_power():
    assert stats.ncx2.cdf(stats.chi2.isf(ALARM, 7), 7, DRAWS * 0.05**2 * 2) < 1e-3


def assert_same_law(one: list, two: list) -> None:
    outcomes = sorted({*one, *two}, key=str)
    if len(outcomes) > 1:
        counts = [[drawn.count(outcome) for outcome in outcomes] for drawn in (one, two)]
        assert stats.chi2_contingency(counts).pvalue > ALARM


def assert_steps_alike(mdp, states, decimals=9):
    rng = np.random.default_rng(11)
    for state, action in itertools.product(states, range(mdp.actions)):
        single = [mdp.step(state, action, rng) for _ in range(DRAWS)]
        many = stepped(mdp, [state] * DRAWS, [action] * DRAWS, mdp.draw_noise(DRAWS, rng))
        assert_same_law(*([(round(r, decimals), n) for r, n in drawn] for drawn in (single, many)))


@pytest.mark.parametrize("layered", [False, True])
def test_tables_step_alike(layered):
    assert_steps_alike(grid_mdp("csr", True, layered)[0], [0, 1, 4])


@pytest.mark.parametrize(
    ("name", "states"),
    [
        ("queue-admission/3:servers=2:holding=0.1", range(4)),
        ("american-put/6:steps=2", [0, 5, 30]),
        ("gym/FrozenLake-v1:horizon=5:features=onehot", [0, 14, 15]),
        ("gym/FrozenLake-v1:features=onehot:discount=0.9", [6, 10]),
        ("gym/Taxi-v4:horizon=5:features=realizing3", [100]),
    ],
)
def test_cases_step_alike(name, states):
    if name.startswith("gym/"):
        pytest.importorskip("gymnasium")
    assert_steps_alike(tp.make(name).mdp, states)


# ------------------------------------------------------------------------------------- wrapped tables


def test_the_tail_of_a_table_steps_as_the_table():
    task = tp.make("american-put/6")
    rest = tail(task, 3, 2)
    assert isinstance(rest.mdp, Batched)
    noise = rest.mdp.draw_noise(50, np.random.default_rng(0))
    states = np.repeat([3, 4, 5], [20, 20, 10])
    assert stepped(rest.mdp, states, states * 0, noise) == stepped(task.mdp, states, states * 0, noise)
    plain = tp.Problem(Plain(), lambda state, stage: np.ones(1), bound=1.0)
    assert not isinstance(tail(plain, 0, 1).mdp, Batched)


class Plain:
    """A simulator without capabilities."""

    horizon, actions = 3, 1

    def start(self, rng):
        return 0

    def step(self, state, action, rng):
        return 0.0, state


@pytest.mark.parametrize("wrap", [tp.delayed, tp.binarize])
def test_wrappers_whose_states_are_no_numbers_do_not_claim_it(wrap):
    task = tp.make("layered/4x3:kind=q:states=4:horizon=3")
    assert isinstance(task.mdp, Batched)
    assert not isinstance(wrap(task).mdp, Batched)


def test_replicas_do_not_claim_it():
    with ReplicatedMDP(lambda: tp.make("american-put/3").mdp, workers=1) as mdp:
        assert not isinstance(mdp, Batched)


def test_a_table_with_another_step_does_not_inherit_it():
    class Doubled(TabularMDP):
        def step(self, state, action, rng):
            reward, following = super().step(state, action, rng)
            return 2 * reward, following

    class Described(TabularMDP):
        about = "a table"

    table = np.ones((1, 1, 1)), [[0.5]]
    assert not isinstance(Doubled(*table, horizon=1), Batched)
    assert isinstance(Described(*table, horizon=1), Batched)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32])
def test_small_types_do_not_overflow(dtype):
    mdp = TabularMDP(np.eye(200)[:, None, :].repeat(3, axis=1), np.zeros((200, 3)), horizon=1)
    states, actions = np.array([199, 150, 7], dtype=dtype), np.array([2, 1, 0], dtype=dtype)
    assert [n for _, n in stepped(mdp, states, actions, np.zeros((3, 1)))] == [199, 150, 7]
    with pytest.raises(TypeError):
        mdp.step_many(states + 0.5, actions, np.zeros((3, 1)))
