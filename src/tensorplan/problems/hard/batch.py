"""Many states of one hard MDP, held as arrays and stepped at once by compiled code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorplan.core import END, Array, State
from tensorplan.core.compiled import compiled, popcount
from tensorplan.core.errors import BadInput
from tensorplan.problems.hard.mdp import HardMDP
from tensorplan.problems.hard.tree import HardState

ENDED = -1
"""The round of a state that has become END."""


class HardBatch:
    """n states of a hard MDP; weights and masks are rows of ⌈p/64⌉ words, (n, words)."""

    def __init__(self, mdp: HardMDP, states: Iterable[State]) -> None:
        rows = [HardState(ENDED, 0, 0, 0, 0, 0.0) if s is END else s for s in states]
        self.mdp = mdp
        self._words = -(-mdp.p // 64)
        self.rounds = np.array([s.round for s in rows], dtype=np.int64)
        self.steps = np.array([s.step for s in rows], dtype=np.int64)
        self.last = self._pack(s.last for s in rows)
        self.weights = self._pack(s.weights for s in rows)
        self.fixed = self._pack(s.fixed for s in rows)
        self.prefixes = np.array([float(s.prefix) for s in rows])
        self._secret = self._pack([mdp.secret])[0]
        self._full = self._pack([(1 << mdp.p) - 1])[0]
        self._decay = np.array([float(g) for g in mdp.g])

    def __len__(self) -> int:
        return len(self.rounds)

    @property
    def ended(self) -> NDArray[np.bool_]:
        """Which of them are END, (n,)."""
        return np.equal(self.rounds, ENDED)

    def states(self) -> list[State]:
        """The states as the MDP has them."""
        fields = (self._unpack(part) for part in (self.last, self.weights, self.fixed))
        columns = (self.rounds.tolist(), self.steps.tolist(), *fields, self.prefixes.tolist())
        return [END if row[0] == ENDED else HardState(*row) for row in zip(*columns, strict=True)]

    def step(self, actions: ArrayLike, rng: np.random.Generator) -> Array:
        """Move every state by its action, in place; the rewards, (n,), 0 at END."""
        chosen = np.asarray(actions)
        if chosen.shape != self.rounds.shape or chosen.dtype.kind not in "iu":
            raise BadInput(f"actions must be {len(self)} whole numbers, got shape {chosen.shape} of {chosen.dtype}")
        if len(self) and not 0 <= int(chosen.min()) <= int(chosen.max()) < self.mdp.p:
            raise BadInput(f"actions must be from 0 to {self.mdp.p - 1}, got {chosen.min()} to {chosen.max()}")
        rewards = np.zeros(len(self))
        mdp = self.mdp
        state = (self.rounds, self.steps, self.last, self.weights, self.fixed, self.prefixes)
        facts = (self._secret, self._full, self._decay, mdp.K, mdp.critical, mdp.kind == "v", mdp.noise)
        _step_all(chosen, rewards, *state, *facts, rng)
        return rewards

    def _pack(self, numbers: Iterable[int]) -> NDArray[np.uint64]:
        data = b"".join(w.to_bytes(8 * self._words, "little") for w in numbers)
        return np.frombuffer(data, dtype="<u8").astype(np.uint64).reshape(-1, self._words)

    def _unpack(self, rows: NDArray[np.uint64]) -> list[int]:
        return [int.from_bytes(row.astype("<u8").tobytes(), "little") for row in rows]


@compiled
def _distance(u: Any, n: Any, v: Any) -> Any:
    """diff(u[n], v)."""
    total = 0
    for j in range(len(v)):
        total += popcount(u[n, j] ^ v[j])
    return total


@compiled
def _v_prime(n: Any, last: Any, weights: Any, fixed: Any, prefixes: Any, secret: Any, decay: Any) -> Any:
    flips = unfixed_wrong = fixed_wrong = 0
    for j in range(len(secret)):
        wrong = weights[n, j] ^ secret[j]
        flips += popcount(last[n, j] ^ weights[n, j])
        unfixed_wrong += popcount(wrong & ~fixed[n, j])
        fixed_wrong += popcount(wrong & fixed[n, j])
    return prefixes[n] * decay[flips + unfixed_wrong] * decay[fixed_wrong]


@compiled
def _step_all(
    actions: Any,
    rewards: Any,
    rounds: Any,
    steps: Any,
    last: Any,
    weights: Any,
    fixed: Any,
    prefixes: Any,
    secret: Any,
    full: Any,
    decay: Any,
    K: Any,
    critical: Any,
    pays_states: Any,
    noise: Any,
    rng: Any,
) -> None:
    """HardMDP.step for every state; rewards are zero before."""
    p = len(decay) - 1
    for n in range(len(rounds)):
        k = rounds[n]
        if k == ENDED:
            continue
        reachable = k == 0 or 4 * _distance(last, n, secret) >= p
        if not reachable and pays_states:  # case 1 of M^v
            rewards[n] = _v_prime(n, last, weights, fixed, prefixes, secret, decay)
            rounds[n] = ENDED
            continue
        word, bit = actions[n] >> 6, np.uint64(1) << np.uint64(actions[n] & 63)
        if fixed[n, word] & bit:
            if steps[n] < critical:  # illegal
                rounds[n] = ENDED
                continue
            for j in range(len(full)):
                fixed[n, j] = full[j]
        else:
            weights[n, word] ^= bit
            fixed[n, word] |= bit
        steps[n] += 1
        over = steps[n] == p
        if over:
            prefixes[n] *= decay[_distance(last, n, weights[n])]
            for j in range(len(full)):
                last[n, j] = weights[n, j]
                fixed[n, j] = 0
            steps[n] = 0
            rounds[n] = k + 1
        if not reachable:  # case 1 of M^q
            rewards[n] = _v_prime(n, last, weights, fixed, prefixes, secret, decay)
            rounds[n] = ENDED
        elif over:
            wrong = _distance(last, n, secret)
            if k + 1 == K or 4 * wrong < p:  # cases 2 and 3
                mean = prefixes[n] * decay[wrong]
                rewards[n] = (1.0 if rng.random() < mean else 0.0) if noise else mean
                rounds[n] = ENDED
