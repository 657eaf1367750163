"""Where a gap comes from: the stages and states whose temporal differences add most to it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from tensorplan.core.errors import shown
from tensorplan.hindsight.scenario import Scenario, ScenarioStep

Sums = tuple[defaultdict[Any, float], defaultdict[Any, float]]
"""Along the best path in hindsight, and along that of the policy."""


class Share(NamedTuple):
    """A part of the mean gap."""

    hindsight: float
    """Along the best path in hindsight, where V is too low or the noise is lucky."""
    policy: float
    """Along the policy's path, where its actions are worse than V promises, or V is too high."""

    @property
    def total(self) -> float:
        """Both together."""
        return self.hindsight + self.policy


class Blame:
    """Sums of temporal differences over scenarios, by stage and by state."""

    def __init__(self) -> None:
        self.scenarios = 0
        self._stages: Sums = (defaultdict(float), defaultdict(float))
        self._states: Sums = (defaultdict(float), defaultdict(float))

    def add(self, scenario: Scenario) -> None:
        """Count a scenario."""
        self.scenarios += 1
        for side, (path, sign) in enumerate(((scenario.path, 1.0), (scenario.policy_path, -1.0))):
            for step in path:
                self._stages[side][step.stage] += sign * step.residual
                self._states[side][_place(step)] += sign * step.residual
            if scenario.stages is not None:
                for stage, residual in enumerate(scenario.stages[side].tolist()):
                    self._stages[side][stage] += sign * residual

    def stages(self) -> dict[int, Share]:
        """The share of each stage in the mean gap."""
        return {stage: self._share(self._stages, stage) for stage in sorted({*self._stages[0], *self._stages[1]})}

    def states(self, count: int = 5) -> list[tuple[str, Share]]:
        """The states with the largest shares, as (description, share)."""
        places = {*self._states[0], *self._states[1]}
        ranked = sorted(places, key=lambda place: -self._share(self._states, place).total)
        return [
            (f"{state}, stage {stage}", self._share(self._states, (state, stage))) for state, stage in ranked[:count]
        ]

    def places(self, count: int) -> list[tuple[str, Share]]:
        """The states with the largest shares, or the stages where states are not kept."""
        stages = sorted(self.stages().items(), key=lambda item: -item[1].total)
        return self.states(count) or [(f"stage {stage}", share) for stage, share in stages[:count]]

    def _share(self, sums: Sums, key: Any) -> Share:
        return Share(sums[0].get(key, 0.0) / self.scenarios, sums[1].get(key, 0.0) / self.scenarios)


def _place(step: ScenarioStep) -> tuple[str, int]:
    return shown(step.state), step.stage
