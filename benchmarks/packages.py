"""Published planners behind the same meter as ours: ``mcts`` 1.0.4 and ``mctx``."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import mcts
import mctx
import numpy as np
from jax.experimental import io_callback

import tensorplan as tp

DEPTH = 100
"""Steps at most of a simulation."""


class Walk:
    """A simulation in the terms of the package ``mcts``, behind the same meter as the others."""

    __slots__ = ("access", "left", "node", "total", "weight")

    def __init__(self, access: tp.Access, node: Any, left: int, total: float, weight: float) -> None:
        self.access, self.node, self.left, self.total, self.weight = access, node, left, total, weight

    def getCurrentPlayer(self) -> int:  # noqa: N802
        """The only player."""
        return 1

    def getPossibleActions(self) -> range:  # noqa: N802
        """All of them."""
        return range(self.access.actions)

    def takeAction(self, action: int) -> Walk:  # noqa: N802
        """One query."""
        reward, following = self.access.query(self.node, action)[0]
        total = self.total + self.weight * reward
        return Walk(self.access, following, self.left - 1, total, self.weight * self.access.discount)

    def isTerminal(self) -> bool:  # noqa: N802
        """Whether the episode, or the simulation, is over."""
        return self.node is tp.END or self.left == 0

    def getReward(self) -> float:  # noqa: N802
        """The return of the simulation."""
        return self.total


@dataclass(frozen=True)
class Mcts:
    """The package ``mcts`` 1.0.4 as a planner; ``exploration`` in units of the returns."""

    iterations: int
    exploration: float

    def begin(self, access: tp.Access, rng: np.random.Generator) -> tp.Policy:
        """Start an episode."""
        random.seed(int(rng.integers(2**32)))
        return MctsPolicy(access, self)


@dataclass(frozen=True)
class MctsPolicy:
    """See Mcts."""

    access: tp.Access
    config: Mcts

    def act(self, node: tp.Node) -> int:
        """A search from scratch, as the package has it."""
        search = mcts.mcts(iterationLimit=self.config.iterations, explorationConstant=self.config.exploration)
        return int(search.search(Walk(self.access, node, DEPTH, 0.0, 1.0)))


@dataclass(frozen=True)
class Mctx:
    """Gumbel MuZero of ``mctx`` without a network: actions are alike, and a random walk says what a leaf is worth."""

    simulations: int

    def begin(self, access: tp.Access, rng: np.random.Generator) -> tp.Policy:
        """Start an episode."""
        return MctxPolicy(access, self.simulations, rng)


class MctxPolicy:
    """See Mctx.  The search is compiled; the simulator is called from it, once for each simulation."""

    def __init__(self, access: tp.Access, simulations: int, rng: np.random.Generator) -> None:
        self.access, self.rng = access, rng
        self.nodes: list[Any] = []
        """The search knows a node by its place here."""
        alike = jnp.zeros((1, access.actions))
        number, place = jax.ShapeDtypeStruct((1,), jnp.float32), jax.ShapeDtypeStruct((1,), jnp.int32)

        def model(_: None, key: Any, action: Any, parent: Any) -> Any:
            reward, discount, value, child = io_callback(self._step, (number, number, number, place), action, parent)
            return mctx.RecurrentFnOutput(reward=reward, discount=discount, prior_logits=alike, value=value), child

        def search(key: Any, value: Any) -> Any:
            root = mctx.RootFnOutput(prior_logits=alike, value=value, embedding=jnp.zeros((1,), jnp.int32))
            return mctx.gumbel_muzero_policy(None, key, root, model, simulations, max_depth=DEPTH).action

        self._search = jax.jit(search)

    def act(self, node: tp.Node) -> int:
        """A search from scratch, as the package has it."""
        self.nodes = [node]
        key = jax.random.PRNGKey(int(self.rng.integers(2**31)))
        return int(self._search(key, jnp.array([self._walk(node)]))[0])

    def _step(self, action: Any, parent: Any) -> tuple[Any, ...]:
        """Reward, discount, value and place of a child; nothing comes after END."""
        node = self.nodes[int(parent[0])]
        reward, child = (0.0, tp.END) if node is tp.END else self.access.query(node, int(action[0]))[0]
        self.nodes.append(child)
        discount = 0.0 if child is tp.END else self.access.discount
        numbers = np.array([[reward], [discount], [self._walk(child)]], dtype=np.float32)
        return *numbers, np.array([len(self.nodes) - 1], dtype=np.int32)

    def _walk(self, node: Any) -> float:
        """The return of a random walk."""
        total, weight = 0.0, 1.0
        for action in self.rng.integers(self.access.actions, size=DEPTH).tolist():
            if node is tp.END:
                break
            reward, node = self.access.query(node, action)[0]
            total, weight = total + weight * reward, weight * self.access.discount
        return total
