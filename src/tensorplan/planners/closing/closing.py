"""Closing the gap: a fitted parameter tells what to measure and which policy to evaluate, and bets prove the bounds.

    repeat
        θ       <- the parameter that the table of estimates agrees with best
        if v*(s0) could still be much larger than <φ(s0), θ> by what was measured: explore with the optimistic policy
        π       <- at a state, argmax_a of the estimated l_a(θ); more samples where the choice of an action is doubtful
        design  <- the accuracy, cases and weights with which the upper bound would be near <φ(s0), θ>
        upper   <- bets on the designed sums, from fresh samples (:mod:`tensorplan.planners.closing.cases`)
        lower   <- episodes of π
        whichever promises more per query grows next

The fit and the design are estimates: they decide where samples go, not what is proved.  Where they do not help (features
that do not fit, searches that take too long, too many cases) the certified mode measures states one by one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorplan.core import Array, Node
from tensorplan.planners.closing.bets import Bet, planned_bet
from tensorplan.planners.closing.cases import Case, CaseEvidence, CaseRows, Watched, term
from tensorplan.planners.closing.design import CERTAIN, Estimates, Model, PlannedCase
from tensorplan.planners.evidence.approx_td import Moments
from tensorplan.planners.evidence.evaluation import Candidate, Evaluation, Visits, key_of
from tensorplan.planners.evidence.ledger import Ledger
from tensorplan.planners.evidence.place import Place
from tensorplan.planners.tensorplan.evaluate import Bounds, Evaluator
from tensorplan.planners.tensorplan.measuring import Estimate, Surveyor

FIRST = 8
"""Samples per action with which a state enters the table."""

UNSEEN_SAMPLES = 4
"""Samples per action at a state that a policy under evaluation has no action for: every visit costs them again."""

EPISODES = 16
"""Episodes of a pilot run."""

UNSEEN = 0.05
"""The share of steps at new states below which pilot runs end."""

PILOTED = 100
"""The most episodes of pilot runs for one fit."""

POOLED = 4
"""How many samples the average variance of all states counts for, beside a state's own: few samples may all agree."""

OUTLIER = 3.5
"""The standard errors from which on a visited state joins the fit."""

SUSPICIOUS = 8.0
"""A fit that misses by more standard errors than this is not relied on."""

UNEXPLORED = 0.4
"""The share of the goal by which the model's optimum may exceed the value of the fit: above it, exploration goes on."""

POLICY_LOSS = 0.2
"""The share of the goal that a policy may lose by doubtful actions."""

AFFORDABLE = 3.0
"""A design may take so many times the queries spent so far; otherwise it aims at a wider bracket first."""

WIDER = 1.5
"""The factor by which the aim is widened."""

PARTS = tuple(np.arange(0.0, 0.85, 0.1).tolist())
"""Shares of the goal that are tried for the upper bound; the rest is for the lower one."""

REFINED = 0.5
"""The most queries of one refinement of the table, as a share of those spent so far."""

DETAIL = 0.5
"""The table must have this share of the designed samples before the weights of a sum are fixed."""

LEAST = 32
"""The fewest samples of a term of a sum."""

MOST_CASES = 64
"""A design with more cases is not used."""

HELPED = 0.95
"""A sum that leaves more of the gap than this has not helped; states are measured one by one for a while."""

OVERDUE = 1.5
"""A sum that has had so many times its designed samples has missed its target: another one is designed."""


@dataclass(eq=False)
class Sum:
    """A designed experiment under way."""

    number: int
    """Which determines its share of the failure probability."""
    cases: list[Case]
    tallies: dict[tuple[Estimate, int], Moments]
    designed: dict[tuple[Estimate, int], float]
    """Samples of each term."""
    target: float
    gap: float
    """Between the bounds when it began."""
    states: int
    """How many states were in the fit."""
    done: float = 0.0
    """The share of the designed samples that were drawn."""
    queries: int = 0
    upper: float = math.inf

    @property
    def finished(self) -> bool:
        """Whether it has met its target, or is not going to."""
        return self.upper <= self.target or self.done > OVERDUE


@dataclass(frozen=True, eq=False)
class Looked:
    """What the table says of the states that a policy visits, under one θ."""

    estimates: list[Estimate]
    weights: Array
    """Σ γ^t of the visits in an episode, (m,)."""
    values: Array
    """l_a(θ), (m, A)."""
    errors: Array
    """Their standard errors, (m, A)."""

    @property
    def losses(self) -> Array:
        """The expected loss by mistaking the best action, weighted by visits, (m,)."""
        best = self.values.argmax(axis=1)
        rows = np.arange(len(best))
        ahead = self.values[rows, best][:, None] - self.values
        error = np.sqrt(self.errors**2 + self.errors[rows, best][:, None] ** 2)
        z = ahead / np.maximum(error, 1e-300)
        expected = error * (np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) - z * _upper_tail(z))
        expected[rows, best] = 0.0
        return np.asarray(self.weights * expected.max(axis=1, initial=0.0))

    @property
    def outlying(self) -> Array:
        """By how many standard errors T1 or T3 is violated, (m,)."""
        scores = self.values / np.maximum(self.errors, 1e-300)
        return np.maximum(-scores.max(axis=1), scores.max(axis=1))


def _upper_tail(z: Array) -> Array:
    from scipy.special import ndtr

    return np.asarray(ndtr(-z))


class Closing:
    """Rounds of certified mode, each of which spends queries where they promise most."""

    def __init__(
        self, surveyor: Surveyor, evaluator: Evaluator, ledger: Ledger, bounds: Bounds, root: Estimate
    ) -> None:
        self.surveyor, self.evaluator, self.ledger, self.bounds, self.root = surveyor, evaluator, ledger, bounds, root
        self.queries, self.access, self.table, self.sol = surveyor.queries, surveyor.access, surveyor.table, surveyor.sol
        self.player = evaluator.player
        self.fitted: list[Estimate] = []
        """The states in the fit."""
        self.theta = np.concatenate([[1.0], np.zeros(self.access.dimension)])
        self.variance = 0.25 * max(self.surveyor.width(root.place.stage), 1e-9) ** 2
        """The average variance of a temporal difference."""
        low, high = self.access.reward_range
        self.rare = min(high - low, self.surveyor.width(root.place.stage)) ** 2
        """The square of the largest difference of rewards."""
        self.watched: dict[Estimate, Watched] = {}
        self.sum: Sum | None = None
        self.evaluation: Evaluation | None = None
        self.expected_loss = math.inf
        """Of the policy under evaluation, when it began."""
        self.visits: tuple[Mapping[Any, float], int] = {}, 1
        self.evidence = CaseEvidence(root)
        self.impossible = False
        """Whether no parameter agrees with the samples in any case: the features do not realize v*."""
        self.resting = 0.0
        """Queries spent until which another try is not worth its time."""

    @property
    def places(self) -> list[Place]:
        """The states that a bound by cases rests on."""
        return list(dict.fromkeys([self.root.place, *(e.place for e in self.watched)])) if self.sum else []

    @property
    def able(self) -> bool:
        """Whether a round is worth a try."""
        random = self.surveyor.width(self.root.place.stage) > 0
        return random and self.queries.spent >= self.resting

    def rest(self) -> None:
        """Leave the next queries to measurements of single states."""
        self.resting = max(WIDER * self.queries.spent, self.queries.spent + 1000)

    # ------------------------------------------------------------------ one round

    def advance(self) -> bool:
        """One round; False if it did not help."""
        before = self._known()
        done = self._round()
        now = self.evaluation
        while now is not None and self.evaluator.suspicious(now.visits) and not self.bounds.contradicted:
            self.evaluator.grow(now)
        return done and self._known() != before

    def _known(self) -> tuple[int, int, float, float]:
        """Numbers of which one changes in every useful round."""
        return self.queries.made, len(self.fitted), self.bounds.upper, self.bounds.lower

    def _round(self) -> bool:
        if not self.fitted:
            self._fill(self.root, FIRST)
            self.fitted.append(self.root)
            self._pilot()
        model = self._fit()
        if model is None:
            return False
        looked = self._look(*self._visits())
        if self._join(looked):
            return True
        value = float(self.root.phi @ self.theta[1:])
        best = model.bound(CERTAIN)
        if min(best.bound, self.bounds.upper) > value + UNEXPLORED * self.bounds.goal:
            return best.theta is not None and self._explore(best.theta)
        if not self._policy_is_good(looked, value):
            return True
        return self._grow(model, looked, value)

    def _policy_is_good(self, looked: Looked, value: float) -> bool:
        """Whether to go on with the policy under evaluation; otherwise something was done about it."""
        loss, goal, now = float(looked.losses.sum()), self.bounds.goal, self.evaluation
        if now is None or self._improved(now, value, loss):
            if loss > POLICY_LOSS * goal and self._sharpen(looked):
                if now is None:
                    self._pilot()
                return False
            self._evaluate(loss)
            return False
        lack, slack = value - now.visits.mean, now.visits.mean - now.lower
        worst = max(self.bounds.upper - value, slack)
        if len(now.visits.returns) >= 64 and lack - now.visits.error > max(0.3 * goal, worst) and loss > 0.03 * goal:
            if any([self._sharpen(looked) for _ in range(3)]):
                self._evaluate(loss)
                return False
        return True

    def _improved(self, now: Evaluation, value: float, loss: float) -> bool:
        """Whether a policy of the table as it is now promises much more than the one under evaluation."""
        gain = value - loss - now.visits.mean - now.visits.error
        return len(now.visits.returns) >= 32 and gain > 0.2 * self.bounds.goal and loss < 0.7 * self.expected_loss

    def _grow(self, model: Model, looked: Looked, value: float) -> bool:
        """More samples of the sum, or more episodes of the policy."""
        now = self.evaluation
        assert now is not None
        earned = self._earned(now, value, float(looked.losses.sum()))
        plan = self._aim(model, max(value, earned), earned, now)
        if plan is None:
            return self._double(self.fitted)
        target, accuracy = plan
        if self.bounds.upper > target and self._is_due():
            planned = model.cases(0.97 * accuracy, target)
            if len(planned) > MOST_CASES or (self.sum is not None and self._gap() > HELPED * self.sum.gap):
                self.sum = None
                return False
            if self._prepare(model, planned, target):
                return True
            self._grow_sum()
        running = self.sum
        gain = 0.0
        if running is not None and running.designed and self.bounds.upper > target:
            gain = (self.bounds.upper - value) / max(running.queries, 1)
        if max(now.visits.mean - now.lower, 0.0) / max(now.visits.queries, 1) >= gain:
            self.evaluator.grow(now)
        else:
            self._grow_sum()
        return True

    def _earned(self, now: Evaluation, value: float, loss: float) -> float:
        """The value of the policy: its mean return, and what the table says, as far as that mean is uncertain."""
        error, expected = max(now.visits.error, 1e-9), value - loss
        own, other = 1 / error**2, 1 / (0.25 * self.bounds.goal) ** 2
        return (own * now.visits.mean + other * expected) / (own + other)

    def _gap(self) -> float:
        return self.bounds.upper - self.bounds.lower

    def _is_due(self) -> bool:
        running = self.sum
        return running is None or running.states != len(self.fitted) or running.finished

    # ------------------------------------------------------------------ the fit

    def _fit(self) -> Model | None:
        """The model of the fitted parameter; None if nothing fits."""
        model = Model(
            self.root.phi,
            self.sol.radius,
            self.surveyor.excused,
            self._estimates(),
            self._ranges,
            self._enforce,
        )
        fitted = model.fit()
        if fitted is None or fitted[1] > SUSPICIOUS:
            return None
        self.kappa = fitted[1]
        self.theta = np.concatenate([[1.0], fitted[0]])
        seen = [e for e in self.table.estimates.values() if e.moments.n > 3]
        spreads = [self._spread(e, a) for e in seen for a in range(self.access.actions)]
        if spreads:
            self.variance = float(np.mean(spreads))
        model.agree_with(fitted[0])
        return model

    def _estimates(self) -> Estimates:
        deviations = np.sqrt([[self._variance(e, a) for a in range(self.access.actions)] for e in self.fitted])
        counts = np.array([e.moments.counts for e in self.fitted])
        return Estimates(
            np.array([e.moments.deltas(e.phi) for e in self.fitted]),
            deviations,
            deviations / np.sqrt(counts),
            np.array([self.surveyor.width(e.place.stage) for e in self.fitted]),
        )

    def _spread(self, estimate: Estimate, action: int) -> float:
        """The sample variance of a temporal difference under θ."""
        return max(float(self.theta @ estimate.moments.covariance(action) @ self.theta), 0.0)

    def _variance(self, estimate: Estimate, action: int) -> float:
        """The same, pooled with the average of all states, and with one reward at the other end of its range."""
        n = int(estimate.moments.counts[action])
        own = n * self._spread(estimate, action) if n > 1 else 0.0
        return (own + POOLED * self.variance + self.rare) / (n + POOLED)

    def _ranges(self) -> tuple[Array, Array]:
        """T2 of all states in Sol, as rows."""
        ranged = [e for e in self.table.estimates.values() if e.ranged]
        ends = np.array([self.surveyor.range(e.place.stage) for e in ranged]).reshape(-1, 2)
        phis = np.array([e.phi for e in ranged]).reshape(-1, self.sol.dimension)
        normals, sides = np.concatenate([phis, -phis]), np.concatenate([ends[:, 1], -ends[:, 0]]) + self.sol.eta
        finite = np.isfinite(sides)
        return normals[finite], sides[finite]

    def _enforce(self, theta: Array) -> bool:
        """Add the ranges of values that θ violates most; whether there were any."""
        return bool(self.surveyor.enforce_ranges(theta))

    def _look(self, weights: Mapping[Any, float], episodes: int) -> Looked:
        """The visited states that have samples."""
        known = [(self.table.estimates[key], weight) for key, weight in weights.items()]
        some = [(e, weight / episodes) for e, weight in known if e.moments.n >= 2 and e.node is not None]
        estimates = [e for e, _ in some]
        shape = (len(some), self.access.actions)
        values = np.array([e.moments.deltas(e.phi) @ self.theta for e in estimates]).reshape(shape)
        variances = np.array([[self._variance(e, a) for a in range(shape[1])] for e in estimates]).reshape(shape)
        counts = np.array([e.moments.counts for e in estimates]).reshape(shape)
        return Looked(estimates, np.array([w for _, w in some]), values, np.sqrt(variances / np.maximum(counts, 1)))

    def _join(self, looked: Looked) -> bool:
        """Add the states that the fit misses most to it; whether there were any."""
        inside = set(self.fitted)
        scores = looked.outlying
        order = np.argsort(-scores)
        least = max(OUTLIER, 1.5 * self.kappa)
        found = [looked.estimates[i] for i in order if scores[i] > least and looked.estimates[i] not in inside]
        self.fitted += found[: self.access.dimension]
        return bool(found)

    # ------------------------------------------------------------------ samples for the table

    def _sample(self, estimate: Estimate, action: int, n: int) -> None:
        """Fresh samples of one action, for the table and for whatever bets on them."""
        assert estimate.node is not None
        self._count(estimate, self.queries.moments_of(estimate.node, action, n))

    def _count(self, estimate: Estimate, moments: Moments) -> None:
        estimate.moments.add(moments)
        watched = self.watched.get(estimate)
        if watched is not None:
            watched.tally.add(moments)
        if self.sum is not None:
            for action in np.flatnonzero(moments.counts).tolist():
                tally = self.sum.tallies.get((estimate, action))
                if tally is not None:
                    tally.add(moments)

    def _fill(self, estimate: Estimate, n: int) -> None:
        """Samples of every action until each has n of them."""
        if estimate.node is None:
            return
        counts = estimate.moments.counts
        if counts.max() == counts.min():
            if counts[0] < n:
                self._count(estimate, self.queries.moments(estimate.node, n - int(counts[0])))
            return
        for action in range(self.access.actions):
            if counts[action] < n:
                self._sample(estimate, action, n - int(counts[action]))

    def _sharpen(self, looked: Looked) -> bool:
        """Twice the samples at the states that account for half of the expected loss, if that is affordable."""
        losses = looked.losses
        order = np.argsort(-losses)
        enough = int(np.searchsorted(np.cumsum(losses[order]), losses.sum() / 2)) + 1
        return self._double([looked.estimates[i] for i in order[:enough]])

    def _double(self, estimates: Sequence[Estimate]) -> bool:
        """Twice the samples of some states; False if that takes too many queries."""
        price = sum(int(np.maximum(2 * e.moments.n - e.moments.counts, 0).sum()) for e in estimates)
        if not 0 < price <= REFINED * self.queries.spent:
            return False
        for estimate in estimates:
            self._fill(estimate, 2 * estimate.moments.n)
        return True

    def _pilot(self, theta: Array | None = None) -> Visits:
        """Episodes of the policy of θ that put every state they meet into the table; until few states are new."""
        played = 0
        while True:
            visits, met = Visits(), len(self.table.estimates)
            self.player.play(self._learning(self.theta if theta is None else theta), EPISODES, visits)
            self.table.learn(visits)
            played += EPISODES
            new = len(self.table.estimates) - met
            steps = math.fsum(1.0 for _ in visits.path) * EPISODES
            if theta is not None or new < UNSEEN * max(steps, 1.0) or played >= PILOTED:
                break
        if theta is None:
            self.visits = visits.weights, EPISODES
        return visits

    def _learning(self, theta: Array) -> Candidate:
        """The policy of θ that samples a state when it is first met."""
        chosen: dict[Any, int] = {}

        def known(node: Node) -> int:
            key = key_of(node)
            action = chosen.get(key)
            if action is None:
                estimate = self.table.at(node, key)
                self._fill(estimate, FIRST)
                action = chosen[key] = int(np.argmax(estimate.moments.deltas(estimate.phi) @ theta))
            return action

        return Candidate("pilot", known)

    def _visits(self) -> tuple[Mapping[Any, float], int]:
        """Visits of the policy under evaluation, or of the last pilot run, and their episodes."""
        now = self.evaluation
        if now is not None and len(now.visits.returns) >= 2 * EPISODES:
            return now.visits.weights, len(now.visits.returns)
        return self.visits

    def _explore(self, theta: Array) -> bool:
        """Episodes of an optimistic policy; the states that contradict its parameter join the fit."""
        optimistic = np.concatenate([[1.0], theta])
        visits = self._pilot(optimistic)
        before, self.theta = self.theta, optimistic
        looked = self._look(visits.weights, EPISODES)
        self.theta = before
        violation = -looked.values.max(axis=1, initial=-math.inf)
        score = violation / np.maximum(looked.errors.max(axis=1, initial=0.0), 1e-300)
        worth = looked.weights * violation * np.minimum(1.0, score / 2)
        inside = set(self.fitted)
        order = [i for i in np.argsort(-worth).tolist() if violation[i] > 0 and looked.estimates[i] not in inside]
        if not order:
            return self._adopt(theta, visits) or self._double(self._uncertain(looked)) or self._double(self.fitted)
        for i in order[: self.access.dimension]:
            if score[i] < 2:
                self._fill(looked.estimates[i], 4 * looked.estimates[i].moments.n)
            self.fitted.append(looked.estimates[i])
        return True

    def _adopt(self, theta: Array, visits: Visits) -> bool:
        """Evaluate an optimistic policy whose episodes earn what its parameter promises."""
        promised = float(self.root.phi @ theta)
        if visits.mean + 2 * visits.error < promised - UNEXPLORED * self.bounds.goal or self.evaluation is not None:
            return False
        self.theta = np.concatenate([[1.0], theta])
        self.visits = visits.weights, EPISODES
        self._evaluate(0.0)
        return True

    def _uncertain(self, looked: Looked) -> list[Estimate]:
        """The visited states that account for half of the uncertainty."""
        shares = looked.weights * looked.errors.max(axis=1, initial=0.0)
        order = np.argsort(-shares)
        enough = int(np.searchsorted(np.cumsum(shares[order]), shares.sum() / 2)) + 1
        return [looked.estimates[i] for i in order[:enough]]

    # ------------------------------------------------------------------ the policy

    def _evaluate(self, loss: float) -> None:
        """Begin to evaluate the policy of the fit."""
        candidate = self.evaluator.freeze(self.theta, FIRST, UNSEEN_SAMPLES)
        self.evaluation, self.expected_loss = self.evaluator.begin(candidate), loss
        for _ in range(3):
            self.evaluator.grow(self.evaluation)

    # ------------------------------------------------------------------ the design

    def _aim(self, model: Model, value: float, earned: float, now: Evaluation) -> tuple[float, float] | None:
        """The upper bound to aim at, and the accuracy that it takes; the goal is widened until that is affordable."""
        goal, returns = self.bounds.goal, now.visits
        each = returns.queries / len(returns.returns)
        spread = max(float(np.std(returns.returns)), 1e-3 * goal)
        lower_log, upper_log = math.log(1 / now.share) + 1, math.log(1 / self.ledger.next("sum")) + 1
        accuracies: dict[float, float | None] = {}
        while True:
            best: tuple[float, float, float] | None = None
            for part in PARTS:
                target = value + part * goal
                slack = max(earned - (target - goal), 0.05 * goal)
                cost = max(3 * each * lower_log * (spread / slack) ** 2 - returns.queries, 0.0)
                accuracy: float | None = 1.0
                if self.bounds.upper > target:
                    accuracy = accuracies.setdefault(target, model.accuracy(target))
                    if accuracy is None:
                        continue
                    cost += 4 * upper_log / accuracy**2
                if best is None or cost < best[0]:
                    best = cost, target, accuracy
            if best is not None and best[0] <= AFFORDABLE * self.queries.spent:
                return best[1:]
            goal *= WIDER
            if goal > self.bounds.high - self.bounds.low:
                return None if best is None else best[1:]

    def _prepare(self, model: Model, planned: Sequence[PlannedCase], target: float) -> bool:
        """Draw samples that the weights of a sum rest on; False if there are enough, and the sum has begun."""
        log = math.log(1 / self.ledger.next("sum")) + 1
        needed: dict[tuple[int, int], float] = {}
        for case in planned:
            sizes = {pair: abs(w) * model.radius_of(pair, case.accuracy) for pair, w in case.weights.items()}
            for pair, size in sizes.items():
                n = 2 * log / case.accuracy**2 * size / math.fsum(sizes.values())
                needed[pair] = max(needed.get(pair, LEAST), n)
        designed = {(self.fitted[i], a): n for (i, a), n in needed.items()}
        total, known = math.fsum(designed.values()), sum(int(e.moments.counts[a]) for e, a in designed)
        short = [pair for pair, n in designed.items() if pair[0].moments.counts[pair[1]] < DETAIL * n]
        if any(e.node is None for e, _ in designed):
            return False
        for estimate, action in short:
            n, have = designed[estimate, action], int(estimate.moments.counts[action])
            self._sample(estimate, action, math.ceil(min(DETAIL * n, have + max(known, 1000) * n / total)) - have)
        if not short:
            self._begin_sum(model, planned, designed, target)
        return bool(short)

    # ------------------------------------------------------------------ the sum

    def _begin_sum(
        self,
        model: Model,
        planned: Sequence[PlannedCase],
        designed: dict[tuple[Estimate, int], float],
        target: float,
    ) -> None:
        """Fix the weights of the sums, and put their states under watch."""
        number, share = self.ledger.take("sum")
        indices = {i for case in planned for i in case.choices} | {i for case in planned for i, _ in case.weights}
        for i in sorted(indices):
            self._watch(self.fitted[i], model.estimates.deviations[i], designed)
        actions, dimension = self.access.actions, self.access.dimension
        tallies = {pair: Moments(actions, dimension) for pair in designed}
        cases = []
        for case in planned:
            choices = {self.watched[self.fitted[i]]: a for i, a in case.choices.items()}
            terms, variance = [], 0.0
            for (i, a), w in case.weights.items():
                estimate = self.fitted[i]
                n = designed[estimate, a]
                variance += w**2 * model.estimates.deviations[i, a] ** 2 / n
                width = self.surveyor.width(estimate.place.stage)
                terms.append(term(estimate, a, w / n, width, self.surveyor.excused, tallies[estimate, a]))
            bet = Bet(terms, share, planned_bet(share, variance)) if terms else None
            cases.append(Case(choices, bet))
        self.sum = Sum(number, cases, tallies, designed, target, self._gap(), len(self.fitted))

    def _watch(self, estimate: Estimate, deviations: Array, designed: Mapping[tuple[Estimate, int], float]) -> None:
        if estimate not in self.watched:
            number, share = self.ledger.take("watch")
            actions = range(self.access.actions)
            planned = np.array([designed.get((estimate, a), LEAST) * deviations[a] ** 2 for a in actions])
            width = self.surveyor.width(estimate.place.stage)
            self.watched[estimate] = Watched.begin(estimate, number, share, width, self.surveyor.excused, planned)

    def _grow_sum(self) -> None:
        """More samples of every term, and the upper bound that they prove."""
        running, before = self.sum, self.queries.spent
        assert running is not None
        share = running.done + (0.5 if running.done < 1 else 0.3 * running.done)
        for (estimate, action), n in running.designed.items():
            more = math.ceil(n * share) - int(running.tallies[estimate, action].counts[action])
            if more > 0:
                self._sample(estimate, action, more)
        for estimate, watched in self.watched.items():
            for action in range(self.access.actions):
                more = LEAST - int(watched.tally.counts[action])
                if more > 0 and estimate.node is not None:
                    self._sample(estimate, action, more)
        running.done = share
        running.queries += self.queries.spent - before
        self._prove(running)

    def _prove(self, running: Sum) -> None:
        rows = self._rows()
        most = max(rows.bound(case, self.root.phi).value for case in running.cases)
        self.impossible = most == -math.inf
        most = max(most, -1 - self.sol.radius)  # less than any θ in the ball attains
        running.upper = most + self.sol.eta
        if running.upper < self.bounds.upper:
            self.bounds.upper = running.upper
            self.evidence.keep(rows, running.cases, running.number)
            self.sol.capped(self.root.place, self.root.phi, most, self.evidence)

    def _rows(self) -> CaseRows:
        """The rows that hold in every case."""
        ranged = [(e, *self.surveyor.range(e.place.stage)) for e in self.table.estimates.values() if e.ranged]
        least = self.bounds.lower - self.bounds.rounding
        earned = (self.root, least) if least > self.bounds.low else None
        ready = [w for w in self.watched.values() if w.tally.n > 0]
        return CaseRows(ranged, earned, ready, self.sol.radius, self.sol.eta)
