"""Explicit finite MDPs, solved exactly.

States are numbers.  A *stationary* MDP has one transition matrix for all stages and states 0 .. S-1; a *layered* one
has a matrix per stage, and its states are numbered consecutively over the stages, so that a state determines its stage.
Rows of a matrix are pairs (s, a) in the order s * A + a; columns are next states, with an optional last column for END.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorplan.core import END, Array, Problem, State
from tensorplan.core.errors import BadInput
from tensorplan.core.specs import number, whole
from tensorplan.problems.tables.outcomes import ENDED, Outcomes, cumulative_rows

ROW_SLACK = 1e-9
"""How far from 1 the sum of the probabilities of a row may be (rounding)."""

BLOCK = 8192
"""States that are maximised over, or stepped, at a time, so that they stay in the processor's cache."""

COMPILED = 500_000
"""Pairs per stage from which on compiled code is worth loading."""

ITERATIONS, CONVERGED = 1_000_000, 1e-14
"""Most value iterations without a horizon, and the relative change at which they end (rounding)."""

DIVERGED = 1e12
"""A value above which value iteration counts as divergent."""

Matrix = Any  # a dense array (rows, columns) or a scipy.sparse CSR matrix: both have shape, @ and row slices


class TabularMDP:
    """A finite MDP given by its matrices.

    ``transitions`` is (S, A, S) or (S, A, S+1), or sparse (S*A, S) or (S*A, S+1); or a list with one of these per
    stage, the last of which may be None, since it leads to END anyway.  ``rewards`` are the mean rewards (S, A), or one
    such array per stage.  With ``noise`` a reward is one of the two ends of ``reward_range``, with that mean; otherwise
    it is the mean.  ``start`` is a state, or a distribution over the states of stage 0.
    """

    return_range: tuple[float, float] | None = None
    """See :class:`tensorplan.core.MDP`."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Subclasses that replace ``step`` alone may have another law, so they do not inherit ``step_many``."""
        super().__init_subclass__(**options)
        if "step" in vars(cls) and "step_many" not in vars(cls):
            setattr(cls, "step_many", None)  # noqa: B010 - a method to the type checker

    def __init__(
        self,
        transitions: Any,
        rewards: Any,
        *,
        horizon: int | None,
        start: int | ArrayLike = 0,
        noise: bool = False,
        reward_range: tuple[float, float] = (0.0, 1.0),
    ) -> None:
        self.layered = isinstance(transitions, list | tuple)
        self.horizon = None if horizon is None else whole("horizon", horizon, 1)
        self.reward_range = (float(reward_range[0]), float(reward_range[1]))
        self.noise = bool(noise)
        rewards = list(rewards) if self.layered else [rewards]
        self._rewards = [np.ascontiguousarray(r, dtype=np.float64) for r in rewards]
        sizes = [len(r) for r in self._rewards]
        if self.layered and not len(transitions) == len(sizes) == self.horizon:
            raise BadInput(
                f"a layered MDP needs one transition matrix and one reward array per stage: horizon {horizon}, "
                f"got {len(transitions)} and {len(sizes)}"
            )
        if any(r.ndim != 2 for r in self._rewards) or 0 in self._rewards[0].shape:
            raise BadInput("rewards must have shape (S, A), one such array per stage in a layered MDP")
        self.actions = self._rewards[0].shape[1]
        self._sizes = sizes
        self._offsets = [0, *np.cumsum(sizes).tolist()] if self.layered else [0, sizes[0]]
        self._check_rewards()
        given = list(transitions) if self.layered else [transitions]
        self._matrices = [
            self._matrix(m, h, sizes[h], sizes[h + 1] if h + 1 < len(sizes) else sizes[h]) for h, m in enumerate(given)
        ]
        self.deterministic_rewards = not self.noise
        self.deterministic_transitions = all(_one_per_row(m) for m in self._matrices)
        self._selects = [hasattr(m, "indptr") and _one_per_row(m) and bool((m.data == 1).all()) for m in self._matrices]
        self._rows: dict[int, tuple[list[float], list[State], float]] = {}
        self._outcomes_by_stage: dict[int, Outcomes] = {}
        self._start = self._start_distribution(start)

    # ----------------------------------------------------------------- as a simulator

    def start(self, rng: np.random.Generator) -> int:
        """Draw an initial state."""
        if isinstance(self._start, int):
            return self._start
        return min(int(np.searchsorted(self._start, rng.random(), side="right")), len(self._start) - 1)

    def step(self, state: int, action: int, rng: np.random.Generator) -> tuple[float, State]:
        """Draw (reward, next state)."""
        row = self._rows.get(state * self.actions + action)
        if row is None:
            row = self._row(state, action)
        cumulative, successors, reward = row
        following = successors[bisect_right(cumulative, rng.random())] if cumulative else successors[0]
        if self.noise:
            low, high = self.reward_range
            reward = high if rng.random() * (high - low) < reward - low else low
        return reward, following

    def step_batch(
        self, state: int, action: int, n: int, rng: np.random.Generator
    ) -> tuple[Array, Sequence[State], NDArray[np.integer[Any]]]:
        """Draw a batch of n samples of one pair."""
        cumulative, successors, reward = self._row(state, action)
        if cumulative:
            which = np.searchsorted(np.array(cumulative), rng.random(n), side="right")
        else:
            which = np.zeros(n, dtype=np.intp)
        if not self.noise:
            return np.full(n, reward), successors, which
        low, high = self.reward_range
        return np.where(rng.random(n) * (high - low) < reward - low, high, low), successors, which

    @property
    def uniforms(self) -> int:
        """Uniform numbers in the noise of a step."""
        return 1 + self.noise

    def draw_noise(self, n: int, rng: np.random.Generator) -> Array:
        """Uniform numbers (n, 1): one for the next state; (n, 2) with a second one for a noisy reward."""
        return rng.random((n, 1 + self.noise))

    def step_many(
        self, states: NDArray[Any], actions: NDArray[Any], noise: NDArray[Any]
    ) -> tuple[Array, NDArray[Any], NDArray[np.bool_]]:
        """Step pair i with noise[i]: rewards, next states, and where these are END."""
        states, actions = (np.asarray(x).astype(np.int64, "K", "same_kind", copy=False) for x in (states, actions))
        rewards, following = np.empty(len(states)), np.empty(len(states), dtype=np.int64)
        for stage, where in self._by_stage(states):
            pairs, moves = (states[where] - self._offsets[stage]) * self.actions + actions[where], self._moves(stage)
            picked = moves.pick(pairs, noise[where, 0])
            rewards[where] = self._drawn_rewards(stage, pairs, picked, noise[where])
            following[where] = moves.successors.take(picked)
        return rewards, following, following == ENDED

    def _by_stage(self, states: NDArray[Any]) -> list[tuple[int, Any]]:
        """The stages (tables) of the states, and where in the array those of each stage are, in blocks if only one."""
        if not states.size:
            return []
        first, last = (self.stage_of(int(extreme)) for extreme in (states.min(), states.max()))
        if first == last:
            return [(first, slice(start, start + BLOCK)) for start in range(0, len(states), BLOCK)]
        stages = np.searchsorted(self._offsets, states, side="right") - 1
        return [(stage, stages == stage) for stage in np.unique(stages).tolist()]

    def _drawn_rewards(self, stage: int, pairs: NDArray[Any], picked: NDArray[Any], noise: NDArray[Any]) -> Array:
        """The rewards of pairs of a stage (table) that have the outcomes ``picked`` of ``_moves``."""
        means: Array = self._rewards[stage].take(pairs)
        if not self.noise:
            return means
        low, high = self.reward_range
        return np.where(noise[:, 1] * (high - low) < means - low, high, low)

    def _moves(self, stage: int) -> Outcomes:
        """The next states of all pairs of a stage (table), computed at the first access."""
        if stage not in self._outcomes_by_stage:
            matrix, pairs = self._matrices[stage], self._rewards[stage].size
            if matrix is None:
                ends, columns, cumulative = np.arange(pairs + 1), np.full(pairs, ENDED), np.ones(pairs)
            else:
                ends, columns, cumulative = cumulative_rows(matrix)
                offset, following = (self._offsets[stage + 1], stage + 1) if self.layered else (0, 0)
                columns = np.where(columns == self._sizes[following], ENDED, columns + offset)
            self._outcomes_by_stage[stage] = Outcomes(ends, cumulative, columns)
        return self._outcomes_by_stage[stage]

    def _row(self, state: int, action: int) -> tuple[list[float], list[State], float]:
        """The cumulative probabilities (without the last), successors and mean reward of a pair."""
        index = state * self.actions + action
        if index not in self._rows:
            stage = self.stage_of(state)
            local = state - self._offsets[stage]
            matrix, offset = self._matrices[stage], self._offsets[stage + 1] if self.layered else 0
            if matrix is None:
                columns, weights = np.array([0]), np.array([1.0])
                following: list[State] = [END]
            else:
                columns, weights = _row_entries(matrix, local * self.actions + action)
                end = self._sizes[stage + 1] if self.layered and stage + 1 < len(self._sizes) else self._sizes[0]
                following = [END if c == end else offset + c for c in columns.tolist()]
            cumulative = np.cumsum(weights)[:-1].tolist()
            self._rows[index] = (cumulative, following, float(self._rewards[stage][local, action]))
        return self._rows[index]

    # ----------------------------------------------------------------- as tables

    def states(self, stage: int) -> range:
        """The states of one stage."""
        table = stage if self.layered else 0
        return range(self._offsets[table], self._offsets[table] + self._sizes[table])

    def start_weights(self) -> list[tuple[int, float]]:
        """The start states and their probabilities."""
        if isinstance(self._start, int):
            return [(self._start, 1.0)]
        return [(s, w) for s, w in enumerate(np.diff(self._start, prepend=0.0).tolist()) if w > 0]

    def stage_of(self, state: int) -> int:
        """The table of a state: its stage if layered, else 0."""
        if not 0 <= state < self._offsets[-1]:
            raise BadInput(f"there is no state {state!r}: states are 0 .. {self._offsets[-1] - 1}")
        return bisect_right(self._offsets, state) - 1 if self.layered else 0

    def index(self, state: int, stage: int) -> int:
        """The position of a state among ``states(stage)``."""
        first, size = (self._offsets[stage], self._sizes[stage]) if self.layered else (0, self._sizes[0])
        if not first <= state < first + size:
            raise BadInput(f"there is no state {state!r} at stage {stage}: states are {first} .. {first + size - 1}")
        return state - first

    def matrix(self, stage: int) -> Matrix:
        """The transition matrix of one stage; None for the last one of a layered MDP."""
        return self._matrices[stage if self.layered else 0]

    def rewards(self, stage: int) -> Array:
        """The mean rewards of one stage, (S, A)."""
        return self._rewards[stage if self.layered else 0]

    def backup(self, stage: int, following: Array | None) -> Array:
        """q = r + P v of one stage, (S, A); ``following`` is v of the next stage, None for END."""
        q = self._expected(stage, following)
        q += self.rewards(stage)
        return q

    def improve(self, stage: int, following: Array | None) -> Array:
        """max_a q(., a) of one stage, (S,).

        The maximum is taken column by column, which is faster than NumPy's reduction over a short last axis, in blocks
        that fit the cache.  A large deterministic stage takes one compiled pass, limited by memory bandwidth.
        """
        rewards = self.rewards(stage)
        best: Array = np.empty(len(rewards))
        if following is not None and rewards.size >= COMPILED and self._selects[stage if self.layered else 0]:
            from tensorplan.problems.tables.backward_stage import best_step

            matrix = self.matrix(stage)
            ends = matrix.shape[1] > len(following)
            best_step(np.append(following, 0.0) if ends else following, matrix.indices, rewards, best)
            return best
        q = self._expected(stage, following)
        for start in range(0, len(q), BLOCK):
            part, out = q[start : start + BLOCK], best[start : start + BLOCK]
            part += rewards[start : start + BLOCK]
            np.copyto(out, part[:, 0])
            for action in range(1, self.actions):
                np.maximum(out, part[:, action], out=out)
        return best

    def _expected(self, stage: int, following: Array | None) -> Array:
        """P v of one stage, (S, A)."""
        shape, matrix = self.rewards(stage).shape, self.matrix(stage)
        if following is None or matrix is None:
            return np.zeros(shape)
        if matrix.shape[1] > len(following):
            following = np.append(following, 0.0)
        if self._selects[stage if self.layered else 0]:  # a deterministic stage only permutes values
            return np.asarray(np.take(following, matrix.indices)).reshape(shape)
        return np.asarray(matrix @ following).reshape(shape)

    # ----------------------------------------------------------------- checks

    def _matrix(self, matrix: Any, stage: int, rows: int, columns: int) -> Matrix:
        at = f"transitions of stage {stage}" if self.layered else "transitions"
        if matrix is None:
            if self.layered and stage == self.horizon - 1:  # type: ignore[operator]
                return None
            raise BadInput(f"{at}: only the last stage may omit them")
        if hasattr(matrix, "tocsr"):
            matrix = matrix.tocsr().astype(np.float64)
            matrix.sum_duplicates()
            matrix.eliminate_zeros()
            if max(matrix.nnz, *matrix.shape) < 2**31:  # 32-bit indices halve the memory traffic
                matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
            data = matrix.data
        else:
            matrix = np.ascontiguousarray(matrix, dtype=np.float64)
            if matrix.ndim == 3:
                if matrix.shape[:2] != (rows, self.actions):
                    raise BadInput(f"{at} have shape {matrix.shape}, rewards {(rows, self.actions)}")
                matrix = matrix.reshape(rows * self.actions, matrix.shape[2])
            data = matrix
        if matrix.ndim != 2 or matrix.shape[0] != rows * self.actions:
            raise BadInput(f"{at} have shape {matrix.shape}, expected {rows * self.actions} rows")
        last = self.layered and stage == self.horizon - 1  # type: ignore[operator]
        if matrix.shape[1] not in (columns, columns + 1) and not last:
            raise BadInput(f"{at} have {matrix.shape[1]} columns, expected {columns} (or {columns + 1} with END)")
        if data.size and not (data >= 0).all():
            raise BadInput(f"{at} contain the probability {float(data[~(data >= 0)].flat[0])!r}")
        sums = np.asarray(matrix.sum(axis=1)).ravel()
        bad = np.flatnonzero(~(np.abs(sums - 1) <= ROW_SLACK))
        if bad.size:
            state, action = divmod(int(bad[0]), self.actions)
            state += self._offsets[stage] if self.layered else 0
            raise BadInput(
                f"{at}: the probabilities at state {state}, action {action} sum to {float(sums[bad[0]])!r}, not to 1"
            )
        return None if last else matrix

    def _check_rewards(self) -> None:
        low, high = self.reward_range
        for stage, rewards in enumerate(self._rewards):
            if rewards.shape[1] != self.actions:
                raise BadInput(f"rewards of stage {stage} have {rewards.shape[1]} actions, not {self.actions}")
            bad = np.argwhere(~((rewards >= low) & (rewards <= high)))
            if bad.size:
                state, action = bad[0].tolist()
                raise BadInput(
                    f"the reward at state {state + self._offsets[stage]}, stage {stage}, action {action} is "
                    f"{float(rewards[state, action])!r}, outside of [{low:g}, {high:g}]"
                )

    def _start_distribution(self, start: int | ArrayLike) -> int | Array:
        """The start state, or the cumulative distribution over the states of stage 0."""
        size = self._sizes[0]
        if np.ndim(start) == 0:
            return whole("start", start, 0, size - 1)
        weights = np.asarray(start, dtype=np.float64)
        if weights.shape != (size,) or not (weights >= 0).all() or abs(weights.sum() - 1) > ROW_SLACK:
            raise BadInput(f"start must be a state or {size} probabilities that sum to 1")
        return np.cumsum(weights / weights.sum())


def _one_per_row(matrix: Matrix) -> bool:
    if matrix is None:
        return True
    if hasattr(matrix, "indptr"):
        return bool((np.diff(matrix.indptr) == 1).all())
    return bool((np.count_nonzero(matrix, axis=1) == 1).all())


def _row_entries(matrix: Matrix, row: int) -> tuple[NDArray[np.integer[Any]], Array]:
    if hasattr(matrix, "indptr"):
        part = slice(matrix.indptr[row], matrix.indptr[row + 1])
        columns, weights = matrix.indices[part], matrix.data[part]
    else:
        columns, weights = np.arange(matrix.shape[1]), matrix[row]
    keep = weights > 0
    return columns[keep], weights[keep]


# ------------------------------------------------------------------------------------ exact solution


class TabularValues:
    """v and q of a tabular MDP by stage: ``v[h]`` is (S,), ``q[h]`` is (S, A), h = 0 .. H-1."""

    def __init__(self, mdp: TabularMDP, v: tuple[Array, ...], discount: float = 1.0) -> None:
        self.mdp = mdp
        self.v = v
        self.discount = discount

    @cached_property
    def q(self) -> tuple[Array, ...]:
        """q = r + γ P v, computed at the first access."""
        following = self.v if self.mdp.horizon is None else (*self.v[1:], None)
        return tuple(self.mdp.backup(h, None if f is None else self.discount * f) for h, f in enumerate(following))

    @cached_property
    def greedy(self) -> tuple[NDArray[np.intp], ...]:
        """The smallest maximising action of each state, per stage."""
        return tuple(np.argmax(q, axis=1) for q in self.q)

    def value(self, state: int, stage: int) -> float:
        """v(state)."""
        return float(self.v[stage][self.mdp.index(state, stage)])

    def action_value(self, state: int, action: int, stage: int) -> float:
        """q(state, action)."""
        return float(self.q[stage][self.mdp.index(state, stage), action])


def solve_tabular(
    mdp: TabularMDP | Problem, discount: float | None = None, *, swept: Callable[[int], None] | None = None
) -> TabularValues:
    """Exact v*, q* by backward induction, or without a horizon by value iteration to its fixed point.

    ``discount`` defaults to that of the problem, or 1.  ``swept(number)`` is called before each sweep over the states,
    and may raise.
    """
    mdp, discount = _tabular(mdp, discount)
    if mdp.horizon is None:
        return TabularValues(mdp, (_fixed_point(mdp, discount, swept),), discount)
    v: list[Array] = []
    for stage in reversed(range(mdp.horizon)):
        if swept is not None:
            swept(len(v))
        v.append(mdp.improve(stage, discount * v[-1] if v else None))
    return TabularValues(mdp, tuple(reversed(v)), discount)


def evaluate_tabular(
    mdp: TabularMDP | Problem, policy: Sequence[ArrayLike], discount: float | None = None
) -> TabularValues:
    """Exact v^π, q^π of a memoryless policy.

    ``policy[h]`` holds actions (S,) or probabilities (S, A); one entry per stage, a single one without a horizon.
    """
    mdp, discount = _tabular(mdp, discount)
    stages = mdp.horizon or 1
    if len(policy) != stages:
        raise BadInput(f"the policy has {len(policy)} stages, the MDP {stages}")
    weights = [_weights(mdp, h, np.asarray(part)) for h, part in enumerate(policy)]
    if mdp.horizon is None:
        return TabularValues(mdp, (_evaluate_stationary(mdp, weights[0], discount),), discount)
    v: list[Array] = []
    for stage in reversed(range(mdp.horizon)):
        q = mdp.backup(stage, discount * v[-1] if v else None)
        v.append(np.einsum("sa,sa->s", weights[stage], q))
    return TabularValues(mdp, tuple(reversed(v)), discount)


def _tabular(mdp: TabularMDP | Problem, discount: float | None) -> tuple[TabularMDP, float]:
    inner, default = (mdp.mdp, mdp.discount) if isinstance(mdp, Problem) else (mdp, 1.0)
    if not isinstance(inner, TabularMDP):
        raise BadInput(f"expected a tabular MDP, got {type(inner).__name__}")
    discount = default if discount is None else number("discount", discount, 0.0, 1.0)
    if discount == 0:
        raise BadInput("discount must be above 0 and at most 1, got 0")
    return inner, discount


def _weights(mdp: TabularMDP, stage: int, part: NDArray[Any]) -> Array:
    shape = (len(mdp.states(stage)), mdp.actions)
    if part.shape == shape[:1]:
        if not (np.issubdtype(part.dtype, np.integer) and (part >= 0).all() and (part < mdp.actions).all()):
            raise BadInput(f"the policy of stage {stage} has actions outside of 0 .. {mdp.actions - 1}")
        return np.asarray(np.eye(mdp.actions)[part])
    if part.shape != shape or not (part >= 0).all() or (np.abs(part.sum(axis=1) - 1) > ROW_SLACK).any():
        raise BadInput(f"the policy of stage {stage} must be {shape[:1]} actions or {shape} probabilities")
    return part.astype(np.float64)


def _fixed_point(mdp: TabularMDP, discount: float, swept: Callable[[int], None] | None = None) -> Array:
    """v* without a horizon, by value iteration from 0 until it changes by rounding only."""
    v = np.zeros(len(mdp.states(0)))
    # in a deterministic MDP a finite optimal value is attained by a path that visits no state twice
    largest = float(np.abs(mdp.rewards(0)).max(initial=0.0))
    limit = max(1.0, 2 * len(v) * largest) if mdp.deterministic_transitions and discount == 1 else DIVERGED
    for sweep in range(ITERATIONS):
        if swept is not None:
            swept(sweep)
        previous, v = v, mdp.improve(0, discount * v)
        scale = max(1.0, float(np.abs(v).max(initial=0.0)))
        if float(np.abs(v - previous).max(initial=0.0)) <= CONVERGED * scale:
            return v
        if scale > limit:
            break
    state = int(np.argmax(np.abs(v)))
    raise BadInput(f"without a horizon the optimal value must be finite; at state {state} it is not")


def _evaluate_stationary(mdp: TabularMDP, weights: Array, discount: float) -> Array:
    """v^π without a horizon, by solving v = r_π + γ P_π v; for γ = 1, π must reach END from every state."""
    from scipy import sparse
    from scipy.sparse.linalg import spsolve

    size, pairs = len(weights), weights.size
    choice = sparse.csr_array((weights.ravel(), np.arange(pairs), np.arange(0, pairs + 1, mdp.actions)))
    transition = sparse.csr_array(choice @ sparse.csr_array(mdp.matrix(0)))
    ends = transition.shape[1] > size
    reaches = transition[:, [size]].toarray().ravel() > 0 if ends else np.zeros(size, dtype=bool)
    transition = sparse.csr_array(transition[:, :size])
    while True:
        grown = reaches | ((transition > 0).astype(np.float64) @ reaches > 0)
        if (grown == reaches).all():
            break
        reaches = grown
    if not reaches.all() and discount == 1:
        raise BadInput(f"under this policy state {int(np.argmin(reaches))} never reaches END, so it has no value")
    rewards = np.einsum("sa,sa->s", weights, mdp.rewards(0))
    return np.atleast_1d(spsolve(sparse.csc_array(sparse.eye_array(size) - discount * transition), rewards))
