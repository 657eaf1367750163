"""Tables against arithmetic that shares nothing with them: exact fractions, all policies, paths searched by hand."""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats

from tensorplan.core import END, BadInput, Problem
from tensorplan.problems import tabular
from tensorplan.problems.puzzles import grid
from tensorplan.problems.tabular import TabularMDP, evaluate_tabular, solve_tabular

CLOSE = 1e-11  # doubles against fractions; values are below 20
FORMS = ("dense", "flat", "csr", "coo", "matrix")


# ------------------------------------------------------------------------- tiny MDPs in exact fractions


@dataclass
class Exact:
    """``tables[h][s][a]`` is (reward, {next: probability}), states counted within a stage, None for END."""

    tables: list
    sizes: list[int]
    actions: int
    horizon: int | None
    reward_range: tuple[int, int]
    layered: bool
    ends: list[bool]
    form: str

    def at(self, stage: int) -> list:
        return self.tables[stage if self.layered else 0]

    def size(self, stage: int) -> int:
        return self.sizes[stage if self.layered else 0]

    def places(self, first: int = 0) -> list[tuple[int, int]]:
        return [(h, s) for h in range(first, self.horizon) for s in range(self.size(h))]

    def number(self, stage: int, state: int) -> int:
        """The state as the package should number it."""
        return sum(self.sizes[:stage]) + state if self.layered else state

    def build(self) -> TabularMDP:
        matrices, rewards = [], []
        for h, table in enumerate(self.tables):
            columns = self.sizes[h + 1] if h + 1 < len(self.sizes) else self.sizes[h]
            dense = np.zeros((len(table), self.actions, columns + self.ends[h]))
            for s, a in itertools.product(range(len(table)), range(self.actions)):
                for following, p in table[s][a][1].items():
                    dense[s, a, columns if following is None else following] = float(p)
            matrices.append(stored(dense, self.form))
            rewards.append(np.array([[float(r) for r, _ in row] for row in table]))
        if self.layered:
            return TabularMDP(matrices, rewards, horizon=self.horizon, reward_range=self.reward_range)
        return TabularMDP(matrices[0], rewards[0], horizon=self.horizon, reward_range=self.reward_range)

    def forward(self, policy: dict, stage: int, state: int) -> Fraction:
        """The value of a policy {(stage, state): {action: weight}}, by pushing the state's mass forward."""
        mass, total = {state: Fraction(1)}, Fraction(0)
        for h in range(stage, self.horizon):
            pushed: dict = defaultdict(Fraction)
            for s, p in mass.items():
                for a, weight in policy[h, s].items():
                    reward, successors = self.at(h)[s][a]
                    total += p * weight * reward
                    for following, q in successors.items():
                        if following is not None:
                            pushed[following] += p * weight * q
            mass = pushed
        return total


def stored(dense: np.ndarray, form: str):
    flat = dense.reshape(-1, dense.shape[2])
    if form == "csr":
        return sparse.csr_array(flat)
    if form == "coo":
        # explicit zeros, and every entry in two halves, must not matter
        rows, columns = (index.ravel() for index in np.indices(flat.shape))
        halves = np.concatenate([flat.ravel(), flat.ravel()]) / 2
        return sparse.coo_array((halves, (np.tile(rows, 2), np.tile(columns, 2))), shape=flat.shape)
    return {"dense": dense, "flat": flat, "matrix": sparse.csc_matrix(flat)}[form]


@st.composite
def exact_models(draw, forever: bool = False) -> Exact:
    layered = not forever and draw(st.booleans())
    if layered:
        sizes, actions = draw(st.sampled_from([([1, 2, 2], 2), ([2, 2], 3), ([2, 1, 2], 2), ([3, 2], 2), ([2, 3], 1)]))
        horizon = len(sizes)
    else:
        size, horizon, actions = draw(st.sampled_from([(2, 3, 2), (3, 2, 2), (2, 2, 3), (1, 4, 2), (3, 3, 1)]))
        sizes = [size]
    low, high = draw(st.sampled_from([(0, 1), (-1, 0), (-2, 3)]))
    ends = [forever or draw(st.booleans()) for _ in sizes]
    most = draw(st.sampled_from([0, 3]))  # 0: deterministic
    tables = []
    for h, size in enumerate(sizes):
        columns = sizes[h + 1] if h + 1 < len(sizes) else size
        names = [*range(columns), *([None] if ends[h] else [])]
        table = []
        for _ in range(size):
            row = []
            for _ in range(actions):
                weights = draw(st.lists(st.integers(0, most), min_size=len(names), max_size=len(names)))
                # one entry is surely positive; forever, it is END, so that every policy ends
                weights[-1 if forever else draw(st.integers(0, len(names) - 1))] += 1
                total = sum(weights)
                reward = low + (high - low) * Fraction(draw(st.integers(0, 7)), 7)
                row.append((reward, {n: Fraction(w, total) for n, w in zip(names, weights, strict=True) if w}))
            table.append(row)
        tables.append(table)
    form = draw(st.sampled_from(FORMS))
    return Exact(tables, sizes, actions, None if forever else horizon, (low, high), layered, ends, form)


def all_policies(model: Exact, places: list):
    for choice in itertools.product(range(model.actions), repeat=len(places)):
        yield {place: {action: Fraction(1)} for place, action in zip(places, choice, strict=True)}


@settings(max_examples=200, deadline=None, derandomize=True)
@given(model=exact_models())
def test_backward_induction_is_the_best_of_all_policies(model):
    best: dict = {}
    for policy in all_policies(model, model.places()):
        for h, s in model.places():
            value = model.forward(policy, h, s)
            (action,) = policy[h, s]
            for key in ((h, s), (h, s, action)):
                best[key] = max(best.get(key, value), value)
    mdp = model.build()
    solution = solve_tabular(mdp)
    assert [v.shape for v in solution.v] == [(model.size(h),) for h in range(model.horizon)]
    for h, s in model.places():
        state = model.number(h, s)
        assert solution.v[h][s] == pytest.approx(float(best[h, s]), abs=CLOSE)
        assert solution.value(state, h) == solution.v[h][s]
        for a in range(model.actions):
            # (h, s) is visited once, so the best policy with action a there is worth q*
            assert solution.q[h][s, a] == pytest.approx(float(best[h, s, a]), abs=CLOSE)
            assert solution.action_value(state, a, h) == solution.q[h][s, a]
        assert best[h, s, int(solution.greedy[h][s])] == best[h, s]


@pytest.mark.parametrize("branching", [1, 2])
@pytest.mark.parametrize("form", ["stationary", "layered", "forever"])
def test_many_states_against_plain_gathering(form, branching):
    """20,000 states, where fast paths take over, against r + sum of weighted look-ups."""
    rng, size, actions = np.random.default_rng(6), 20_000, 3
    # successors of pair (s, a): later states only, so that nothing goes round without a horizon
    spots = np.arange(size)[:, None, None] + rng.integers(1, 4000, size=(size, actions, branching))
    spots = np.minimum(spots, size)  # size is END
    weights = rng.dirichlet(np.ones(branching), (size, actions))
    rewards = rng.uniform(-1, 1, (size, actions))
    rows = np.repeat(np.arange(size * actions), branching)
    matrix = sparse.coo_array((weights.ravel(), (rows, spots.ravel())), shape=(size * actions, size + 1))
    v = [np.zeros(size + 1)]
    for _ in range(size if form == "forever" else 3):
        q = rewards + (weights * v[0][spots]).sum(axis=2)
        following = np.append(np.max(q, axis=1), 0.0)
        if form == "forever" and (following == v[0]).all():
            break
        v.insert(0, following)
    if form == "layered":
        mdp = TabularMDP([matrix, matrix, None], [rewards] * 3, horizon=3, reward_range=(-1, 1))
    else:
        mdp = TabularMDP(matrix, rewards, horizon=None if form == "forever" else 3, reward_range=(-1, 1))
    solution = solve_tabular(mdp)
    for h, values in enumerate(solution.v):
        assert np.abs(values - v[h][:size]).max() < 1e-10
    q = rewards + (weights * v[0 if form == "forever" else 1][spots]).sum(axis=2)
    assert np.abs(solution.q[0] - q).max() < 1e-10
    assert mdp.deterministic_transitions == (branching == 1)


def test_the_greedy_action_is_the_smallest_of_the_best():
    rewards = np.array([[0.0, 0.5, 0.5], [0.25, 0.25, 0.25], [0.0, 0.0, 1.0]])
    solution = solve_tabular(TabularMDP(np.full((3, 3, 3), 1 / 3), rewards, horizon=1))
    assert solution.greedy[0].tolist() == [1, 0, 2]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(model=exact_models(), data=st.data())
def test_evaluation_is_the_forward_sum(model, data):
    policy, given_policy = {}, []
    for h in range(model.horizon):
        random_here = data.draw(st.booleans())
        part = []
        for s in range(model.size(h)):
            weights = [0] * model.actions
            if random_here:
                weights = data.draw(st.lists(st.integers(0, 3), min_size=model.actions, max_size=model.actions))
            weights[data.draw(st.integers(0, model.actions - 1))] += 1
            policy[h, s] = {a: Fraction(w, sum(weights)) for a, w in enumerate(weights) if w}
            part.append([w / sum(weights) for w in weights] if random_here else weights.index(1))
        given_policy.append(np.array(part))
    values = evaluate_tabular(model.build(), given_policy)
    for h, s in model.places():
        assert values.v[h][s] == pytest.approx(float(model.forward(policy, h, s)), abs=CLOSE)
        for a in range(model.actions):
            deviating = {**policy, (h, s): {a: Fraction(1)}}
            assert values.q[h][s, a] == pytest.approx(float(model.forward(deviating, h, s)), abs=CLOSE)


# ------------------------------------------------------------------------------------ without a horizon


def solve_exactly(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    """Gauss-Jordan elimination in fractions."""
    rows = [[*row, b] for row, b in zip(matrix, right, strict=True)]
    for i in range(len(rows)):
        pivot = next(k for k in range(i, len(rows)) if rows[k][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in range(len(rows)):
            if k != i:
                rows[k] = [x - rows[k][i] * y for x, y in zip(rows[k], rows[i], strict=True)]
    return [row[-1] for row in rows]


def linear_solve(model: Exact, policy: list[dict]) -> list[Fraction]:
    """v = r + P v of a policy without a horizon."""
    size = model.size(0)
    matrix = [[Fraction(int(s == t)) for t in range(size)] for s in range(size)]
    right = [Fraction(0)] * size
    for s in range(size):
        for a, weight in policy[s].items():
            reward, successors = model.at(0)[s][a]
            right[s] += weight * reward
            for following, p in successors.items():
                if following is not None:
                    matrix[s][following] -= weight * p
    return solve_exactly(matrix, right)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(model=exact_models(forever=True), data=st.data())
def test_without_horizon_against_exact_linear_solves(model, data):
    size, mdp = model.size(0), model.build()
    best: list = [None] * size
    for policy in all_policies(model, list(range(size))):
        values = linear_solve(model, [policy[s] for s in range(size)])
        best = [v if b is None else max(b, v) for b, v in zip(best, values, strict=True)]
    solution = solve_tabular(mdp)
    assert solution.v[0] == pytest.approx([float(b) for b in best], abs=CLOSE)
    for s, a in itertools.product(range(size), range(model.actions)):
        reward, successors = model.at(0)[s][a]
        q = reward + sum(p * best[t] for t, p in successors.items() if t is not None)
        assert solution.action_value(s, a, 0) == pytest.approx(float(q), abs=CLOSE)

    mixed = []
    for _ in range(size):
        weights = data.draw(st.lists(st.integers(0, 3), min_size=model.actions, max_size=model.actions))
        weights[0] += 1
        mixed.append({a: Fraction(w, sum(weights)) for a, w in enumerate(weights)})
    values = evaluate_tabular(mdp, [np.array([[float(w) for w in row.values()] for row in mixed])])
    assert values.v[0] == pytest.approx([float(v) for v in linear_solve(model, mixed)], abs=CLOSE)


@pytest.mark.parametrize("seed", range(10))
def test_shortest_paths_against_breadth_first_search(seed):
    rng, size = np.random.default_rng(seed), 30
    target = np.minimum(np.arange(size)[:, None] + rng.integers(6, size=(size, 3)), size - 1)
    target[0, rng.integers(3)] = size  # END
    for s in range(1, size):
        target[s, rng.integers(3)] = rng.integers(max(0, s - 3), s)  # some way leads towards 0
    distance, queue = {size: 0}, deque([size])
    while queue:
        here = queue.popleft()
        for s in np.unique(np.nonzero(target == here)[0]):
            if s not in distance:
                distance[s] = distance[here] + 1
                queue.append(s)
    matrix = np.zeros((size, 3, size + 1))
    np.put_along_axis(matrix, target[:, :, None], 1.0, axis=2)
    mdp = TabularMDP(matrix, np.full((size, 3), -1.0), horizon=None, reward_range=(-1, 0))
    solution = solve_tabular(mdp)
    assert solution.v[0].tolist() == [-distance[s] for s in range(size)]
    assert max(distance.values()) > 5
    for s in range(size):
        assert distance[target[s, solution.greedy[0][s]]] == distance[s] - 1
    greedy = evaluate_tabular(mdp, [solution.greedy[0]])
    assert greedy.v[0] == pytest.approx(solution.v[0], abs=1e-9)


def test_a_cheap_loop_does_not_hide_the_exit():
    # staying costs 1/64, leaving 1: after 64 rounds of value iteration leaving is better
    mdp = TabularMDP(np.eye(2)[None], np.array([[-1 / 64, -1.0]]), horizon=None, reward_range=(-1, 0))
    assert solve_tabular(mdp).v[0].tolist() == [-1.0]


def test_a_loop_without_reward_is_worth_nothing():
    assert solve_tabular(TabularMDP(np.ones((1, 1, 1)), np.zeros((1, 1)), horizon=None)).v[0].tolist() == [0.0]


def test_a_long_chain_of_rewards_is_finite():
    matrix = np.eye(50, 51, k=1)[:, None]
    values = solve_tabular(TabularMDP(matrix, np.ones((50, 1)), horizon=None)).v[0]
    assert values.tolist() == list(range(50, 0, -1))


@pytest.mark.parametrize("reward", [1.0, -1.0])
def test_infinite_values_are_refused(reward):
    matrix = np.zeros((3, 1, 4))
    matrix[0, 0, 3] = matrix[1, 0, 2] = matrix[2, 0, 1] = 1.0  # 1 and 2 go round for ever
    mdp = TabularMDP(matrix, np.full((3, 1), reward), horizon=None, reward_range=(-1, 1))
    with pytest.raises(BadInput, match=r"optimal value must be finite; at state [12] it is not"):
        solve_tabular(mdp)
    with pytest.raises(BadInput, match="state 1 never reaches END"):
        evaluate_tabular(mdp, [np.zeros(3, dtype=int)])


# --------------------------------------------------------------------------------------- as a simulator

DRAWS = 20_000
ALARM = 1e-6
# False alarm 1e-6 per test, and seeds are fixed; a table in which 0.05 moved between two of at most eight
# cells has noncentrality >= DRAWS * 0.05^2 * 4 = 200 and slips through with probability below 1e-9.


def test_the_chi_square_test_has_the_stated_power():
    assert stats.ncx2.cdf(stats.chi2.isf(ALARM, 7), 7, DRAWS * 0.05**2 * 4) < 1e-9


def assert_drawn_from(law: dict, outcomes: list) -> None:
    """Chi-square of outcomes against {outcome: probability}; what has no probability must not occur."""
    counts: dict = defaultdict(int)
    for outcome in outcomes:
        counts[outcome] += 1
    assert set(counts) <= {x for x, p in law.items() if p > 0}
    cells = [x for x, p in law.items() if p > 0]
    if len(cells) > 1:
        expected = np.array([law[x] for x in cells]) * len(outcomes)
        assert stats.chisquare([counts[x] for x in cells], expected).pvalue > ALARM


def sampled_mdp(form: str, noise: bool, layered: bool) -> tuple[TabularMDP, dict]:
    """An MDP, and {(state, action): {(reward, next): probability}} written down by hand."""
    first = np.array([[[0.2, 0.0, 0.5, 0.3], [0.0, 1.0, 0.0, 0.0]], [[0.6, 0.4, 0.0, 0.0], [0.1, 0.2, 0.3, 0.4]]])
    rewards = np.array([[0.25, -1.0], [2.0, 0.5]])
    if layered:
        last = np.zeros((3, 2))
        arrays = [stored(first, form), None], [rewards, last]
        names: list = [2, 3, 4, END]
        options = {"horizon": 2}
    else:
        square = np.concatenate([first, [[[0, 0, 1, 0], [0.5, 0.25, 0.125, 0.125]]]])
        rewards = np.concatenate([rewards, [[0.0, 1.5]]])
        first = square
        arrays = stored(square, form), rewards
        names = [0, 1, 2, END]
        options = {"horizon": 5}
    mdp = TabularMDP(*arrays, noise=noise, reward_range=(-1.0, 2.0), **options)
    laws = {}
    for s, a in itertools.product(range(len(first)), range(2)):
        high = (rewards[s, a] + 1.0) / 3.0
        ends = {2.0: high, -1.0: 1 - high} if noise else {rewards[s, a]: 1.0}
        laws[s, a] = {(r, n): w * p for r, w in ends.items() for n, p in zip(names, first[s, a], strict=True)}
    return mdp, laws


@pytest.mark.parametrize("layered", [False, True])
@pytest.mark.parametrize("noise", [False, True])
@pytest.mark.parametrize("form", ["dense", "csr"])
def test_steps_follow_the_table(form, noise, layered):
    mdp, laws = sampled_mdp(form, noise, layered)
    rng = np.random.default_rng(1)
    for (state, action), law in laws.items():
        assert_drawn_from(law, [mdp.step(state, action, rng) for _ in range(DRAWS)])
        rewards, successors, which = mdp.step_batch(state, action, DRAWS, rng)
        assert rewards.shape == which.shape == (DRAWS,)
        # a state that cannot follow must not even be listed: under local access it would be given away
        assert sorted(map(str, successors)) == sorted({str(n) for (_, n), p in law.items() if p > 0})
        assert_drawn_from(law, [(r, successors[i]) for r, i in zip(rewards.tolist(), which.tolist(), strict=True)])


def test_noise_has_the_declared_mean():
    low, high, mean = -1.0, 3.0, 0.2
    mdp = TabularMDP(np.ones((1, 1, 1)), [[mean]], horizon=1, noise=True, reward_range=(low, high))
    rng = np.random.default_rng(2)
    singles = np.array([mdp.step(0, 0, rng)[0] for _ in range(DRAWS)])
    for rewards in (singles, mdp.step_batch(0, 0, DRAWS, rng)[0]):
        assert set(rewards) == {low, high}
        hits = int((rewards == high).sum())
        assert stats.binomtest(hits, DRAWS, (mean - low) / (high - low)).pvalue > ALARM
    assert solve_tabular(mdp).v[0][0] == mean


@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_noise_at_the_ends_is_certain(mean):
    mdp = TabularMDP(np.ones((1, 1, 1)), [[mean]], horizon=1, noise=True)
    assert set(mdp.step_batch(0, 0, 1000, np.random.default_rng(0))[0]) == {mean}


def test_start_states_follow_their_distribution():
    weights = np.array([0.0, 0.5, 0.2, 0.0, 0.3, 0.0])
    mdp = TabularMDP(np.full((6, 1, 6), 1 / 6), np.zeros((6, 1)), horizon=2, start=weights)
    rng = np.random.default_rng(3)
    assert_drawn_from(dict(enumerate(weights)), [mdp.start(rng) for _ in range(DRAWS)])
    assert mdp.start(SimpleNamespace(random=lambda: 0.0)) == 1  # the rarest draw, too, is a possible state
    listed = mdp.start_weights()
    assert [s for s, _ in listed] == [1, 2, 4]
    assert [w for _, w in listed] == pytest.approx([0.5, 0.2, 0.3], abs=1e-12)
    fixed = TabularMDP(np.full((6, 1, 6), 1 / 6), np.zeros((6, 1)), horizon=2, start=4)
    assert fixed.start(rng) == 4
    assert fixed.start_weights() == [(4, 1.0)]


def test_draws_depend_on_the_generator_alone():
    mdp, _ = sampled_mdp("csr", True, False)
    np.random.seed(1)
    first = [mdp.step(1, 1, np.random.default_rng(5)) for _ in range(5)]
    np.random.seed(2)
    again = [mdp.step(1, 1, np.random.default_rng(5)) for _ in range(5)]
    assert first == again


# ---------------------------------------------------------------------------------- what it declares


def one_hot(*columns: int, width: int) -> np.ndarray:
    return np.eye(width)[list(columns)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (one_hot(1, 0, 2, 2, width=3), True),  # END included
        (np.array([[0, 1, 0], [0.5, 0, 0.5], [0, 0, 1], [1, 0, 0]]), False),  # a coin between a state and END
        (np.array([[0, 1, 0], [1, 0, 0], [0, 0, 1], [0.25, 0.75, 0]]), False),  # only the last row is random
        (np.array([[1e-12, 1 - 1e-12, 0], [1, 0, 0], [0, 0, 1], [1, 0, 0]]), False),  # rare is not never
    ],
)
def test_deterministic_transitions_are_recognised(rows, expected, form):
    mdp = TabularMDP(stored(rows.reshape(2, 2, 3), form), np.zeros((2, 2)), horizon=3)
    assert mdp.deterministic_transitions is expected
    assert mdp.deterministic_rewards is True


def test_split_entries_of_one_successor_are_one():
    halves = sparse.csr_array((np.full(4, 0.5), [1, 1, 0, 0], [0, 2, 4]), shape=(2, 2))
    mdp = TabularMDP(halves, np.zeros((2, 1)), horizon=2)
    assert mdp.deterministic_transitions
    assert mdp.step(0, 0, np.random.default_rng(0)) == (0.0, 1)
    assert halves.nnz == 4  # the caller's matrix is left as it was


def test_what_follows_the_last_stage_is_never_random():
    coin = np.full((2, 1, 2), 0.5)
    layered = TabularMDP([one_hot(0, 1, width=2)[:, None], coin], [np.zeros((2, 1))] * 2, horizon=2)
    assert layered.deterministic_transitions
    assert layered.step(2, 0, np.random.default_rng(0)) == (0.0, END)
    assert not TabularMDP([coin, coin], [np.zeros((2, 1))] * 2, horizon=2).deterministic_transitions


def test_noise_is_declared():
    mdp = TabularMDP(np.ones((1, 1, 1)), [[0.5]], horizon=1, noise=True)
    assert (mdp.deterministic_transitions, mdp.deterministic_rewards) == (True, False)


def test_layered_states_are_numbered_through_the_stages():
    rng, sizes = np.random.default_rng(4), [2, 3, 1, 4]
    matrices = [rng.dirichlet(np.ones(m + 1), (n, 2)) for n, m in itertools.pairwise(sizes)]
    mdp = TabularMDP([*matrices, None], [rng.random((n, 2)) for n in sizes], horizon=4)
    assert [list(mdp.states(h)) for h in range(4)] == [[0, 1], [2, 3, 4], [5], [6, 7, 8, 9]]
    for h in range(4):
        after = {*mdp.states(h + 1), END} if h < 3 else {END}
        for place, state in enumerate(mdp.states(h)):
            assert (mdp.stage_of(state), mdp.index(state, h)) == (h, place)
            seen = {mdp.step(state, a, rng)[1] for a in range(2) for _ in range(300)}
            assert seen == after
            assert mdp.step(state, 1, rng)[0] == mdp.rewards(h)[place, 1]


def test_stationary_states_are_the_same_in_every_stage():
    mdp = TabularMDP(np.full((3, 2, 3), 1 / 3), np.zeros((3, 2)), horizon=4)
    assert [list(mdp.states(h)) for h in range(4)] == [[0, 1, 2]] * 4
    assert {mdp.step(2, 0, np.random.default_rng(i))[1] for i in range(100)} == {0, 1, 2}


def test_a_problem_is_solved_through_its_table():
    mdp = TabularMDP(np.ones((1, 1, 1)), [[0.5]], horizon=3)
    problem = Problem(mdp, lambda state, stage: np.ones(1), bound=2.0)
    assert solve_tabular(problem).value(0, 0) == 1.5
    assert evaluate_tabular(problem, [[0]] * 3).value(0, 1) == 1.0


# ------------------------------------------------------------------------------------------- bad input

HALF = np.full((2, 2, 2), 0.5)
FLAT = np.zeros((2, 2))


def changed(array: np.ndarray, place: tuple, value: float) -> np.ndarray:
    array = array.copy()
    array[place] = value
    return array


def stages(*parts):
    return list(parts)


BAD = {
    "row sum": (
        lambda: TabularMDP(changed(HALF, (1, 0, 1), 0.25), FLAT, horizon=2),
        "transitions: the probabilities at state 1, action 0 sum to 0.75, not to 1",
    ),
    "row sum, sparse": (
        lambda: TabularMDP(sparse.csr_array(changed(HALF, (1, 0, 1), 0.25).reshape(4, 2)), FLAT, horizon=2),
        "transitions: the probabilities at state 1, action 0 sum to 0.75, not to 1",
    ),
    "row sum, layered": (
        lambda: TabularMDP(stages(HALF, changed(HALF, (0, 1, 0), 1), None), [FLAT] * 3, horizon=3),
        "transitions of stage 1: the probabilities at state 2, action 1 sum to 1.5, not to 1",
    ),
    "row sum, last stage": (
        lambda: TabularMDP(stages(HALF, changed(HALF, (0, 1, 0), 1)), [FLAT] * 2, horizon=2),
        "transitions of stage 1: the probabilities at state 2, action 1 sum to 1.5, not to 1",
    ),
    "empty sparse row": (
        lambda: TabularMDP(sparse.csr_array((4, 2)), FLAT, horizon=2),
        "transitions: the probabilities at state 0, action 0 sum to 0.0, not to 1",
    ),
    "infinite probability": (
        lambda: TabularMDP(changed(HALF, (0, 0, 0), np.inf), FLAT, horizon=2),
        "transitions: the probabilities at state 0, action 0 sum to inf, not to 1",
    ),
    "negative probability": (
        lambda: TabularMDP(changed(changed(HALF, (0, 0, 0), -0.5), (0, 0, 1), 1.5), FLAT, horizon=2),
        "transitions contain the probability -0.5",
    ),
    "negative probability, sparse": (
        lambda: TabularMDP(sparse.csr_array([[-0.5, 1.5], [1, 0], [1, 0], [1, 0]]), FLAT, horizon=2),
        "transitions contain the probability -0.5",
    ),
    "not a number": (
        lambda: TabularMDP(changed(HALF, (1, 1, 1), np.nan), FLAT, horizon=2),
        "transitions contain the probability nan",
    ),
    "reward too large": (
        lambda: TabularMDP(HALF, changed(FLAT, (1, 0), 1.5), horizon=2),
        "the reward at state 1, stage 0, action 0 is 1.5, outside of [0, 1]",
    ),
    "reward too small, layered": (
        lambda: TabularMDP(
            stages(HALF, HALF, None), [FLAT, changed(FLAT, (0, 1), -3), FLAT], horizon=3, reward_range=(-2, 2)
        ),
        "the reward at state 2, stage 1, action 1 is -3.0, outside of [-2, 2]",
    ),
    "reward not a number": (
        lambda: TabularMDP(HALF, changed(FLAT, (0, 0), np.nan), horizon=2),
        "the reward at state 0, stage 0, action 0 is nan, outside of [0, 1]",
    ),
    "one action missing": (
        lambda: TabularMDP(HALF[:, :1], FLAT, horizon=2),
        "transitions have shape (2, 1, 2), rewards (2, 2)",
    ),
    "transitions of one dimension": (
        lambda: TabularMDP(np.full(4, 0.25), FLAT, horizon=2),
        "transitions have shape (4,), expected 4 rows",
    ),
    "transitions of four dimensions": (
        lambda: TabularMDP(HALF[None], FLAT, horizon=2),
        "transitions have shape (1, 2, 2, 2), expected 4 rows",
    ),
    "too few rows": (
        lambda: TabularMDP(sparse.csr_array(np.eye(2)), FLAT, horizon=2),
        "transitions have shape (2, 2), expected 4 rows",
    ),
    "too many columns": (
        lambda: TabularMDP(np.full((2, 2, 4), 0.25), FLAT, horizon=2),
        "transitions have 4 columns, expected 2 (or 3 with END)",
    ),
    "columns of the next stage": (
        lambda: TabularMDP(stages(HALF, None), [FLAT, np.zeros((4, 2))], horizon=2),
        "transitions of stage 0 have 2 columns, expected 4 (or 5 with END)",
    ),
    "rewards of one dimension": (
        lambda: TabularMDP(HALF, np.zeros(4), horizon=2),
        "rewards must have shape (S, A), one such array per stage in a layered MDP",
    ),
    "rewards of three dimensions": (
        lambda: TabularMDP(stages(HALF, None), [FLAT, FLAT[None]], horizon=2),
        "rewards must have shape (S, A), one such array per stage in a layered MDP",
    ),
    "no actions": (
        lambda: TabularMDP(np.zeros((2, 0, 2)), np.zeros((2, 0)), horizon=2),
        "rewards must have shape (S, A), one such array per stage in a layered MDP",
    ),
    "no states": (
        lambda: TabularMDP(np.zeros((0, 2, 0)), np.zeros((0, 2)), horizon=2),
        "rewards must have shape (S, A), one such array per stage in a layered MDP",
    ),
    "other actions later": (
        lambda: TabularMDP(stages(HALF, np.full((2, 3, 2), 0.5)), [FLAT, np.zeros((2, 3))], horizon=2),
        "rewards of stage 1 have 3 actions, not 2",
    ),
    "stages and horizon": (
        lambda: TabularMDP(stages(HALF, None), [FLAT] * 2, horizon=3),
        "a layered MDP needs one transition matrix and one reward array per stage: horizon 3, got 2 and 2",
    ),
    "no stages": (
        lambda: TabularMDP([], [], horizon=1),
        "a layered MDP needs one transition matrix and one reward array per stage: horizon 1, got 0 and 0",
    ),
    "layered without horizon": (
        lambda: TabularMDP(stages(HALF, None), [FLAT] * 2, horizon=None),
        "a layered MDP needs one transition matrix and one reward array per stage: horizon None, got 2 and 2",
    ),
    "transitions left out": (
        lambda: TabularMDP(stages(None, HALF), [FLAT] * 2, horizon=2),
        "transitions of stage 0: only the last stage may leave them out",
    ),
    "stationary transitions left out": (
        lambda: TabularMDP(None, FLAT, horizon=2),
        "transitions: only the last stage may leave them out",
    ),
    "horizon zero": (
        lambda: TabularMDP(HALF, FLAT, horizon=0),
        "horizon must be a whole number >= 1, got 0",
    ),
    "start beyond": (
        lambda: TabularMDP(HALF, FLAT, horizon=2, start=2),
        "start must be a whole number from 0 to 1, got 2",
    ),
    "start beyond stage 0": (
        lambda: TabularMDP(stages(HALF, None), [FLAT] * 2, horizon=2, start=2),
        "start must be a whole number from 0 to 1, got 2",
    ),
    "start sum": (
        lambda: TabularMDP(HALF, FLAT, horizon=2, start=[0.5, 0.6]),
        "start must be a state or 2 probabilities that sum to 1",
    ),
    "start negative": (
        lambda: TabularMDP(HALF, FLAT, horizon=2, start=[-0.5, 1.5]),
        "start must be a state or 2 probabilities that sum to 1",
    ),
    "start not a number": (
        lambda: TabularMDP(HALF, FLAT, horizon=2, start=[np.nan, 1.0]),
        "start must be a state or 2 probabilities that sum to 1",
    ),
    "start too long": (
        lambda: TabularMDP(HALF, FLAT, horizon=2, start=[0.5, 0.5, 0.0]),
        "start must be a state or 2 probabilities that sum to 1",
    ),
    "step from an unknown state": (
        lambda: TabularMDP(HALF, FLAT, horizon=2).step(2, 0, np.random.default_rng(0)),
        "there is no state 2: states are 0 .. 1",
    ),
    "batch from an unknown state": (
        lambda: TabularMDP(stages(HALF, None), [FLAT] * 2, horizon=2).step_batch(-1, 0, 3, np.random.default_rng(0)),
        "there is no state -1: states are 0 .. 3",
    ),
    "value of an unknown state": (
        lambda: solve_tabular(TabularMDP(HALF, FLAT, horizon=2)).value(2, 1),
        "there is no state 2 at stage 1: states are 0 .. 1",
    ),
    "value of a state of another stage": (
        lambda: solve_tabular(TabularMDP(stages(HALF, None), [FLAT] * 2, horizon=2)).action_value(1, 0, 1),
        "there is no state 1 at stage 1: states are 2 .. 3",
    ),
    "policy too short": (
        lambda: evaluate_tabular(TabularMDP(HALF, FLAT, horizon=2), [[0, 0]]),
        "the policy has 1 stages, the MDP 2",
    ),
    "policy with an unknown action": (
        lambda: evaluate_tabular(TabularMDP(HALF, FLAT, horizon=2), [[0, 0], [0, 2]]),
        "the policy of stage 1 has actions outside of 0 .. 1",
    ),
    "policy with a negative action": (
        lambda: evaluate_tabular(TabularMDP(HALF, FLAT, horizon=2), [[-1, 0], [0, 0]]),
        "the policy of stage 0 has actions outside of 0 .. 1",
    ),
    "policy with half an action": (
        lambda: evaluate_tabular(TabularMDP(HALF, FLAT, horizon=2), [[0.5, 0], [0, 0]]),
        "the policy of stage 0 has actions outside of 0 .. 1",
    ),
    "policy weights": (
        lambda: evaluate_tabular(TabularMDP(HALF, FLAT, horizon=2), [[0, 0], [[0.5, 0.6], [1, 0]]]),
        "the policy of stage 1 must be (2,) actions or (2, 2) probabilities",
    ),
    "policy weight negative": (
        lambda: evaluate_tabular(TabularMDP(HALF, FLAT, horizon=2), [[0, 0], [[-0.5, 1.5], [1, 0]]]),
        "the policy of stage 1 must be (2,) actions or (2, 2) probabilities",
    ),
    "policy shape": (
        lambda: evaluate_tabular(TabularMDP(HALF, FLAT, horizon=2), [[0, 0, 0], [0, 0]]),
        "the policy of stage 0 must be (2,) actions or (2, 2) probabilities",
    ),
    "not a table": (lambda: solve_tabular(grid([2])), "expected a tabular MDP, got Grid"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_sentence(case):
    wrong, sentence = BAD[case]
    with pytest.raises(BadInput) as info:
        wrong()
    assert str(info.value) == sentence


def test_rows_may_miss_one_by_rounding_only():
    near, far = changed(HALF, (0, 0, 0), 0.5 + 5e-10), changed(HALF, (0, 0, 0), 0.5 + 5e-9)
    TabularMDP(near, FLAT, horizon=1)
    with pytest.raises(BadInput):
        TabularMDP(far, FLAT, horizon=1)


@pytest.mark.parametrize("ends", [False, True])
def test_a_large_deterministic_stage_equals_its_parts(ends, monkeypatch):
    """The compiled pass for large stages against the general one, to the bit."""
    rng = np.random.default_rng(3)
    states, actions, horizon = 300, 4, 5
    pairs, columns = states * actions, states + ends
    steps = [
        sparse.csr_array(
            (np.ones(pairs), rng.integers(columns, size=pairs), np.arange(pairs + 1)), shape=(pairs, columns)
        )
        for _ in range(horizon - 1)
    ]
    rewards = [rng.random((states, actions)) for _ in range(horizon)]
    mdp = TabularMDP([*steps, None], rewards, horizon=horizon)
    general = solve_tabular(mdp).v
    monkeypatch.setattr(tabular, "COMPILED", 1)
    compiled = solve_tabular(mdp).v
    assert all(np.array_equal(one, two) for one, two in zip(general, compiled, strict=True))
