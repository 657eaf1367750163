"""Puzzles whose optimal value is linear in natural features: every step costs 1 until END.

v*(s) = -(distance to the goal), and each distance is a weighted sum of d simple features.  All are deterministic and
have no horizon; states are tuples.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from tensorplan.core import END, Array, Problem, State
from tensorplan.core.errors import BadInput
from tensorplan.core.specs import whole

_UNUSED = np.random.default_rng(0)  # deterministic steps draw no random numbers


class Puzzle:
    """The base class of puzzles: reward -1, deterministic, and q* = -1 + v* of the next state."""

    horizon = None
    actions: int
    reward_range = (-1.0, 0.0)
    deterministic_transitions = True
    deterministic_rewards = True
    weights: Array
    """(d,): the distance to the goal is <weights, marks(state)>."""

    def initial(self) -> tuple[int, ...]:
        """The start state."""
        raise NotImplementedError

    def move(self, state: tuple[int, ...], action: int) -> tuple[int, ...]:
        """The next state, which may be the goal; an inapplicable action leaves the state unchanged."""
        raise NotImplementedError

    def marks(self, state: tuple[int, ...]) -> Array:
        """The unscaled features, (d,), with entries in [0, 1]; zero only at the goal."""
        raise NotImplementedError

    def start(self, rng: np.random.Generator) -> tuple[int, ...]:
        """The start state, which is fixed."""
        return self.initial()

    def step(self, state: tuple[int, ...], action: int, rng: np.random.Generator) -> tuple[float, State]:
        """(-1, next state), with END for the goal."""
        following = self.move(state, action)
        return -1.0, following if self.marks(following).any() else END

    def value(self, state: tuple[int, ...], stage: int = 0) -> float:
        """v*(state)."""
        return -float(self.weights @ self.marks(state))

    def action_value(self, state: tuple[int, ...], action: int, stage: int = 0) -> float:
        """q*(state, action)."""
        reward, following = self.step(state, action, _UNUSED)
        return reward if following is END else reward + self.value(following)

    def problem(self, name: str) -> Problem:
        """The puzzle with φ_v = marks/sqrt(d) and θ* = -sqrt(d) weights."""
        scale = math.sqrt(len(self.weights))
        theta = -scale * self.weights

        def phi_v(state: tuple[int, ...], stage: int) -> Array:
            return self.marks(state) / scale

        bound = float(np.linalg.norm(theta))
        return Problem(self, phi_v, bound=bound, name=name, solution=self, theta=theta)


class Hanoi(Puzzle):
    """Towers of Hanoi: ``state[i]`` is the peg of disk i, the smallest first; the goal is all disks on peg 2.

    Actions 0, 1, 2 make the legal move between the pegs (0,1), (0,2), (1,2).  From the largest disk down, m_i = 1 iff
    disk i is not on the current target, in which case the target becomes the third peg; the distance is
    Σ_i 2^i m_i, i = 0 .. n-1.
    """

    actions = 3
    pegs = ((0, 1), (0, 2), (1, 2))

    def __init__(self, disks: int) -> None:
        self.disks = disks
        self.weights = np.exp2(np.arange(disks, dtype=np.float64))

    def initial(self) -> tuple[int, ...]:
        """All disks on peg 0."""
        return (0,) * self.disks

    def move(self, state: tuple[int, ...], action: int) -> tuple[int, ...]:
        """Move the smaller of the two top disks to the other peg."""
        a, b = self.pegs[action]
        for disk, peg in enumerate(state):
            if peg in (a, b):
                return (*state[:disk], a + b - peg, *state[disk + 1 :])
        return state

    def marks(self, state: tuple[int, ...]) -> Array:
        """m_0, .., m_{n-1}, (n,)."""
        marks, target = np.zeros(self.disks), 2
        for disk in range(self.disks - 1, -1, -1):
            if state[disk] != target:
                marks[disk] = 1.0
                target = 3 - target - state[disk]
        return marks


class ChineseRings(Puzzle):
    """Chinese rings: ``state[i]`` is 1 if ring i is on the bar; the goal is to take all of them off.

    Action 0 toggles ring 0; action 1 toggles the ring after the first one that is on.  The states form a path in
    Gray-code order: with m_i the parity of rings i, i+1, .., n-1, the distance is Σ_i 2^i m_i.
    """

    actions = 2

    def __init__(self, rings: int) -> None:
        self.rings = rings
        self.weights = np.exp2(np.arange(rings, dtype=np.float64))

    def initial(self) -> tuple[int, ...]:
        """All rings on."""
        return (1,) * self.rings

    def move(self, state: tuple[int, ...], action: int) -> tuple[int, ...]:
        """Toggle one ring, if it exists."""
        ring = 0 if action == 0 else state.index(1) + 1 if 1 in state else self.rings
        return state if ring >= self.rings else (*state[:ring], 1 - state[ring], *state[ring + 1 :])

    def marks(self, state: tuple[int, ...]) -> Array:
        """The parities m_0, .., m_{n-1}, (n,)."""
        return (np.cumsum(state[::-1])[::-1] % 2).astype(np.float64)


class Grid(Puzzle):
    """An open grid of any dimension, from a corner to the opposite one; actions 2i, 2i+1 move down, up along axis i."""

    def __init__(self, sides: Sequence[int]) -> None:
        self.sides = tuple(sides)
        self.actions = 2 * len(self.sides)
        self.weights = np.array([max(n - 1, 1) for n in self.sides], dtype=np.float64)

    def initial(self) -> tuple[int, ...]:
        """The corner (0, .., 0)."""
        return (0,) * len(self.sides)

    def move(self, state: tuple[int, ...], action: int) -> tuple[int, ...]:
        """One step along an axis, limited by the walls."""
        axis, up = divmod(action, 2)
        position = min(max(state[axis] + (1 if up else -1), 0), self.sides[axis] - 1)
        return (*state[:axis], position, *state[axis + 1 :])

    def marks(self, state: tuple[int, ...]) -> Array:
        """The remaining distance along each axis, relative to its length, (number of sides,)."""
        return np.asarray((np.array(self.sides) - 1 - np.array(state)) / self.weights)


def hanoi(disks: int) -> Problem:
    """Towers of Hanoi with n disks: d = n, A = 3, 3^n states, 2^n - 1 steps."""
    disks = whole("disks", disks, 1, 40)
    return Hanoi(disks).problem(f"hanoi/{disks}")


def chinese_rings(rings: int) -> Problem:
    """Chinese rings with n rings: d = n, A = 2, 2^n states."""
    rings = whole("rings", rings, 1, 40)
    return ChineseRings(rings).problem(f"chinese-rings/{rings}")


def grid(sides: Sequence[int]) -> Problem:
    """An open grid with the given sides: d = number of sides, A = 2d."""
    several = isinstance(sides, Iterable) and not isinstance(sides, str)
    sides = [whole("a side of the grid", n, 1) for n in (sides if several else [sides])]
    if not sides or max(sides) < 2:
        raise BadInput(f"a grid needs a side of length 2 or more, got {'x'.join(map(str, sides)) or 'none'}")
    return Grid(sides).problem("grid/" + "x".join(map(str, sides)))
