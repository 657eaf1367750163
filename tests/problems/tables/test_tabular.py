"""Tables against arithmetic that shares nothing with them: exact fractions, all policies, paths searched by hand."""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from stored_tables import FORMS, stored

from tensorplan.core.errors import BadInput
from tensorplan.problems.tables import tabular
from tensorplan.problems.tables.tabular import TabularMDP, evaluate_tabular, solve_tabular

CLOSE = 1e-11  # doubles against fractions; values are below 20


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
