"""The reduction of the lower bound: planners of the hard MDPs as players of the abstract game (Weisz et al. 2022, A).

The simulator (Lemma can-simulate-mdp-with-abstract-game).  With action a at s_ki, l = k + 1[i = p-1] rounds are
complete; the reply to a query of their weights is (U, V, Z).  V, or U if i = p-1, is whether w_k is close to w*: case
(1) of :mod:`tensorplan.problems.hard.mdp`.  At i = p-1, V is whether w_{k+1} is close, case (2), and Z is the reward of
the cases (2) and (3).  Closeness is queried once per weight.  So a step costs at most one query, and under local access
steps within a round, illegal ones included, are free.

Case (1) pays <φ, θ*>, which is not part of (U, V, Z): a gap in the printed lemma.  In that case a weight close to w* is
known, and w* is found from it by at most p - 1 + ⌈log2 p⌉ queries, once per play (:mod:`tensorplan.game.pinpoint`), so
that the game need not reveal w*.  Under local access such states are never reached, and the class that is realizable
on reachable states only may pay 0 there (``unreachable="zero"``).

The player (proof of Theorem lb).  The planner runs in the closed loop against that simulator for 8 rounds of p steps,
S_0, A_0, S_1, .., which costs at most 8p N̄ + 8p queries.  The output consists of the final weights of the rounds,
extended legally if the episode ended early.  For every realization of the episode

    payoff >= Σ_{t <= 8p} E[R_t | S_{t-1}, A_{t-1}] + v*(S_8p),

with equality unless an action was illegal, in which case the right side is 0.  Its expectation is at least that of the
return, so a planner with E[return] >= v*(s_0) - 0.01 is a player with E[payoff] >= f(()) - 0.01.  (The paper prints
"= f(())", and that the payoff equals the reward, which holds only in expectation.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorplan.core import END, Array, End, Episode, Planner, Problem, State
from tensorplan.core.errors import BadInput, BudgetSpent
from tensorplan.core.specs import one_of, truth
from tensorplan.game.game import OUTPUT, Asking
from tensorplan.game.packed import pack
from tensorplan.game.pinpoint import pinpoint
from tensorplan.loop import run
from tensorplan.problems.hard.mdp import HardMDP, hard
from tensorplan.problems.hard.tree import HardState, HardTree


class GameMDP(HardTree):
    """M^v or M^q for the secret of a game; the states are those of HardMDP.

    A query needs the weights of all complete rounds, which states do not contain: they are stored for all states made
    by this object, in steps or by enumeration.  Replies depend only on the part of the rounds that states contain.
    """

    reward_range = (0.0, 1.0)
    deterministic_transitions = True

    def __init__(self, game: Asking, kind: str = "v", *, unreachable: str = "pinpoint", noise: bool = True) -> None:
        super().__init__(game.p, game.K)
        self.game = game
        self.kind = one_of("kind", kind, ("v", "q"))
        self.unreachable = one_of("unreachable", unreachable, ("pinpoint", "zero"))
        self.deterministic_rewards = not truth("noise", noise)
        self._rounds: dict[tuple[int, int, Any], tuple[int, ...]] = {_complete(self.root): ()}
        self._close = {0: False}
        self._revealed: HardMDP | None = None

    def start(self, rng: np.random.Generator) -> HardState:
        """The root s_0: no round has begun."""
        return self.root

    def step(self, state: HardState, action: int, rng: np.random.Generator) -> tuple[float, State]:
        """(reward, next state), by at most one query; Z is drawn by the game."""
        rewards, following = self._outcomes(state, action, 1)
        return float(rewards[0]), following

    def step_batch(
        self, state: HardState, action: int, n: int, rng: np.random.Generator
    ) -> tuple[Array, Sequence[State], NDArray[np.integer[Any]]]:
        """n samples of one pair, by at most n queries."""
        rewards, following = self._outcomes(state, action, n)
        return rewards, [following], np.zeros(n, dtype=np.intp)

    def successor(self, state: HardState, action: int) -> HardState | End:
        """The state after the action; the weights of its rounds are stored."""
        following = super().successor(state, action)
        if isinstance(following, HardState) and following.step == 0:
            self._rounds.setdefault(_complete(following), (*self.rounds(state), following.last))
        return following

    def rounds(self, state: HardState) -> tuple[int, ...]:
        """The weights w_1, .., w_k of the complete rounds of a state made by this object."""
        try:
            return self._rounds[_complete(state)]
        except KeyError:
            raise BadInput(f"{state!r} was not made by this simulator: the weights of its rounds are unknown") from None

    def _outcomes(self, state: HardState, action: int, n: int) -> tuple[Array, State]:
        """n samples of the reward, and the next state."""
        following, close, path, final = self.successor(state, action), self._close, self.rounds(state), False
        if isinstance(following, HardState) and following.step == 0:
            path = (*path, following.last)
            final = len(path) == self.K or close.get(path[-1], True)
        samples: list[float] = []
        if state.last not in close or (final and not close[state.last]):
            U, V, Z = self.game.query(path)
            close.update(zip(path[-2:], map(bool, (U, V)[-len(path) :]), strict=True))
            samples.append(Z)
        if close[state.last]:
            return np.full(n, self._unreachable(state, action)), END
        if not final or not (len(path) == self.K or close[path[-1]]):
            return np.zeros(n), following
        if n > 1:
            words = pack(path, self.p).T[:, :, None]
            samples.extend(self.game.query_batch(np.repeat(words, n - 1, axis=2)).Z)
        return np.array(samples, dtype=np.float64), END

    def _unreachable(self, state: HardState, action: int) -> float:
        """The reward of case (1): <φ, θ*>, or 0."""
        if self.unreachable == "zero":
            return 0.0
        if self._revealed is None:
            self._revealed = HardMDP(self.p, self.K, pinpoint(self.game, state.last), self.kind)
        return float(self._revealed.mean_reward(state, action))


@dataclass(frozen=True)
class Reduction:
    """A planner for the hard MDPs as a player of the abstract game, K >= 8.

    ``kind`` and ``features`` are those of :func:`tensorplan.problems.hard.mdp.hard`.  ``unreachable``: the
    reward of case (1), <φ, θ*> for "pinpoint", 0 for "zero".  ``budget`` bounds the simulator queries of an episode; if
    it is spent, the output is legal, but has no guarantee.  ``noise=False`` declares rewards deterministic, for a game
    whose Z is f itself; in the theorem Z is Bernoulli.
    """

    planner: Planner
    kind: str = "v"
    features: str = "reduced"
    unreachable: str = "pinpoint"
    budget: int | None = None
    noise: bool = True

    def __call__(self, game: Asking, rng: np.random.Generator) -> list[int]:
        """The weights of the first 8 rounds."""
        return output_of(HardTree(game.p, game.K), self.episode(game, rng).actions)

    def episode(self, game: Asking, rng: np.random.Generator) -> Episode:
        """The first 8 rounds of the planner in the closed loop; its steps and queries bound the queries of the game."""

        def stop(episode: int, steps: int, queries: int) -> None:
            if steps == OUTPUT * game.p:
                raise BudgetSpent(f"the first {OUTPUT} rounds are over")

        seed = int(rng.integers(1 << 62))
        return run(self.problem(game), self.planner, seed=seed, budget=self.budget, progress=stop).episodes[0]

    def problem(self, game: Asking) -> Problem:
        """The hard MDP for the secret of the game; its features do not depend on the secret."""
        if game.K < OUTPUT:
            raise BadInput(f"a planner's first {OUTPUT} rounds need K >= {OUTPUT}, got K = {game.K}")
        other = hard(game.p, game.K, kind=self.kind, features=self.features)
        mdp = GameMDP(game, self.kind[0], unreachable=self.unreachable, noise=self.noise)
        return Problem(mdp, other.phi_v, other.phi_q, bound=other.bound, name=other.name)


def output_of(tree: HardTree, actions: Iterable[int]) -> list[int]:
    """The weights of the first 8 rounds of the actions; after the last complete one, alternating signs of it."""
    state, output = tree.root, [0]
    for action in actions:
        following = tree.successor(state, action)
        if isinstance(following, End) or len(output) > OUTPUT:
            break
        state = following
        if state.step == 0:
            output.append(state.last)
    while len(output) <= OUTPUT:
        output.append(output[-1] ^ ((1 << tree.p) - 1))
    return output[1 : OUTPUT + 1]


def _complete(state: HardState) -> tuple[int, int, Any]:
    """The part of a state that describes its complete rounds."""
    return state.round, state.last, state.prefix
