"""The checker of bounds by cases.

In every case some states have a known optimal action.  Samples give linear inequalities for θ* that hold at all sample
sizes at once: for weights u and temporal differences l_i = <x_i - [e, φ(s)], [1, θ*]> in an interval of length W, with
u l_i of mean at most zero, and ψ(x) = -ln(1 - x) - x,

    Σ u l_i <= ( ln(1/(p α)) + Σ ψ(λ |u| W) (l_i / W)² ) / λ      where λ |u| W <= 1/2.

They are derived from the sums alone; the squares on the right are bounded over a box that contains θ*, by directions
along which trees bound θ*.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorplan.core.errors import CertificateError
from tensorplan.optimism.program import Array, Program

STEPS = range(-2, 8)
"""The bets of a mixture are the stated one times 2^-k."""

WATCHED, SUMS = 1 / 8, 1 / 4
"""The parts of ζ for the rows of states under watch, and for sums."""

ROUNDED = 1e-9
"""How much bounds are rounded up, relatively, since they are computed in floating point."""


def prior(k: int) -> float:
    """The weight of a bet in the mixture; over all steps they add up to less than 1."""
    return 0.4 if k == 0 else 0.2 if abs(k) == 1 else 0.1 * 0.5 ** (abs(k) - 1)


@dataclass(frozen=True)
class Setting:
    """What the proof says of the problem."""

    phis: Array
    actions: int
    radius: float
    eta: float
    excused: float
    zeta: float
    rho: float
    stage: Callable[[int], int]
    range: Callable[[int], tuple[float, float]]
    width: Callable[[int], float]
    largest: Callable[[Program, Any], float]
    """What a tree proves to be the most that the objective of a program can be; -inf where nothing is feasible."""


@dataclass(frozen=True)
class _Samples:
    """The sums of x and of x xᵀ over n samples at a state."""

    state: int
    n: int
    sums: Array
    squares: Array


@dataclass(frozen=True)
class _Part:
    """A term of a sum."""

    samples: _Samples
    origin: Array
    width: float
    weight: float


@dataclass(frozen=True)
class _Box:
    """The θ within ``reach`` of ``centre`` along orthonormal directions, and in the ball."""

    centre: Array
    directions: Array
    reach: Array
    radius: float

    def squares(self, form: Array) -> float:
        """At most [1, θ]ᵀ M [1, θ]."""
        middle = np.concatenate([[1.0], self.centre])
        sides = [max(float(v @ form[1:, 1:] @ v), 0.0) for v in self.directions.T]
        inside = math.sqrt(max(float(middle @ form @ middle), 0.0)) + float(self.reach @ np.sqrt(sides))
        spread = math.sqrt(max(float(np.trace(form[1:, 1:])), 0.0))
        anywhere = math.sqrt(max(float(form[0, 0]), 0.0)) + self.radius * spread
        return (1 + ROUNDED) * min(inside, anywhere) ** 2


class Cases:
    """One bound by cases, derived again."""

    def __init__(self, data: dict[str, Any], about: Setting, lower: float) -> None:
        self.data, self.about = data, about
        self.d = about.phis.shape[1]
        self.state = _index(data["state"], len(about.phis))
        earned = data["earned"]
        if earned is not None:
            _demand(self.state == 0, "a return is used for a state other than the start state")
            _demand(float(earned) <= lower + about.rho, "a bound by cases uses a return that was not shown")
        self.fixed = self._fixed(earned)
        self.watched = data["watched"]
        numbers = [_number(each["number"]) for each in self.watched]
        _demand(len(set(numbers)) == len(numbers), "two states under watch have the same share of zeta")
        states = [_index(each["state"], len(about.phis)) for each in self.watched]
        _demand(len(set(states)) == len(states), "a state is under watch twice")

    def bound(self) -> float:
        """The largest <φ(s), θ*> in any case."""
        cases = self.data["cases"]
        choices = [self._choices(case) for case in cases]
        _demand(self._covered(choices), "the cases do not cover all choices of optimal actions")
        return max(self._case(case, chosen) for case, chosen in zip(cases, choices, strict=True))

    def _choices(self, case: Any) -> dict[int, int]:
        pairs = [(_index(w, len(self.watched)), _index(a, self.about.actions)) for w, a in case["choices"]]
        _demand(len({w for w, _ in pairs}) == len(pairs), "a case chooses two actions for a state")
        return dict(pairs)

    def _covered(self, cases: Sequence[dict[int, int]]) -> bool:
        """Whether every combination of optimal actions is in one of the cases."""
        if any(not case for case in cases):
            return True
        common = set.intersection(*map(set, cases)) if cases else set()
        if not common:
            return False
        state = min(common)
        parts = ([c for c in cases if c[state] == action] for action in range(self.about.actions))
        return all(self._covered([{w: a for w, a in c.items() if w != state} for c in part]) for part in parts)

    # ------------------------------------------------------------------ rows

    def _fixed(self, earned: Any) -> list[tuple[Array, float]]:
        """Ranges of values, and the return."""
        about, highs, lows = self.about, [], []
        for number in self.data["ranged"]:
            state = _index(number, len(about.phis))
            low, high = about.range(about.stage(state))
            highs += [(about.phis[state], high + about.eta)] if math.isfinite(high) else []
            lows += [(-about.phis[state], about.eta - low)] if math.isfinite(low) else []
        rows = highs + lows
        if earned is not None:
            rows.append((-about.phis[self.state], about.eta - float(earned)))
        return rows

    def _part(self, samples: Any, state: int, weight: float) -> _Part:
        n = _number(samples["n"])
        sums = _floats(samples["sums"], (self.d + 1,))
        squares = _floats(samples["squares"], (self.d + 1, self.d + 1))
        origin = np.concatenate([[math.copysign(self.about.excused, weight)], self.about.phis[state]])
        return _Part(_Samples(state, n, sums, squares), origin, self.about.width(self.about.stage(state)), weight)

    def _row(self, parts: Sequence[_Part], share: float, bet: float, box: _Box) -> tuple[Array, float]:
        """<g, θ*> <= b from a bet, if the box contains θ*."""
        _demand(0 < bet < math.inf, "a bet is not positive")
        total, counts, seconds = np.zeros(self.d + 1), 0.0, []
        for part in parts:
            n, sums = part.samples.n, part.samples.sums
            total += part.weight * (sums - n * part.origin)
            counts += abs(part.weight) * n
            cross = np.outer(part.origin, sums)
            seconds.append(part.samples.squares - cross - cross.T + n * np.outer(part.origin, part.origin))
        radius = math.inf
        for k in STEPS:
            stake = bet * 0.5**k
            if any(stake * abs(part.weight) * part.width > 0.5 * (1 + ROUNDED) for part in parts):
                continue
            form = np.zeros((self.d + 1, self.d + 1))
            for part, second in zip(parts, seconds, strict=True):
                x = stake * abs(part.weight) * part.width
                form += (-math.log1p(-x) - x) / part.width**2 * second
            radius = min(radius, (math.log(1 / (prior(k) * share)) + box.squares(form)) / stake)
        return total[1:], (1 + ROUNDED) * radius - float(total[0]) + self.about.rho * counts

    def _rows(self, case: Any, choices: dict[int, int], box: _Box) -> tuple[Array, Array]:
        watched = range(len(self.watched))
        rows = [*self.fixed, *(self._single(w, a, 1.0, box) for w in watched for a in range(self.about.actions))]
        rows += [self._single(w, a, -1.0, box) for w, a in choices.items()]
        if case["weights"]:
            i = _number(self.data["number"])
            parts = [self._weighted(term, float(weight), choices) for term, weight in case["weights"]]
            rows.append(self._row(parts, SUMS * self.about.zeta / (i * (i + 1)), float(case["bet"]), box))
        return np.array([g for g, _ in rows]).reshape(-1, self.d), np.array([b for _, b in rows])

    def _single(self, number: int, action: int, weight: float, box: _Box) -> tuple[Array, float]:
        """T1 of an action at a state under watch, or T3 if it is optimal."""
        each = self.watched[number]
        i, bets = _number(each["number"]), each["bets"][0 if weight > 0 else 1]
        part = self._part(each["samples"][action], _index(each["state"], len(self.about.phis)), weight)
        share = WATCHED * self.about.zeta / (i * (i + 1) * (self.about.actions + 1))
        return self._row([part], share, float(bets[action]), box)

    def _weighted(self, number: int, weight: float, choices: dict[int, int]) -> _Part:
        """A term of the sum; a negative weight needs the optimal action."""
        term = self.data["terms"][_index(number, len(self.data["terms"]))]
        watched, action = _index(term["watched"], len(self.watched)), _index(term["action"], self.about.actions)
        _demand(math.isfinite(weight) and weight != 0, "a weight of a sum is not a number, or zero")
        _demand(
            weight > 0 or choices.get(watched) == action,
            "a sum uses that an action is optimal in a case that does not say so",
        )
        return self._part(term, _index(self.watched[watched]["state"], len(self.about.phis)), weight)

    # ------------------------------------------------------------------ one case

    def _case(self, case: Any, choices: dict[int, int]) -> float:
        about = self.about
        directions = _floats(case["directions"], (self.d, self.d))
        _demand(
            bool(np.abs(directions.T @ directions - np.eye(self.d)).max() <= ROUNDED),
            "the directions of a case are not orthonormal",
        )
        terms = [tuple(pair) for pair in case["weights"]]
        _demand(len({number for number, _ in terms}) == len(terms), "a sum uses a term twice")
        box = _Box(np.zeros(self.d), directions, np.full(self.d, about.radius), about.radius)
        for up, down in case["passes"]:
            rows = self._rows(case, choices, box)
            highs = [about.largest(Program(v, about.radius, *rows), t) for v, t in zip(directions.T, up, strict=True)]
            lows = [-about.largest(Program(-v, about.radius, *rows), t) for v, t in zip(directions.T, down, strict=True)]
            if -math.inf in highs or math.inf in lows:
                return -math.inf
            middles = directions.T @ box.centre
            high, low = np.minimum(highs, middles + box.reach), np.maximum(lows, middles - box.reach)
            reach = np.maximum(high - low, 0.0) / 2 + ROUNDED * about.radius
            box = _Box(directions @ ((high + low) / 2), directions, reach, about.radius)
        program = Program(about.phis[self.state], about.radius, *self._rows(case, choices, box))
        return about.largest(program, case["tree"])


def _demand(condition: bool, sentence: str) -> None:
    if not condition:
        raise CertificateError(sentence)


def _index(value: Any, size: int) -> int:
    _demand(isinstance(value, int) and not isinstance(value, bool) and 0 <= value < size, "an index is out of range")
    return int(value)


def _number(value: Any) -> int:
    _demand(isinstance(value, int) and not isinstance(value, bool) and value >= 1, "a number is not a positive integer")
    return int(value)


def _floats(values: Any, shape: tuple[int, ...]) -> Array:
    array = np.array(values, dtype=np.float64).reshape(shape)
    _demand(bool(np.isfinite(array).all()), "samples contain a number that is not finite")
    return array
