"""Access to the one-step-delayed MDP M̄ (see :mod:`tensorplan.problems.transforms.delayed`), given access to M.

A sample at (s, a) is one query of M; at (s0, None) it is free.  The action chosen at (s, a) only enters the next state,
so one batch of samples serves all actions.  In the closed loop M̄ starts at ``root`` and is at
``pair(S_{t-1}, A_{t-1})`` when M is at S_t.  Nodes of M̄ consist of nodes of M, which M's access object checks when it
is queried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tensorplan.access.local import INTERNED, Batch
from tensorplan.core import END, Access, Array, Deadline, End, Outcome, Sample, Trail, Walk
from tensorplan.core.errors import BadInput, NotReached
from tensorplan.core.specs import whole
from tensorplan.problems.realizability import Misfit
from tensorplan.problems.simulate import whole_action
from tensorplan.problems.transforms.delayed import (
    LENGTHENED,
    DelayedState,
    arrive,
    features,
    refuse_unless_delayable,
    simulate,
    with_zero,
)


class DelayedNode:
    """A state of M̄ as the planner sees it (see :class:`tensorplan.core.Node`)."""

    __slots__ = ("_access", "_pair", "_phi_v", "_stage", "note")

    def __init__(self, access: DelayedAccess, pair: DelayedState, stage: int) -> None:
        self._access = access
        self._pair = pair
        self._stage = stage
        self._phi_v: Array | None = None
        self.note: Any = None

    @property
    def stage(self) -> int:
        """Steps taken so far in M̄; always 0 in problems without a horizon."""
        return self._stage

    @property
    def key(self) -> DelayedState | None:
        """The key of the node of M and the action, or None if the state is not hashable."""
        node, action = self._pair
        return None if node.key is None else DelayedState(node.key, action)

    @property
    def phi_v(self) -> Array:
        """φ̄ of the pair, (d+1,)."""
        if self._phi_v is None:
            node, action = self._pair
            phi = features(self._access.dimension - 1, None if action is None else node.phi_q[action])
            phi.flags.writeable = False
            self._phi_v = phi
        return self._phi_v

    @property
    def phi_q(self) -> Array:
        """Raises BadInput: M̄ has features of states only."""
        raise BadInput(f"problem {self._access.problem_name!r} has no phi_q")

    def __repr__(self) -> str:
        node, action = self._pair
        return f"<{'no action' if action is None else f'action {action}'} yet to be executed at {node!r}>"


class DelayedAccess:
    """Access to M̄ for one episode of M (see :class:`tensorplan.core.Access`)."""

    joint = True
    """The action before is executed: one batch of queries serves all actions."""

    def __init__(self, access: Access) -> None:
        refuse_unless_delayable(
            access.problem_name, access.has_phi_q, access.deterministic_transitions, access.discount
        )
        self.problem_name = f"delayed {access.problem_name}"
        self.identity = access.identity
        self.horizon = None if access.horizon is None else access.horizon + 1
        self.actions = access.actions
        self.reward_range = with_zero(access.reward_range)
        self.deterministic_transitions = True
        self.deterministic_rewards = access.deterministic_rewards
        self.discount = 1.0
        self.bound = LENGTHENED * access.bound
        self.dimension = access.dimension + 1
        self.has_phi_v = True
        self.has_phi_q = False
        self.declared_returns = access.declared_returns

        self._access = access
        self._nodes: dict[DelayedState, DelayedNode] = {}
        self.root = self._node(DelayedState(access.root, None))

    @property
    def spent(self) -> int:
        """Queries of M charged so far in this episode."""
        return self._access.spent

    @property
    def remaining(self) -> float:
        """Queries of M left in the budget; ``inf`` without one."""
        return self._access.remaining

    @property
    def deadline(self) -> Deadline:
        """When planning has to end; queries after it raise TimeSpent."""
        return self._access.deadline

    def limit_time(self, seconds: float | None) -> None:
        """Set the deadline, so many seconds from now, unless there is an earlier one; None sets none."""
        self._access.limit_time(seconds)

    @property
    def drew(self) -> bool:
        """Whether queries declared deterministic drew random numbers."""
        return self._access.drew

    @property
    def clipped(self) -> bool:
        """Whether features were evaluated outside of their frame, and replaced by those of the nearest point."""
        return self._access.clipped

    def return_range(self, stage: int, discount: float | None = None) -> tuple[float, float]:
        """The range of the return from ``stage`` on, which is that of M one step earlier."""
        return self._access.return_range(stage if self.horizon is None else max(stage - 1, 0), discount)

    def misfit(self, kind: str = "v") -> Misfit | None:
        """The distance of φ_q from realizing q* of M, which is v̄*, if M is a small table; else None."""
        return self._access.misfit("q") if kind == "v" else None

    def pair(self, node: Any, action: int) -> DelayedNode:
        """The node of M̄ for ``action`` about to be executed in a node of M."""
        if node is END or isinstance(node, DelayedNode):
            raise BadInput(f"a pair needs a node of problem {self._access.problem_name!r}, got {node!r}")
        return self._node(DelayedState(node, whole_action(action, self.actions, node, node.stage)))

    def query(self, node: Any, action: int, n: int = 1) -> Sequence[Outcome]:
        """n samples of (reward, next) at a node of M̄, charged as n queries of M; free at the root."""
        if n != 1:
            return self.sample(node, action, n)
        pair = self._open(node)
        action = whole_action(action, self.actions, node, node.stage)
        reward, following = simulate(pair, action, lambda s, a: self._access.query(s, a)[0])
        return [Outcome(reward, self._issue(following))]

    def recheck(self, node: Any, action: int) -> Outcome:
        """One query of M that bypasses the cache, charged; free at the root."""
        pair = self._open(node)
        action = whole_action(action, self.actions, node, node.stage)
        reward, following = simulate(pair, action, self._access.recheck)
        return Outcome(reward, self._issue(following))

    def sample(self, node: Any, action: int, n: int) -> Batch:
        """Like ``query``, with the samples as arrays."""
        return self._samples(node, [action], n)[0]

    def sample_all(self, node: Any, n: int, *, shared: bool = True) -> list[Batch]:
        """n samples of every action, from one batch of n queries of M: they always share the rewards."""
        return self._samples(node, range(self.actions), n)

    def follow(self, node: Any, actions: Iterable[int]) -> Trail:
        """Query along a path of given actions, until END or the last of them."""
        self._open(node)
        rewards: list[float] = []
        for action in actions:
            ((reward, node),) = self.query(node, action)
            rewards.append(reward)
            if node is END:
                break
        return Trail(rewards, node)

    def walk(self, node: Any, choose: Callable[[Any], int | None]) -> Walk:
        """Query along a path of actions ``choose(node)``, until END or until it returns None."""
        self._open(node)
        steps: list[tuple[Any, float]] = []
        while node is not END and (action := choose(node)) is not None:
            ((reward, following),) = self.query(node, action)
            steps.append((node, reward))
            node = following
        return Walk(steps, node)

    def _samples(self, node: Any, actions: Iterable[int], n: int) -> list[Batch]:
        """One batch of samples of M, combined with each of the next actions."""
        pair = self._open(node)
        actions = [whole_action(action, self.actions, node, node.stage) for action in actions]
        if pair.action is None:
            n = whole("the number of samples", n, 1)
            batch: Sample = Batch(np.zeros(n), [pair.state], np.zeros(n, dtype=np.intp))
        else:
            batch = self._access.sample(pair.state, pair.action, n)
        return [
            Batch(batch.rewards, [self._issue(arrive(s, action)) for s in batch.successors], batch.which)
            for action in actions
        ]

    def _issue(self, pair: DelayedState | End) -> DelayedNode | End:
        return END if isinstance(pair, End) else self._node(pair)

    def _node(self, pair: DelayedState) -> DelayedNode:
        """The node of a pair, shared if it is already known."""
        node = self._nodes.get(pair)
        if node is None:
            started = self.horizon is not None and pair.action is not None
            node = DelayedNode(self, pair, pair.state.stage + 1 if started else 0)
            if len(self._nodes) < INTERNED:
                self._nodes[pair] = node
        return node

    def _open(self, node: Any) -> DelayedState:
        """The pair of a node; NotReached if this object did not issue the node."""
        if type(node) is DelayedNode and node._access is self:
            return node._pair
        if node is END:
            raise NotReached("END cannot be queried: it is absorbing")
        raise NotReached(
            f"{node!r} was not issued by this access object: "
            "only the root, pairs, and what queries return, may be queried"
        )
