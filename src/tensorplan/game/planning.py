"""The converse reduction: players of the abstract game as planners of the hard MDPs, under global access.

A query w_1, .., w_L of the game, L < K, is one query of the simulator: at the last step of round L-1, with the action
that completes the weights w_L.  The MDP continues unless w_{L-1} is close to w*, case (1), or w_L is, case (2); at most
two more queries tell the cases apart.  So the planner makes as many queries as the player, plus at most two for each
nonzero reply, and w* determines the optimal policy.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from tensorplan.access.everywhere import GlobalAccess
from tensorplan.core import END, Node
from tensorplan.core.errors import BadInput, Refused
from tensorplan.core.specs import lookup
from tensorplan.game.game import Answer, Answers, Hit
from tensorplan.game.packed import Words, unpack
from tensorplan.game.search import STRATEGIES
from tensorplan.problems.hard.hypercube import distance, is_close
from tensorplan.problems.hard.tree import HardState, HardTree


class SimulatedGame:
    """The game, simulated by a hard MDP; V is reported only if U = 0, which suffices for all players."""

    def __init__(self, access: GlobalAccess) -> None:
        self.access = access
        self.p, self.K = access.actions, (access.horizon or 0) // access.actions
        self.tree = HardTree(self.p, self.K)

    def query(self, sequence: Iterable[int]) -> Answer:
        """The reply to one query of fewer than K weights; Z is the reward."""
        path = list(sequence)
        ended, reward = self._simulate(path)
        if not ended:
            return Answer(0, 0, 0)
        if len(path) > 1 and self._close(path[-2]):
            return Answer(1, 0, 0)
        return Answer(0, 1, int(reward))

    def query_batch(self, words: Words, stop: bool = False) -> Answers:
        """The replies to many queries, one by one."""
        replies = []
        for at in range(words.shape[2]):
            replies.append(self.query([unpack(w[:, at]) for w in words]))
            if stop and (replies[-1].U or replies[-1].V):
                break
        U, V, Z = np.array(replies, dtype=np.bool_).reshape(-1, 3).T
        return Answers(U, V, Z)

    def search(self, words: Words) -> Hit | None:
        """The first of many queries of one length with a close weight among its last two."""
        answers = self.query_batch(words, stop=True)
        if not len(answers.U) or not (answers.U[-1] or answers.V[-1]):
            return None
        return Hit(len(answers.U) - 1, Answer(*(int(x[-1]) for x in answers)))

    def _close(self, w: int) -> bool:
        """Whether w is close to w*, as a first weight if that is legal, else after -w, unless that is close itself."""
        if not is_close(w.bit_count(), self.p):
            return self._simulate([w])[0]
        negative = w ^ ((1 << self.p) - 1)
        return not self._simulate([negative])[0] and self._simulate([negative, w])[0]

    def _simulate(self, path: list[int]) -> tuple[bool, float]:
        """Whether the MDP ends after the rounds of the path, and the reward."""
        if not 1 <= len(path) < self.K:
            raise BadInput(f"a query has from 1 to K - 1 = {self.K - 1} weight vectors, got {len(path)}")
        state, action = self.last_step(path)
        (outcome,) = self.access.query(self.access.node(state, len(path) * self.p - 1), action)
        return outcome.next is END, outcome.reward

    def last_step(self, path: list[int]) -> tuple[HardState, int]:
        """The state one step before the last round of the path ends, and the action that ends it."""
        weights = [0, *path]
        prefix = 1.0
        for u, v in pairwise(weights[:-1]):
            prefix *= self.tree.g[distance(u, v)]
        last, goal = weights[-2:]
        flips, full = last ^ goal, (1 << self.p) - 1
        bit = flips & -flips
        if flips == full:  # all components flip, the lowest one last
            return HardState(len(path) - 1, self.p - 1, last, goal ^ bit, full ^ bit, prefix), bit.bit_length() - 1
        fixed = flips if flips.bit_count() == self.p - 1 else full  # the round is frozen already, or by this action
        return HardState(len(path) - 1, self.p - 1, last, goal, fixed, prefix), bit.bit_length() - 1


@dataclass(frozen=True, kw_only=True)
class GuessPlanner:
    """A strategy of the abstract game (see :data:`tensorplan.game.STRATEGIES`) as a planner of the hard MDPs."""

    strategy: str = "best"
    about: ClassVar[str] = "guesses the secret of a hard MDP under global access"
    access: ClassVar[str] = "global"

    def __post_init__(self) -> None:
        lookup("strategy", self.strategy, STRATEGIES)

    def begin(self, access: GlobalAccess, rng: np.random.Generator) -> Rounds:
        """Play the strategy, and return the policy for the weights it outputs."""
        if not isinstance(access.root.key, HardState):
            raise Refused(f"guessing is for the hard MDPs, and problem {access.problem_name!r} is not one of them")
        game = SimulatedGame(access)
        if game.K < 3:
            raise Refused(f"guessing under global access needs K >= 3 rounds, and {access.problem_name!r} has {game.K}")
        return Rounds([int(w) for w in STRATEGIES[self.strategy](game, rng)])


@dataclass(frozen=True)
class Rounds:
    """The policy that ends round k with the k-th weights, as π_{w*} with w*; later rounds alternate the last two."""

    goals: list[int]

    def act(self, node: Node) -> int:
        """Flip the first free component that is wrong; if there is none, freeze the round."""
        state: Any = node.key
        over = max(0, state.round - len(self.goals) + 1)
        goal = self.goals[state.round - over - over % 2]
        candidates = (state.weights ^ goal) & ~state.fixed or state.fixed
        return int((candidates & -candidates).bit_length()) - 1
