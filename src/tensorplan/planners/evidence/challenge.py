"""Attempts to refute a bracket before it is called certified, by policies that ignore features.

An upper bound on v*(s0) assumes that the features realize v*; a policy that earns more refutes it.  So a share of the
queries is spent on finding one: exploring episodes, then the best policy for the transitions seen, UCT, and random
actions.  A bracket that survives is called certified, and however planning ends, the policy with the best lower bound
acts, which is no worse than random.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tensorplan.core import END, Access, Array, Node
from tensorplan.core.errors import BadInput
from tensorplan.planners.baselines.uct import UCT, Tree
from tensorplan.planners.evidence.evaluation import RANDOM, Candidate, EpisodePlayer, Visits
from tensorplan.planners.evidence.experience import Experience
from tensorplan.planners.evidence.place import Place
from tensorplan.planners.evidence.queries import Queries
from tensorplan.problems.simulate import contradiction

ATTACK = 0.1
"""The queries of a challenge, as a share of those spent so far."""

DOUBTED = 1.0
"""The same if there is a reason to doubt the bracket."""

SCRUTINISED = 0.15
"""The same for challenge and rechecks together, in a deterministic problem without doubts."""

RECHECKED = 0.1
"""The share of the steps of a path that are queried again."""

RANDOM_STEPS = 0.1
"""The probability of a random action in an exploring episode."""

STALE = 20
"""Exploring episodes in a row without a charged query, after which exploration ends."""

SCRUTINY = 5
"""How often each step of a path is queried again if the simulator drew random numbers, although it is declared
deterministic: a reward of 1 with probability 0.9 then passes for certain on one of 14 paths of 5 steps."""

PILOT = 32
"""Episodes of a pilot run, which estimates the value of a policy."""

ROUNDS = 32
"""Episodes that a challenge may take at least, if no reward has been seen."""

DRAWS = "the simulator draws random numbers, although the problem is declared deterministic"
"""The reason to doubt a bracket on such a problem."""


class Explorer:
    """Plays episodes that try unknown actions; ``queries`` records what they see."""

    def __init__(self, queries: Queries, steps: int, rng: np.random.Generator, upper: float) -> None:
        self.queries, self.experience, self.steps, self.rng = queries, queries.experience, steps, rng
        self.prize = upper + max(map(abs, queries.access.reward_range))
        """The optimistic value of an untried action: more than the bound to be refuted."""
        self._choices: Callable[[Node], int | None] = lambda node: None
        self._replan = 0

    def explore(self, until: float, visit: Callable[[Node, int, float, Any], None] | None = None) -> None:
        """Episodes until ``until`` queries are spent in all, or none is charged any more."""
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
    """The most promising policy that ignores features, with its pilot run.

    It takes about two thirds of the queries up to ``end``; the rest is for its evaluation.
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
    """Policies that ignore features: random, the best one for the transitions seen, and UCT with so many queries."""
    found = [RANDOM]
    if experience.size:
        found.append(Candidate("model", experience.greedy()))
    tree = uct(player, queries)
    if tree is not None:
        found.append(tree)
    return found


def uct(player: EpisodePlayer, queries: float) -> Candidate | None:
    """The policy of a UCT tree grown with so many queries; None if states cannot be hashed."""
    access, depth = player.access, player.access.horizon or player.steps
    simulations = int(min(queries, player.queries.room) / depth)
    if access.root.key is None or not simulations:
        return None
    tree = Tree(access, UCT(depth=depth), player.rng)
    try:
        tree.grow(access.root, simulations)
    except BadInput:  # a state that cannot be hashed
        return None
    return Candidate("uct", tree.choices())


class PathStep(NamedTuple):
    """One step of a path in a deterministic problem."""

    node: Node
    action: int
    reward: float
    following: Any
    """The next node, or END."""


def path_allowance(queries: Queries, steps: int, checks: int, *, doubted: bool, hopeless: bool) -> int:
    """Queries that a challenge of a path may take, given that ``checks`` queries follow to recheck it.

    ``hopeless``: the features are refuted, so that the challenge is the only way to find a good path.
    """
    spent = queries.spent
    usual = min(ATTACK * spent, SCRUTINISED * spent - checks)
    allowance = max(1.0, DOUBTED * spent if doubted else usual)
    return int(max(allowance, ROUNDS * steps) if hopeless or not queries.experience.paid else allowance)


def find_path(queries: Queries, steps: int, rng: np.random.Generator, end: float, upper: float) -> list[PathStep]:
    """The best path through the transitions seen, after exploring up to ``end`` queries."""
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
    """Query some steps of a path again, and raise if one has changed."""
    for i, times in to_recheck(access, len(path), share, rng):
        for _ in range(times):
            compare(path[i], *access.recheck(path[i].node, path[i].action))


def to_recheck(access: Access, length: int, share: float, rng: np.random.Generator) -> Iterator[tuple[int, int]]:
    """The indices of the steps of a path to query again, bypassing any cache, and how often each.

    A share of them, once; all of them several times if the simulator has drawn random numbers.
    """
    count = length if access.drew else math.ceil(share * length)
    for i in sorted(rng.choice(length, size=count, replace=False).tolist()) if count else []:
        yield i, SCRUTINY if access.drew else 1


def compare(step: PathStep, reward: float, node: Any) -> None:
    """Raise unless an outcome is that of the step of a path."""
    same = _same(step.following, node)
    refuse_unless_same(Place.of(step.node), step.action, (step.reward, step.following), (reward, node), same)


def refuse_unless_same(
    place: Place, action: int, before: tuple[float, Any], now: tuple[float, Any], same: bool
) -> None:
    """Raise if the reward of an outcome has changed, or its next state is not the same."""
    if now[0] != before[0]:
        raise contradiction(place.state, place.stage, action, "reward", before[0], now[0])
    if not same:
        raise contradiction(place.state, place.stage, action, "transition", before[1], now[1])


def _same(one: Any, other: Any) -> bool:
    """Whether two nodes (or END) are of one state; by their features if states cannot be hashed."""
    if one is END or other is END:
        return one is other
    if one.key is not None or other.key is not None:
        return bool(one.stage == other.stage and one.key == other.key)
    return bool(np.array_equal(_features(one), _features(other)))


def _features(node: Node) -> Array:
    """φ_q of a node, or φ_v where there are no features of actions."""
    try:
        return node.phi_q
    except BadInput:
        return node.phi_v


# ------------------------------------------------------------------------------------------- reasons to doubt


def unseen(access: Access, experience: Experience) -> bool:
    """Whether no nonzero reward was ever seen, although the reward range allows one."""
    return not experience.paid and access.reward_range != (0.0, 0.0)


def random_after_all(access: Access) -> bool:
    """Whether a simulator that is declared deterministic drew random numbers."""
    return access.deterministic_transitions and access.deterministic_rewards and access.drew


def inconclusive(access: Access, experience: Experience) -> bool:
    """Whether there is a doubt that makes a closed gap inconclusive."""
    return unseen(access, experience) or random_after_all(access)


def doubts(access: Access, experience: Experience) -> list[str]:
    """Reasons to doubt a bracket, most of them about realizability, as sentences."""
    found = []
    if random_after_all(access):
        found.append(DRAWS)
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
