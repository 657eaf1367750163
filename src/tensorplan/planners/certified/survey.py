"""The survey: measure states of the table that exclude an optimistic parameter, at the least price.

θ is excluded at a state by T3, if all l_a(θ) are negative, or by T1, if one is positive; the samples that prove it grow
with the inverse square of these values.  Measured are the states that cut deepest into Sol per sample: at a state with
little noise, or with a short range of returns ahead, that may be a hundred times cheaper than where the policy of θ
goes wrong.  Bounds do not depend on which states are measured.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tensorplan.core import Array
from tensorplan.planners.certified.fit import FittedTheta, TableView
from tensorplan.planners.certified.measuring import Measurements

SHARPNESS = 2.0
"""A value is measured until it is this many radii."""

DOUBT = 0.5
"""By how many standard errors values are reduced, since the largest of many noisy ones are too large."""

RARE = 0.7
"""Rare values cost about so many times W ln(1/α) / radius samples."""

CLOSE_SECOND = 8
"""States that score less than the best one by more than this factor wait for another round."""

FIRST_SAMPLES, GROWTH = 64, 4
"""The most samples in the first batch of a pair, and by how much a later one may add to those that it has."""

ANEW = 1.5
"""A pair that was measured before gets so many times its samples, at least."""

NEGLIGIBLE = 1e-12
"""The least length of a gradient."""


class Choice(NamedTuple):
    """A state that could be measured."""

    score: float
    """The depth of its cut per sample."""
    number: int
    """In the view."""
    samples: Array
    """Of each action, in all, (A,)."""


class Surveyor:
    """Measures states in one episode; values below ``least`` are negligible."""

    def __init__(self, measurements: Measurements, least: float) -> None:
        self.measurements, self.table, self.least = measurements, measurements.table, least

    def exclude(self, one: Array, view: TableView, fit: FittedTheta, most: float = math.inf) -> bool:
        """Measure the best states, of those that take at most so many samples; False if there are none."""
        choices = sorted(self._choices(one, view, fit, most), key=lambda choice: -choice.score)
        few = max(2, len(one[1:]) // 2)
        taken = False
        for choice in choices[:few]:
            if choice.score < choices[0].score / CLOSE_SECOND:
                break
            estimate = view.estimates[choice.number]
            state = self.measurements.measured.get(estimate)
            if state is None:
                targets = np.maximum(np.abs(estimate.values(one)) / SHARPNESS, NEGLIGIBLE)
                state = self.measurements.begin(estimate, targets)
            room = np.maximum(GROWTH * estimate.moments.counts, FIRST_SAMPLES)
            missing = np.ceil(np.minimum(choice.samples, room)) - state.counts
            if (missing > 0).any():
                self.table.draw(estimate, [max(0, int(n)) for n in missing])
                taken = True
        return taken

    def _choices(self, one: Array, view: TableView, fit: FittedTheta, most: float) -> list[Choice]:
        """The states that θ violates, where they can be queried."""
        values, excused = view.deltas @ one, self.measurements.sol.step * self.measurements.sol.eta
        doubt = DOUBT * np.sqrt(fit.variances / view.counts)
        steep = np.maximum(np.linalg.norm(view.deltas[:, :, 1:], axis=2), NEGLIGIBLE)
        below, above = -(values + doubt) - excused, (values - doubt) - excused
        found = []
        for number in np.flatnonzero((below.min(axis=1) > self.least) | (above.max(axis=1) > self.least)).tolist():
            estimate = view.estimates[number]
            if estimate.node is None:
                continue
            state = self.measurements.measured.get(estimate)
            shares = self.measurements.ledger.next("rows") / (view.counts.shape[1] + 1)
            log = math.log(1 / (shares if state is None else state.bets[0].share)) + 2
            drawn = np.zeros(view.counts.shape[1]) if state is None else state.counts
            if below[number].min() > self.least:
                sizes, which = below[number], np.arange(len(drawn))
            else:
                which = above[number].argmax(keepdims=True)
                sizes = above[number, which]
            depth = float(np.min(sizes / steep[number, which]))
            samples = np.zeros_like(drawn)
            enough = self._samples(sizes, fit.variances[number, which], estimate.width, log)
            samples[which] = np.maximum(enough, ANEW * drawn[which])  # what it has did not exclude θ
            price = float(np.maximum(samples - drawn, 0.0).sum())
            if 0 < price <= most:
                found.append(Choice(depth / price, number, samples))
        return found

    @staticmethod
    def _samples(sizes: Array, variances: Array, width: float, log: float) -> Array:
        """Samples that measure values to the sharpness."""
        radii = sizes / SHARPNESS
        return np.maximum(2 * log * variances / radii**2 + RARE * log * width / radii, 1.0)
