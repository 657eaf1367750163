"""The checker of proofs: every row is derived again, every tree verified, and nothing taken on trust.

What it takes as given is the transcript itself, that is, that the simulator gave these answers, samples and returns,
and that features and ranges are as stated.  What it derives is written anew here, from the mathematics alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tensorplan.core.errors import CertificateError, raised, shown
from tensorplan.optimism import BoundTree, Program, Solution, verify
from tensorplan.optimism.program import KINDS, Array
from tensorplan.proofs.certified import FromSamples, Setting
from tensorplan.proofs.equations import DerivedEquations
from tensorplan.proofs.proof import Proof

ROUNDING = 1e-12
"""What rows are widened by, relative to 1 + B, since features and rewards are floats."""

SLACK = 1e-8
"""By how much of its scale a claimed bound may be better than the one that was derived."""

ROUNDED = 1e-9
"""By how much of itself a number may differ that the planner computed too, with its roundings in another order."""

LOG_ROUNDED = 1e-6
"""The same for a sum of logarithms, one for each return."""

Part = tuple[Array, float]
"""A row or a disjunction: what is on its left, and what is on its right."""


@dataclass(frozen=True)
class Checked:
    """What a proof proves."""

    problem: str
    upper: float | None
    """v*(s0) is at most this, if ``assumes`` holds; None where the proof shows that it does not."""
    lower: float
    """The policy earns at least this, whatever the features."""
    failure: float
    """The probability that samples and returns misled, at most."""
    assumes: str
    """What the upper bound rests on; empty if on nothing but the declared ranges."""
    rows: int
    disjunctions: int
    leaves: int

    @property
    def sentence(self) -> str:
        """The same in words."""
        sure = f" (at confidence {1 - self.failure:.6g})" if self.failure else ""
        if self.upper is None:
            return f"refuted{sure}: it is not true that {self.assumes}; a policy earns at least {self.lower:.8g}"
        when = f"if {self.assumes}" if self.assumes else "whatever the features"
        return f"proved{sure}: v*(s0) <= {self.upper:.8g} {when}; a policy earns at least {self.lower:.8g} in any case"


def check(proof: Proof) -> Checked:
    """What a proof proves; raises CertificateError with the first thing that is wrong."""
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused where it is read, or compared
            return _Checker(proof.data).run()
    except CertificateError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as error:
        raise CertificateError(f"the proof is not of its format: reading it {raised(error)}") from None


def _demand(condition: bool, sentence: Callable[[], str] | str) -> None:
    if not condition:
        raise CertificateError(sentence if isinstance(sentence, str) else sentence())


class _Checker:
    def __init__(self, data: dict[str, Any]) -> None:
        self.data, self.problem = data, data["problem"]
        self.mode = data["mode"]
        _demand(self.mode in ("exact", "certified"), lambda: f"the proof has the unknown mode {shown(self.mode)}")
        self.d, self.actions = _whole(self.problem["dimension"], 1), _whole(self.problem["actions"], 1)
        self.bound, self.gamma = _positive(self.problem["bound"]), _positive(self.problem["discount"])
        self.eta, self.zeta = float(data["eta"]), float(data["zeta"])
        _demand(self.gamma <= 1 and self.eta >= 0 and 0 <= self.zeta < 1, "discount, eta or zeta is out of its range")
        self.rho = ROUNDING * (1 + self.bound)
        self.excused = (1 + self.gamma) * self.eta

    def run(self) -> Checked:
        phis = self.phis
        lower = self._lower()
        proved, rows, disjunctions, leaves = (self._exact if self.mode == "exact" else self._certified)(lower)
        claimed_lower, claimed_upper = (float(self.data["claim"][name]) for name in ("lower", "upper"))
        scale = 1 + self.bound * float(np.linalg.norm(phis[0])) + (abs(lower) if lower > -math.inf else 0.0)
        _demand(
            claimed_lower <= lower + SLACK * scale,
            lambda: f"the lower bound {claimed_lower:.12g} is claimed, and the returns show {lower:.12g}",
        )
        refuted, high = self.data["claim"]["status"] == "refuted", self.range(0)[1]
        empty = proved == -math.inf
        _demand(refuted == empty, "the status says refuted exactly when no parameter agrees with the rows")
        upper = min(proved + self.eta, high)
        if not refuted:
            _demand(
                claimed_upper >= upper - SLACK * scale,
                lambda: f"the upper bound {claimed_upper:.12g} is claimed, and {upper:.12g} is proved",
            )
        return Checked(
            problem=str(self.problem["name"]),
            upper=None if refuted else max(claimed_upper, upper),
            lower=min(claimed_lower, lower),
            failure=self.zeta,
            assumes="" if not refuted and claimed_upper >= high else self._assumption(),
            rows=rows,
            disjunctions=disjunctions,
            leaves=leaves,
        )

    def _exact(self, lower: float) -> tuple[float, int, int, int]:
        """What the answers prove to be the most that <φ(s0), θ*> can be; rows, disjunctions and leaves."""
        self.lower = lower
        program = self._assemble(self.phis[0], len(self.data["rows"]), len(self.data["forms"]))
        return _largest(program, self.data["tree"]), len(program.rows), len(program.forms), _leaves(self.data["tree"])

    def _certified(self, lower: float) -> tuple[float, int, int, int]:
        """The same for samples."""
        setting = Setting(
            self.phis,
            self.actions,
            self.bound,
            self.eta,
            self.excused,
            self.zeta,
            self.rho,
            lambda state: self.range(self.stage(state)),
            lambda state: self._width(self.stage(state)),
            _largest,
        )
        earned = self.data["earned"]
        _demand(isinstance(earned, bool), "the proof does not say whether it uses a return")
        derived = FromSamples(self.data, setting, lower if earned else None)
        bound = derived.bound()
        running = self.data["sum"]
        trees = [self.data["tree"]] if running is None else [case["tree"] for case in running["cases"]]
        return bound, derived.rows, derived.disjunctions, sum(map(_leaves, trees))

    def _assumption(self) -> str:
        values, features = ("q*(s, a)", "phi_q(s, a)") if self.problem["delayed"] else ("v*(s)", "phi_v(s)")
        norm = self.bound / math.sqrt(2) if self.problem["delayed"] else self.bound
        within = f"is within {self.eta:g} of" if self.eta else "="
        where = "at all states that can be reached, with one theta of norm at most"
        return f"{values} {within} <{features}, theta> {where} {norm:g}"

    # ------------------------------------------------------------------ the transcript

    @cached_property
    def phis(self) -> Array:
        """The features of all states, (n, d)."""
        phis = _floats([state["phi"] for state in self.data["states"]], (len(self.data["states"]), self.d), "phi")
        _demand(len(phis) > 0, "the proof has no start state")
        norms = np.linalg.norm(phis, axis=1)
        _demand(bool((norms <= 1 + ROUNDED).all()), lambda: f"state {int(norms.argmax())} has features of norm above 1")
        return phis

    def stage(self, state: int) -> int:
        """The stage of a state, which must be one of the horizon's."""
        stage, horizon = _whole(self.data["states"][state]["stage"], 0), self.horizon
        last = 0 if horizon is None else horizon - 1
        _demand(stage <= last, lambda: f"state {state} is at stage {stage}, and the last one is {last}")
        return stage

    @cached_property
    def horizon(self) -> int | None:
        """H of the problem that was planned in; that of TP' is one longer."""
        horizon = self.problem["horizon"]
        return None if horizon is None else _whole(horizon, 1) + bool(self.problem["delayed"])

    def range(self, stage: int) -> tuple[float, float]:
        """The range of returns from a stage on, early END included."""
        low, high = (float(x) for x in self.problem["reward_range"])
        low, high = min(low, 0.0), max(high, 0.0)
        if self.horizon is None:
            steps = math.inf if self.gamma == 1 else 1 / (1 - self.gamma)
        else:
            left = self.horizon - (max(stage, 1) if self.problem["delayed"] else stage)
            steps = left if self.gamma == 1 else (1 - self.gamma**left) / (1 - self.gamma)
        low, high = (low * steps if low else 0.0), (high * steps if high else 0.0)
        declared = self.problem["return_range"]
        return (low, high) if declared is None else (max(low, declared[0]), min(high, declared[1]))

    def follows(self, state: int, following: int) -> None:
        """Refuse a step that does not lead to the next stage, or to END after the last one."""
        if self.horizon is None:
            return
        stage = self.stage(state)  # checked even where END follows
        if following < 0:
            return
        _demand(stage + 1 < self.horizon, lambda: f"an answer at state {state} goes on after the last stage")
        _demand(self.stage(following) == stage + 1, lambda: f"an answer at state {state} does not lead one stage on")

    @cached_property
    def answers(self) -> list[tuple[int, int, float, int]]:
        """Exact mode: state, action, reward, next state or -1."""
        found: list[tuple[int, int, float, int]] = []
        low, high = (float(x) for x in self.problem["reward_range"])
        low, high = (min(low, 0.0), max(high, 0.0)) if self.problem["delayed"] else (low, high)
        for number, (state, action, reward, following) in enumerate(self.data["answers"]):
            state, action = _whole(state, 0, len(self.phis) - 1), _whole(action, 0, self.actions - 1)
            following = _whole(following, -1, len(self.phis) - 1)
            _demand(low <= reward <= high, f"answer {number} has a reward outside of the declared range")
            self.follows(state, following)
            found.append((state, action, float(reward), following))
        pairs = [(state, action) for state, action, _, _ in found]
        _demand(len(set(pairs)) == len(pairs), "a state and action has two answers")
        return found

    def _answer_delta(self, number: int) -> Array:
        state, _, reward, following = self.answers[_whole(number, 0, len(self.answers) - 1)]
        ahead = 0.0 if following < 0 else self.gamma * self.phis[following]
        return np.concatenate([[reward], ahead - self.phis[state]])

    # ------------------------------------------------------------------ the range of samples

    def _width(self, stage: int) -> float:
        """The length of the range of R + γ <φ(S'), θ*>."""
        low, high = (float(x) for x in self.problem["reward_range"])
        low, high = (min(low, 0.0), max(high, 0.0)) if self.problem["delayed"] else (low, high)
        transitions, rewards = self.problem["deterministic_transitions"], self.problem["deterministic_rewards"]
        width = 0.0 if transitions and rewards else high - low
        if not transitions:
            ahead = self.range(stage if self.horizon is None else stage + 1)
            ahead = max(ahead[0] - self.eta, -self.bound), min(ahead[1] + self.eta, self.bound)
            width += self.gamma * (ahead[1] - ahead[0])
        low, high = self.range(stage)
        return min(width, high - low + 2 * self.gamma * self.eta)

    # ------------------------------------------------------------------ the program

    def _assemble(self, objective: Array, rows: int, forms: int) -> Program:
        """The program of the first rows and disjunctions."""
        normals, rhs = self._stacked(self._rows, self._row, rows)
        if not forms:
            return Program(objective, self.bound, normals.reshape(-1, self.d), rhs)
        return Program(
            objective, self.bound, normals.reshape(-1, self.d), rhs, *self._stacked(self._forms, self._form, forms)
        )

    @staticmethod
    def _stacked(known: dict[int, Part], derive: Callable[[int], Part], count: int) -> tuple[Array, Array]:
        """The first rows, or disjunctions: what is on their left, and what is on their right."""
        for number in range(count):
            if number not in known:
                known[number] = derive(number)
        parts = [known[number] for number in range(count)]
        return np.array([left for left, _ in parts]), np.array([right for _, right in parts])

    @cached_property
    def _rows(self) -> dict[int, Part]:
        return {}

    @cached_property
    def _forms(self) -> dict[int, Part]:
        return {}

    def _row(self, number: int) -> Part:
        """<normal, θ> <= b, which θ* satisfies."""
        kind, *about = self.data["rows"][number]
        if kind == "bellman":
            delta = self._answer_delta(about[0])
            return delta[1:], self.rho - float(delta[0]) + self.excused
        if kind == "equation":
            return self._equation(number, *about)
        if kind == "return":
            return -self.phis[0], -(self.lower - self.rho) + self.eta
        _demand(kind in ("low", "high"), lambda: f"row {number} has the unknown kind {shown(kind)}")
        state = _whole(about[0], 0, len(self.phis) - 1)
        low, high = self.range(self.stage(state))
        end = high if kind == "high" else -low
        _demand(math.isfinite(end), lambda: f"row {number} uses an infinite end of a range")
        return (self.phis[state] if kind == "high" else -self.phis[state]), end + self.rho + self.eta

    def _equation(self, number: int, answer: int, claimed: float) -> Part:
        """Bellman's equation with a known best action, l_a(θ*) >= -slack, where earlier equations give the values."""
        delta = self._answer_delta(answer)
        if self.eta > 0:  # another action may be the best one: only what holds in the whole ball
            return -delta[1:], self.bound * float(np.linalg.norm(delta[1:])) * (1 + ROUNDED)
        state, action, reward, _ = self.answers[answer]
        known = self._answers_at.get(state, {})
        _demand(len(known) == self.actions, lambda: f"row {number} is about a state with actions that were not queried")
        lows, highs = np.array([self._after(known[a]) for a in range(self.actions)]).T
        excess = max(float(np.delete(highs, action).max(initial=-math.inf)) - float(lows[action]), 0.0)
        slack = float(claimed)
        _demand(
            math.isfinite(slack) and slack >= excess,
            lambda: f"row {number} claims the slack {slack:.6g}, and {excess:.6g} is derived",
        )
        self._equations.add(-delta[1:], reward - self.rho, reward + slack + self.rho)
        self._values[state] = float(lows.max()), float(highs.max())
        return -delta[1:], reward + slack + self.rho

    def _after(self, answer: int) -> tuple[float, float]:
        """The range of r + γ v*(s'), by earlier equations."""
        _, _, reward, following = self.answers[answer]
        low, high = (0.0, 0.0) if following < 0 else self._value(following)
        return reward + self.gamma * low, reward + self.gamma * high

    def _value(self, state: int) -> tuple[float, float]:
        """The range of v*(s): of its own equation, if that came before, or of its features."""
        if state not in self._values:
            value, error = self._equations.value(self.phis[state])
            return value - error, value + error
        return self._values[state]

    @cached_property
    def _values(self) -> dict[int, tuple[float, float]]:
        return {}

    @cached_property
    def _equations(self) -> DerivedEquations:
        return DerivedEquations(self.d, self.bound)

    @cached_property
    def _answers_at(self) -> dict[int, dict[int, int]]:
        """By state and action, the number of the answer."""
        found: dict[int, dict[int, int]] = {}
        for number, (state, action, _, _) in enumerate(self.answers):
            found.setdefault(state, {})[action] = number
        return found

    def _form(self, number: int) -> Part:
        """Affine forms one of which is within a tolerance of zero at θ*."""
        state = _whole(self.data["forms"][number], 0, len(self.phis) - 1)
        known = self._answers_at.get(state, {})
        _demand(
            len(known) == self.actions,
            lambda: f"disjunction {number} needs all actions of its state",
        )
        return np.array([self._answer_delta(known[a]) for a in range(self.actions)]), self.rho + self.excused

    # ------------------------------------------------------------------ the lower bound

    def _lower(self) -> float:
        """The lower bound that the returns of the transcript prove."""
        returns, (low, _) = self.data["returns"], self.range(0)
        kind = returns["kind"]
        if kind == "none":
            return low
        if kind == "path":
            return max(low, self._path(returns))
        _demand(kind == "sample", lambda: f"the returns are of the unknown kind {shown(kind)}")
        number = _whole(returns["number"], 1)
        return max(low, self._betting(returns, low, self.zeta / (2 * number * (number + 1))))

    def _path(self, returns: Any) -> float:
        """The return of a path of answers that reaches END, repeats a loop forever, or earns the least from then on."""
        state, total, weight, totals = 0, 0.0, 1.0, [0.0]
        for number in returns["answers"]:
            at, _, reward, following = self.answers[_whole(number, 0, len(self.answers) - 1)]
            _demand(at == state, "the path of the lower bound is broken")
            total, weight, state = total + weight * reward, weight * self.gamma, following
            totals.append(total)
        loop = returns["loop"]
        if loop is not None:
            loop = _whole(loop, 0, len(totals) - 2)
            first = self.answers[returns["answers"][loop]][0]
            _demand(first == state and self.gamma < 1, "the path of the lower bound does not return to its loop")
            around = (total - totals[loop]) / self.gamma**loop
            length = len(totals) - 1 - loop
            return totals[loop] + self.gamma**loop * around / (1 - self.gamma**length)
        if state >= 0:
            total += weight * self.range(self.stage(state))[0]
        return total

    def _betting(self, returns: Any, least: float, alpha: float) -> float:
        """The claimed lower bound on a mean, if the wealth of a bettor against it has reached 1/α (Ville)."""
        claimed = float(self.data["claim"]["lower"])
        if claimed <= least:
            return least
        gains = _floats([x for x, _ in returns["values"]], (len(returns["values"]),), "returns") - least
        counts = np.array([_whole(n, 1) for _, n in returns["values"]], dtype=np.float64)
        _demand(bool((gains >= -ROUNDED * (1 + abs(least))).all()), "a return is below the least that there can be")
        gains = np.maximum(gains, 0.0)
        stakes = _floats([bet for bet, _ in returns["bets"]], (len(returns["bets"]),), "bets")
        copies = np.array([_whole(n, 1) for _, n in returns["bets"]], dtype=np.float64)
        _demand(bool(((stakes > 0) & (stakes < 1)).all()), "a bet on returns is not a share of the wealth")
        wealth = [float(np.log1p(bet * (gains / (claimed - least) - 1)) @ counts) for bet in stakes]
        reached = float(np.logaddexp.reduce(wealth + np.log(copies))) - math.log(copies.sum())
        _demand(
            reached >= math.log(1 / alpha) - LOG_ROUNDED,
            lambda: f"the returns do not show that {claimed:.8g} is earned at this confidence",
        )
        return claimed


# ------------------------------------------------------------------------------------------- trees


def _largest(program: Program, data: Any) -> float:
    """What a tree proves to be the most that the objective can be; -inf where nothing is feasible."""
    tree = _tree(data)
    bounds = tree.bound[~np.isnan(tree.bound)]
    largest = float(bounds.max())
    status = "infeasible" if largest == -math.inf else "limit"
    return verify(program, Solution(status, None, -math.inf, largest, 0, 0.0, tree))


def _leaves(data: Any) -> int:
    return int(np.count_nonzero(~np.isnan(_tree(data).bound)))


# ------------------------------------------------------------------------------------------- reading


def _tree(data: Any) -> BoundTree:
    """The tree of the optimiser from plain lists."""
    arrays: dict[str, Any] = {
        name: np.array([float(x) if isinstance(x, str) else x for x in data[name]]).astype(
            kind, casting="unsafe" if not data[name] else "same_kind"
        )
        for name, kind in KINDS.items()
    }
    return BoundTree(**arrays)


def _floats(values: Any, shape: tuple[int, ...], name: str) -> Array:
    array = np.array(values, dtype=np.float64).reshape(shape)
    _demand(bool(np.isfinite(array).all()), lambda: f"{name} contains a number that is not finite")
    return array


def _whole(value: Any, low: int, high: int | None = None) -> int:
    _demand(
        isinstance(value, int) and not isinstance(value, bool) and value >= low and (high is None or value <= high),
        lambda: f"the proof contains {shown(value)} where a whole number from {low} to {high} belongs",
    )
    return int(value)


def _positive(value: Any) -> float:
    number = float(value)
    _demand(0 < number < math.inf, lambda: f"the proof contains {shown(value)} where a positive number belongs")
    return number
