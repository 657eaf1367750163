"""Attempts to refute a bracket before it is called certified, by policies that make no use of features.

An upper bound on v*(s0) rests on what the features can express; a policy that earns more refutes it.  So a share of the
queries goes into finding one: episodes that try what is not known yet, then the best policy by all that was seen, UCT,
and random play.  What survives is called certified, and whatever ends a planning, the best policy by its lower bound
acts: it is never worse than random.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tensorplan.core import END, Access, Node
from tensorplan.core.errors import BadInput
from tensorplan.planners.baselines.uct import UCT, SearchTree
from tensorplan.planners.evidence.evaluation import RANDOM, Candidate, EpisodePlayer, Visits
from tensorplan.planners.evidence.experience import Experience
from tensorplan.planners.evidence.place import Place
from tensorplan.planners.evidence.queries import Queries
from tensorplan.problems.simulate import contradiction

ATTACK = 0.1
"""The share of the queries spent so far that goes into an attack on a certificate."""

DOUBTED = 1.0
"""The same where there is a reason to doubt it."""

SCRUTINISED = 0.15
"""The share of them that challenge and checks may take together where nothing is random, and nothing doubtful."""

RECHECKED = 0.1
"""The share of the answers along a path that are asked again."""

RANDOM_STEPS = 0.1
"""How often exploring episodes take a random action."""

STALE = 20
"""Exploring episodes in a row that ask nothing new, after which all is known that can be found this way."""

SCRUTINY = 5
"""How often each answer along a path is asked again where the simulator drew random numbers, although it is declared
deterministic: a reward of 1 with probability 0.9 is then taken for certain on one of 14 paths of 5 steps."""

PILOT = 32
"""Episodes that show what a policy may be worth."""

ROUNDS = 32
"""Episodes' worth of queries that an attack may take at least, where no reward has been seen."""


class Explorer:
    """Plays episodes that try what is not known yet; what they see is remembered by the queries."""

    def __init__(self, queries: Queries, steps: int, rng: np.random.Generator, upper: float) -> None:
        self.queries, self.experience, self.steps, self.rng = queries, queries.experience, steps, rng
        self.prize = upper + max(map(abs, queries.access.reward_range))
        """What an action that was never tried may be worth: more than the bound that is to be refuted."""
        self._choices: Callable[[Node], int | None] = lambda node: None
        self._replan = 0

    def explore(self, until: float, visit: Callable[[Node, int, float, Any], None] | None = None) -> None:
        """Episodes until so many queries are spent in all, or nothing new is asked any more."""
        stale = 0
        while self.queries.spent < until and stale < STALE:
            before = self.queries.spent
            if stale or self.experience.size >= self._replan:
                self._choices = self.experience.curious(self.prize)
                self._replan = max(self.experience.size + 1, int(1.1 * self.experience.size))
            self._episode(until, visit)
            stale = stale + 1 if self.queries.spent == before else 0

    def _episode(self, until: float, visit: Callable[[Node, int, float, Any], None] | None) -> None:
        node: Any = self.queries.access.root
        for _ in range(self.steps):
            if self.queries.spent >= until:
                return
            action = None if self.rng.random() < RANDOM_STEPS else self._choices(node)
            if action is None:
                action = int(self.rng.integers(self.queries.access.actions))
            reward, following = self.queries.step(node, action)
            if visit is not None:
                visit(node, action, reward, following)
            if following is END:
                return
            node = following


def find_rival(
    player: EpisodePlayer, end: float, upper: float, visit: Callable[[Node, int, float, Any], None] | None = None
) -> tuple[Candidate, Visits]:
    """The most promising policy that makes no use of features, with a few of its episodes.

    It takes about two thirds of the queries up to ``end``: what is left is for its evaluation.
    """
    queries, spent = player.queries, player.queries.spent
    Explorer(queries, player.steps, player.rng, upper).explore(spent + (end - spent) / 3, visit)
    rivals = candidates(player, queries.experience, (end - spent) / 10)
    episodes = max(1, min(PILOT, int((end - queries.spent) / (2 * len(rivals) * player.steps))))
    piloted = []
    for rival in rivals:
        visits = Visits()
        player.play(rival, episodes, visits)
        piloted.append((rival, visits))
    return max(piloted, key=lambda pair: pair[1].mean)


def candidates(player: EpisodePlayer, experience: Experience, queries: float) -> list[Candidate]:
    """Policies without features: random play, the best one by experience, and UCT with so many queries."""
    found = [RANDOM]
    if experience.size:
        found.append(Candidate("model", experience.greedy()))
    tree = uct(player, queries)
    if tree is not None:
        found.append(tree)
    return found


def uct(player: EpisodePlayer, queries: float) -> Candidate | None:
    """The policy of a UCT tree that has grown for so many queries; None where it cannot tell states apart."""
    access, depth = player.access, player.access.horizon or player.steps
    simulations = int(min(queries, player.queries.room) / depth)
    if access.root.key is None or not simulations:
        return None
    tree = SearchTree(access, UCT(depth=depth), player.rng)
    try:
        tree.grow(access.root, simulations)
    except BadInput:  # a state that cannot be hashed
        return None
    return Candidate("uct", tree.choices())


class PathStep(NamedTuple):
    """One step of a path where nothing is random."""

    node: Node
    action: int
    reward: float
    following: Any
    """The next node, or END."""


def path_allowance(queries: Queries, steps: int, checks: int, *, doubted: bool, hopeless: bool) -> int:
    """Queries that an attack may take where nothing is random, and so many answers are asked again after it.

    ``hopeless``: features are of no use, so that the attack is the only way to find a good path.
    """
    spent = queries.spent
    usual = min(ATTACK * spent, SCRUTINISED * spent - checks)
    allowance = max(1.0, DOUBTED * spent if doubted else usual)
    return int(max(allowance, ROUNDS * steps) if hopeless or not queries.experience.paid else allowance)


def find_path(queries: Queries, steps: int, rng: np.random.Generator, end: float, upper: float) -> list[PathStep]:
    """The best path by all that was seen, after exploring up to ``end`` queries, where nothing is random."""
    Explorer(queries, steps, rng, upper).explore(end)
    choices = queries.experience.greedy()
    path: list[PathStep] = []
    node: Any = queries.access.root
    while node is not END and len(path) < steps:
        action = choices(node)
        if action is None:
            break
        path.append(PathStep(node, action, *queries.step(node, action)))
        node = path[-1].following
    return path


def recheck(access: Access, path: Sequence[PathStep], share: float, rng: np.random.Generator) -> None:
    """Ask some of the answers along a path again; one that has changed is an error."""
    for i, times in to_recheck(access, len(path), share, rng):
        for _ in range(times):
            compare(path[i], *access.recheck(path[i].node, path[i].action))


def to_recheck(access: Access, length: int, share: float, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    """Which answers along a path to ask again, past any cache, and how often each.

    A share of them, once; where the simulator has drawn random numbers, all of them, several times.
    """
    count = length if access.drew else math.ceil(share * length)
    for i in sorted(rng.choice(length, size=count, replace=False).tolist()) if count else []:
        yield i, SCRUTINY if access.drew else 1


def compare(step: PathStep, reward: float, node: Any) -> None:
    """Raise where an answer is not the one that a path was made of."""
    same = _same(step.following, node)
    refuse_unless_same(Place.of(step.node), step.action, (step.reward, step.following), (reward, node), same)


def refuse_unless_same(
    place: Place, action: int, before: tuple[float, Any], now: tuple[float, Any], same: bool
) -> None:
    """Raise where the reward of an answer has changed, or its next state is not the same."""
    if now[0] != before[0]:
        raise contradiction(place.state, place.stage, action, "reward", before[0], now[0])
    if not same:
        raise contradiction(place.state, place.stage, action, "transition", before[1], now[1])


def _same(one: Any, other: Any) -> bool:
    """Whether two nodes, or END, are of one state; by their features, where states cannot be hashed."""
    if one is END or other is END:
        return one is other
    if one.key is not None or other.key is not None:
        return bool(one.stage == other.stage and one.key == other.key)
    return bool(np.array_equal(one.phi_q, other.phi_q))


# ------------------------------------------------------------------------------------------- reasons to doubt


def unseen(access: Access, experience: Experience) -> bool:
    """Whether no reward other than zero was ever seen, where there might be some."""
    return not experience.paid and access.reward_range != (0.0, 0.0)


def random_after_all(access: Access) -> bool:
    """Whether a simulator that is declared deterministic drew random numbers."""
    return access.deterministic_transitions and access.deterministic_rewards and access.drew


def inconclusive(access: Access, experience: Experience) -> bool:
    """Whether there is a doubt with which a gap that has closed proves nothing."""
    return unseen(access, experience) or random_after_all(access)


def doubts(access: Access, experience: Experience) -> list[str]:
    """Reasons to doubt a bracket, and mostly that the features realize v*, in words."""
    found = []
    if random_after_all(access):
        found.append("the simulator draws random numbers, although the problem is declared deterministic")
    if unseen(access, experience):
        found.append("no reward other than zero was ever seen")
    if experience.timeless:
        found.append(
            f"the features ignore the time, and episodes end after {access.horizon} steps: v* usually depends on how "
            "many are left"
        )
    if access.clipped:
        found.append("observations were clipped to the frame of the features, which do not tell such states apart")
    return found
