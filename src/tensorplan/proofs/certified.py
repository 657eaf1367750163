"""The checker of upper bounds from samples: rows of measured states, boxes, and sums in cases.

For a state s, an action a and samples x_i of [R, γ φ(S')], write l_i = <x_i - [0, φ(s)], [1, θ*]>.  Its mean is at most
0, and 0 if a is optimal; all l_i are in an interval of length W.  A *bet* is about a sum Σ u l_i over one or more
pairs, with weights u that are negative only where a is optimal.  With ψ(x) = -ln(1 - x) - x and predictions l̂_i that
are means of earlier samples,

    Σ u l_i <= ( ln(1/(p_k α)) + Σ ψ(λ_k |u| W) ((l_i - l̂_i) / W)² ) / λ_k        where λ_k |u| W < 1, λ_k = λ 2^-k,

for all k and at all sample sizes, but with probability α (Ville's inequality for a mixture of supermartingales).  The
squares are bounded over a box that contains θ*, which trees of the optimiser bound, in passes that begin with the ball.
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

ROWS, SUMS = 1 / 8, 3 / 8
"""The parts of ζ for the rows of measured states, and for sums."""

LARGEST = 0.95
"""The largest λ |u| W."""

ROUNDED = 1e-9
"""How much bounds are rounded up, relatively, since they are computed in floating point."""

Row = tuple[Array, float]
"""A normal g and a number b: <g, θ*> <= b."""


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
    """(1 + γ) η"""
    zeta: float
    rounding: float
    range: Callable[[int], tuple[float, float]]
    """Of the value of a state."""
    width: Callable[[int], float]
    """Of the temporal differences at a state."""
    largest: Callable[[Program, Any], float]
    """What a tree proves to be the most that the objective of a program can be; -inf where nothing is feasible."""


@dataclass(frozen=True)
class _Box:
    """The θ within ``reach`` of ``centre`` along some orthonormal directions, and in the ball."""

    centre: Array
    directions: Array
    reach: Array
    radius: float

    def squares(self, form: Array) -> float:
        """At most [1, θ]ᵀ M [1, θ]."""
        middle, inner = np.concatenate([[1.0], self.centre]), form[1:, 1:]
        sides = [max(float(v @ inner @ v), 0.0) for v in self.directions.T]
        spread = max(float(np.trace(inner)), 0.0)
        rest = 0.0 if len(sides) == len(inner) else max(spread - math.fsum(sides), 0.0)
        inside = math.sqrt(max(float(middle @ form @ middle), 0.0)) + float(self.reach @ np.sqrt(sides))
        inside += self.radius * math.sqrt(rest)
        anywhere = math.sqrt(max(float(form[0, 0]), 0.0)) + self.radius * math.sqrt(spread)
        return (1 + ROUNDED) * min(inside, anywhere) ** 2


@dataclass(frozen=True)
class _Term:
    """Samples of a pair, with a weight."""

    state: int
    weight: float
    n: int
    sums: Array
    scatter: Array | None
    """None if it says nothing about squares."""


class FromSamples:
    """The upper bound of a proof in certified mode, derived again."""

    def __init__(self, data: dict[str, Any], about: Setting, earned: float | None) -> None:
        """``earned`` is a lower bound on v*(s0) that the proof uses, if any."""
        self.data, self.about, self.d = data, about, about.phis.shape[1]
        self.measured = data["measured"]
        numbers = [_number(each["number"]) for each in self.measured]
        _demand(len(set(numbers)) == len(numbers), "two measured states have the same share of the failure probability")
        self.states = [_index(each["state"], len(about.phis)) for each in self.measured]
        _demand(len(set(self.states)) == len(self.states), "a state is measured twice")
        self.samples = [
            [self._term(each, state, 1.0) for each in state_data["samples"]]
            for state, state_data in zip(self.states, self.measured, strict=True)
        ]
        complete = all(len(samples) == about.actions for samples in self.samples)
        _demand(complete, "a measured state has not as many actions as there are")
        self.fixed = self._fixed()
        self.earned = [] if earned is None else [(-about.phis[0], about.eta - (earned - about.rounding))]

    @property
    def rows(self) -> int:
        """How many rows there are before disjunctions, sums and choices."""
        return len(self.fixed) + len(self.earned) + sum(term.n > 0 for terms in self.samples for term in terms)

    @property
    def disjunctions(self) -> int:
        """How many states have samples of all actions."""
        return sum(all(term.n > 0 for term in terms) for terms in self.samples)

    def bound(self) -> float:
        """An upper bound on <φ(s0), θ*>; -inf if no θ agrees with the samples."""
        box = _Box(np.zeros(self.d), np.zeros((self.d, 0)), np.zeros(0), self.about.radius)
        for part in self.data["passes"]:
            found = self._pass(part, self._radii(part["radii"], box))
            if found is None:
                return -math.inf
            box = found
        radii, running = self._radii(self.data["radii"], box), self.data["sum"]
        if running is None:
            return self.about.largest(self._program(self.about.phis[0], radii), self.data["tree"])
        number = _number(running["number"])
        share = SUMS * self.about.zeta / (number * (number + 1))
        choices = [self._choices(case) for case in running["cases"]]
        _demand(self._covered(choices), "the cases do not cover all choices of optimal actions")
        pairs = zip(running["cases"], choices, strict=True)
        return max(self._case(case, chosen, share, radii, box) for case, chosen in pairs)

    # ------------------------------------------------------------------ rows

    def _fixed(self) -> list[Row]:
        """Ranges of values."""
        about, rows = self.about, list[Row]()
        for number in self.data["ranged"]:
            state = _index(number, len(about.phis))
            low, high = about.range(state)
            rows += [(about.phis[state], high + about.eta)] if math.isfinite(high) else []
            rows += [(-about.phis[state], about.eta - low)] if math.isfinite(low) else []
        return rows

    def _term(self, data: Any, state: int, weight: float) -> _Term:
        n = data["n"]
        _demand(isinstance(n, int) and not isinstance(n, bool) and n >= 0, "a number of samples is not a whole number")
        sums = _floats(data["sums"], (self.d + 1,))
        scatter = None if data["scatter"] is None else _floats(data["scatter"], (self.d + 1, self.d + 1))
        return _Term(state, weight, n, sums, scatter)

    def _total(self, term: _Term) -> Array:
        """u Σ (x - [0, φ(s)])."""
        origin = np.concatenate([[0.0], self.about.phis[term.state]])
        return np.asarray(term.weight * (term.sums - term.n * origin))

    def _radius(self, terms: Sequence[_Term], share: float, bet: float, box: _Box) -> float:
        """What a sum may exceed its mean by."""
        noisy = [(term, width) for term in terms if (width := self.about.width(term.state))]
        if not noisy:
            return 0.0
        _demand(0 < bet < math.inf, "a bet is not a positive number")
        best = math.inf
        for k in STEPS:
            stake = bet * 0.5**k
            prices = [stake * abs(term.weight) * width for term, width in noisy]
            if max(prices) > LARGEST * (1 + ROUNDED):
                continue
            prices = [-math.log1p(-x) - x for x in prices]
            squares = math.fsum(price * term.n for (term, _), price in zip(noisy, prices, strict=True))
            if all(term.scatter is not None for term, _ in noisy):
                parts = zip(noisy, prices, strict=True)
                form = sum(price / width**2 * np.asarray(term.scatter) for (term, width), price in parts)
                squares = min(squares, box.squares(np.asarray(form)))
            best = min(best, (math.log(1 / (prior(k) * share)) + squares) / stake)
        return (1 + ROUNDED) * best

    def _radii(self, claimed: Any, box: _Box) -> Array:
        """The claimed radii of l_a(θ*), (m, A), if the samples justify them; infinite without samples."""
        radii = np.array([[float(x) for x in row] for row in claimed]).reshape(len(self.measured), self.about.actions)
        for number, (each, terms) in enumerate(zip(self.measured, self.samples, strict=True)):
            i = _number(each["number"])
            share = ROWS * self.about.zeta / (i * (i + 1) * (self.about.actions + 1))
            for action, term in enumerate(terms):
                needed = math.inf
                if term.n:
                    radius = self._radius([term], share, float(each["samples"][action]["bet"]), box)
                    needed = radius / term.n + self.about.rounding
                _demand_radius(float(radii[number, action]), needed)
        return radii

    def _delta(self, number: int, action: int) -> Array:
        """Δ_a of a measured state."""
        term = self.samples[number][action]
        return self._total(term) / max(term.n, 1)

    def _linear(self, radii: Array) -> list[Row]:
        """T2, T1, and the return."""
        rows = list(self.fixed)
        for number, action in zip(*np.nonzero(np.isfinite(radii)), strict=True):
            delta = self._delta(number, action)
            rows.append((delta[1:], float(radii[number, action] - delta[0]) + self.about.excused))
        return rows + self.earned

    def _program(self, objective: Array, radii: Array) -> Program:
        """T1-T3."""
        rows = self._linear(radii)
        normals, ends = np.array([g for g, _ in rows]).reshape(-1, self.d), np.array([b for _, b in rows])
        states = np.flatnonzero(np.isfinite(radii).all(axis=1)).tolist()
        if not states:
            return Program(objective, self.about.radius, normals, ends)
        allowed = radii[states] + self.about.excused
        deltas = np.array([[self._delta(number, a) for a in range(self.about.actions)] for number in states])
        forms = deltas * (allowed.max(axis=1)[:, None] / allowed)[:, :, None]
        tolerances = radii[states].max(axis=1) + self.about.excused
        return Program(objective, self.about.radius, normals, ends, forms, tolerances)

    # ------------------------------------------------------------------ boxes and cases

    def _pass(self, part: Any, radii: Array) -> _Box | None:
        """The box that the trees of a pass prove; None if no θ is left."""
        directions, radius = _floats(part["directions"], (self.d, -1)), self.about.radius
        products = directions.T @ directions
        _demand(
            bool(np.abs(products - np.eye(len(products))).max(initial=0.0) <= ROUNDED),
            "the directions of a box are not orthonormal",
        )
        highs = [self._most(v, tree, radii) for v, tree in zip(directions.T, part["up"], strict=True)]
        lows = [-self._most(-v, tree, radii) for v, tree in zip(directions.T, part["down"], strict=True)]
        if -math.inf in highs or math.inf in lows:
            return None
        high, low = np.minimum(highs, radius), np.maximum(lows, -radius)
        reach = np.maximum(high - low, 0.0) / 2 + ROUNDED * radius
        return _Box(directions @ ((high + low) / 2), directions, reach, radius)

    def _most(self, objective: Array, tree: Any, radii: Array) -> float:
        return self.about.largest(self._program(objective, radii), tree)

    def _choices(self, case: Any) -> dict[int, int]:
        pairs = [(_index(m, len(self.measured)), _index(a, self.about.actions)) for m, a in case["choices"]]
        _demand(len({m for m, _ in pairs}) == len(pairs), "a case chooses two actions for a state")
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
        return all(self._covered([{m: a for m, a in c.items() if m != state} for c in part]) for part in parts)

    def _case(self, case: Any, choices: dict[int, int], share: float, radii: Array, box: _Box) -> float:
        """The bound in one case."""
        rows = self._linear(radii)
        for pair in choices.items():
            if math.isfinite(radii[pair]):
                delta = self._delta(*pair)
                rows.append((-delta[1:], float(radii[pair] + delta[0]) + self.about.excused))
        if case["terms"]:
            rows.append(self._sum(case, choices, share, box))
        normals, ends = np.array([g for g, _ in rows]).reshape(-1, self.d), np.array([b for _, b in rows])
        return self.about.largest(Program(self.about.phis[0], self.about.radius, normals, ends), case["tree"])

    def _sum(self, case: Any, choices: dict[int, int], share: float, box: _Box) -> Row:
        """The row of the sum of a case."""
        pairs, terms = set[tuple[int, int]](), []
        for data in case["terms"]:
            number, action = _index(data["measured"], len(self.measured)), _index(data["action"], self.about.actions)
            weight = float(data["weight"])
            _demand(math.isfinite(weight), "a weight of a sum is not a number")
            _demand(
                weight >= 0 or choices.get(number) == action,
                "a sum uses that an action is optimal in a case that does not say so",
            )
            pairs.add((number, action))
            terms.append(self._term(data, self.states[number], weight))
        _demand(len(pairs) == len(terms), "a sum uses a pair twice")
        total = np.sum([self._total(term) for term in terms], axis=0)
        size = math.fsum(abs(term.weight) * term.n for term in terms)
        radius = float(case["radius"])
        _demand_radius(radius, self._radius(terms, share, float(case["bet"]), box))
        return total[1:], radius + (self.about.excused + self.about.rounding) * size - float(total[0])


def _demand_radius(claimed: float, needed: float) -> None:
    _demand(claimed >= needed * (1 - ROUNDED), f"the radius {claimed:.6g} is claimed, and {needed:.6g} is needed")


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
