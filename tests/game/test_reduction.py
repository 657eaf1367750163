"""Planners of the hard MDPs as players of the abstract game: the simulator against the MDP itself, and the proof."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import tensorplan as tp
from tensorplan.core import END
from tensorplan.core.errors import BadInput
from tensorplan.game import AbstractGame, Answer, Answers
from tensorplan.game.game import OUTPUT
from tensorplan.game.reduction import GameMDP, Reduction, output_of
from tensorplan.planners.baselines.random import RandomPlanner
from tensorplan.planners.baselines.uct import UCT
from tensorplan.planners.linear_q.tensorplan_q import TensorPlanQ
from tensorplan.planners.tensorplan.planner import TensorPlan
from tensorplan.problems.hard.hypercube import is_secret
from tensorplan.problems.hard.mdp import HardMDP, hard
from tensorplan.problems.hard.tree import HardTree
from tensorplan.testing import check_problem

RNG = np.random.default_rng(0)


class MeanGame(AbstractGame):
    """The game without coins: Z is f where it is tossed."""

    def query(self, sequence):
        U, V, _ = super().query(sequence)
        return Answer(U, V, float(self.f(sequence)) if V or len(sequence) == self.K else 0.0)

    def query_batch(self, words, stop=False):
        answers = super().query_batch(words, stop)
        one = self.query([sum(int(x) << 64 * i for i, x in enumerate(w)) for w in words[:, :, 0]])
        self.queries -= 1
        return Answers(answers.U, answers.V, np.full(len(answers.Z), one.Z))


def secrets(p):
    return [w for w in range(1 << p) if is_secret(w, p)]


def played(game, reduction, seed=0):
    """The play, and the episode behind it."""
    episodes = []

    def player(asking, rng):
        episodes.append(reduction.episode(asking, rng))
        return output_of(HardTree(asking.p, asking.K), episodes[0].actions)

    play = game.play(player, seed=seed)
    return play, episodes[0]


def promised(mdp, actions):
    """Σ_{t <= 8p} E[R_t | S_{t-1}, A_{t-1}] + v*(S_8p), exactly, and whether all actions were legal."""
    state, total = mdp.root, Fraction(0)
    for action in actions[: OUTPUT * mdp.p]:
        if mdp.illegal(state, action):
            return total, False
        total += mdp.mean_reward(state, action)
        state = mdp.next_state(state, action)
        if state is END:
            return total, True
    return total + mdp.value(state), True


def close_round(mdp):
    """Actions of a first round that ends with w*."""
    state, actions = mdp.root, []
    for _ in range(mdp.p):
        actions.append(mdp.policy(state))
        state = mdp.successor(state, actions[-1])
    return actions


# --------------------------------------------------------------------------------- one step, one query


@pytest.mark.parametrize("kind", ["v", "q"])
@pytest.mark.parametrize(("p", "K"), [(2, 1), (2, 3), (3, 2), (4, 2), (5, 1)])
def test_all_steps_are_those_of_the_hard_mdp(p, K, kind):
    for secret in secrets(p)[:: 1 if p < 4 else 3]:
        truth = HardMDP(p, K, secret, kind, noise=False)
        game = MeanGame(p, K, secret)
        mdp = GameMDP(game, kind, noise=False)
        pinpointing = p - 1 + math.ceil(math.log2(p))
        for layer in mdp.layers():
            for state, action in itertools.product(layer, range(p)):
                before = game.queries
                reward, following = mdp.step(state, action, RNG)
                asked = game.queries - before
                if asked > 1:
                    assert not truth.reachable(state)
                    asked, pinpointing = asked - pinpointing, 0
                assert asked <= 1
                assert following == truth.next_state(state, action)
                assert reward == pytest.approx(truth.mean_reward(state, action), abs=1e-14)


def test_one_query_tells_both_about_the_round_and_about_the_one_before():
    truth = HardMDP(4, 3, seed=1, noise=False)
    listed = truth.states(7)
    for i in RNG.permutation(len(listed))[:40]:
        game = MeanGame(4, 3, truth.secret)
        mdp = GameMDP(game, unreachable="zero", noise=False)
        mdp.states(8)
        reward, following = mdp.step(listed[i], 0, RNG)
        assert game.queries == 1
        if truth.reachable(listed[i]):
            assert following == truth.next_state(listed[i], 0)
            assert reward == pytest.approx(truth.mean_reward(listed[i], 0))
        else:
            assert (reward, following) == (0.0, END)


@pytest.mark.parametrize("kind", ["v", "q"])
@pytest.mark.parametrize(("p", "K"), [(4, 8), (5, 8), (5, 9), (8, 8), (70, 9)])
def test_walks_are_those_of_the_hard_mdp(p, K, kind):
    rng = np.random.default_rng(p)
    seen = set()
    for seed in range(40):
        truth = HardMDP(p, K, None, kind, noise=False, seed=seed)
        game = MeanGame(p, K, truth.secret)
        mdp = GameMDP(game, kind, noise=False)
        state, stay = mdp.start(rng), rng.random()
        while state is not END:
            action = int(rng.integers(p))
            if truth.illegal(state, action):
                before = game.queries
                assert mdp.step(state, action, rng) == (0.0, END) == truth.step(state, action, rng)
                assert game.queries == before
                seen.add("illegal")
            free = [a for a in range(p) if not state.fixed >> a & 1]
            if rng.random() < stay:
                action = truth.policy(state)
            elif state.step < truth.critical or (free and rng.random() < 0.9):
                action = free[int(rng.integers(len(free)))]
            before = game.queries
            reward, following = mdp.step(state, action, rng)
            assert game.queries - before <= int(state.step == p - 1)
            assert following == truth.next_state(state, action)
            assert reward == pytest.approx(truth.mean_reward(state, action), rel=1e-12)
            if following is not END:
                before = game.queries
                assert mdp.step(state, action, rng) == (0.0, following)
                assert game.queries == before
            seen |= {"frozen"} if state.frozen else set()
            seen |= {"close" if state.round < K - 1 else "last"} if following is END else set()
            state = following
    assert seen >= {"frozen", "close", "last"}
    assert ("illegal" in seen) == (p > 4)


@pytest.mark.parametrize("p", [4, 5, 8])
def test_coins_have_the_mean_of_the_reward(p):
    truth = HardMDP(p, 8, seed=3)
    rng, n = np.random.default_rng(0), 20_000
    towards = close_round(truth)
    away = [a for k in range(8) for a in ([0, 1, 2] if p < 8 else [0, 1, 3, 2]) + [0] * (p - (3 if p < 8 else 4))]
    for actions in (towards, away):
        game = AbstractGame(p, 8, truth.secret)
        mdp = GameMDP(game)
        state = mdp.root
        for action in actions[:-1]:
            state = mdp.step(state, action, rng)[1]
            assert state is not END
        before = game.queries
        rewards, following, which = mdp.step_batch(state, actions[-1], n, rng)
        assert game.queries - before == n == len(rewards)
        assert [following[i] for i in which[:3]] == [END] * 3
        assert set(rewards) <= {0.0, 1.0}
        mean = truth.mean_reward(state, actions[-1])
        assert abs(rewards.mean() - mean) < 4.5 * math.sqrt(mean * (1 - mean) / n)
        singles = [mdp.step(state, actions[-1], rng)[0] for _ in range(2000)]
        assert game.queries - before == n + 2000
        assert abs(np.mean(singles) - mean) < 4.5 * math.sqrt(mean * (1 - mean) / 2000)


@pytest.mark.parametrize("kind", ["v", "q"])
@pytest.mark.parametrize("p", [4, 5, 8])
def test_unreachable_states_pay_after_pinpointing_or_nothing(p, kind):
    truth = HardMDP(p, 8, kind=kind, seed=1)
    for unreachable in ("pinpoint", "zero"):
        game = AbstractGame(p, 8, truth.secret)
        mdp = GameMDP(game, kind, unreachable=unreachable)
        state = mdp.root
        for action in close_round(truth):
            state = mdp.successor(state, action)
        inner = mdp.successor(state, 0)
        pays = [mdp.step(s, a, RNG) for s in (state, inner) for a in (0, p - 1)]
        means = [truth.mean_reward(s, a) for s in (state, inner) for a in (0, p - 1)]
        if unreachable == "zero":
            assert pays == [(0.0, END)] * 4
            assert game.queries == 1
        else:
            assert pays == [(mean, END) for mean in means]
            assert 1 < game.queries <= 1 + p - 1 + math.ceil(math.log2(p))


def test_the_problem_keeps_its_contract():
    game = AbstractGame(5, 8, seed=2)
    for kind in ("v", "q", "vq"):
        problem = Reduction(RandomPlanner(), kind).problem(game)
        check_problem(problem)
        assert problem.theta is None
        assert problem.solution is None
        truth = hard(5, 8, kind=kind, secret=game.secret)
        state = problem.mdp.step(problem.mdp.root, 3, RNG)[1]
        for ours, theirs in ((problem.phi_v, truth.phi_v), (problem.phi_q, truth.phi_q)):
            assert (ours is None) == (theirs is None)
            assert ours is None or np.array_equal(ours(state, 1), theirs(state, 1))


# --------------------------------------------------------------------------------- planners as players


@pytest.mark.parametrize(
    ("p", "K", "planner", "options"),
    [
        (4, 8, RandomPlanner(), {}),
        (4, 9, UCT(simulations=10), {}),
        (5, 8, RandomPlanner(), {"kind": "q"}),
        (5, 9, UCT(simulations=10), {"kind": "q"}),
        (5, 9, UCT(simulations=30), {"kind": "vq", "unreachable": "zero"}),
        (8, 8, RandomPlanner(), {}),
        (8, 9, UCT(simulations=10), {}),
        (64, 9, UCT(simulations=1), {"features": "structured"}),
    ],
)
def test_a_planner_plays_by_one_query_per_question(p, K, planner, options):
    ended = set()
    for seed in range(30 if p < 64 else 3):
        game = AbstractGame(p, K, seed=seed)
        play, episode = played(game, Reduction(planner, **options), seed)
        assert play.queries <= episode.total_queries + episode.steps
        assert episode.steps <= OUTPUT * p
        assert len(play.output) == OUTPUT
        truth = HardMDP(p, K, game.secret, options.get("kind", "v")[0], number=Fraction)
        right, legal = promised(truth, episode.actions)
        assert play.payoff == right if legal else play.payoff > right == 0
        assert play.payoff <= play.best
        ended.add((episode.stopped, legal))
    assert ended <= {("end", True), ("end", False), ("budget", True)}


def test_calling_it_is_playing_it():
    reduction = Reduction(UCT(simulations=5))
    play = AbstractGame(5, 9, seed=1).play(reduction, seed=4)
    assert play == played(AbstractGame(5, 9, seed=1), reduction, seed=4)[0]
    assert any(play != AbstractGame(5, 9, seed=1).play(reduction, seed=seed) for seed in range(3))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "kind", "planner"),
    [
        (4, "v", RandomPlanner()),
        (8, "q", RandomPlanner()),
        (4, "q", UCT(simulations=20)),
        (5, "v", UCT(simulations=20)),
        (8, "v", UCT(simulations=5)),
        (3, "v", TensorPlan()),
        (4, "v", TensorPlan()),
        (3, "q", TensorPlanQ()),
    ],
)
def test_without_coins_the_episode_is_that_of_the_hard_mdp(p, kind, planner):
    for seed in range(3):
        game = MeanGame(p, 9, seed=seed)
        ours = tp.run(Reduction(planner, kind, noise=False).problem(game), planner, seed=seed).episodes[0]
        theirs = tp.run(hard(p, 9, kind=kind, secret=game.secret, noise=False), planner, seed=seed).episodes[0]
        assert (ours.actions, ours.queries) == (theirs.actions, theirs.queries)
        assert ours.rewards == pytest.approx(theirs.rewards, rel=1e-12)
        assert game.queries <= ours.total_queries + ours.steps


@pytest.mark.parametrize(("p", "kind"), [(2, "v"), (3, "v"), (4, "v"), (2, "q"), (3, "q"), (3, "vq")])
def test_a_sound_planner_is_a_sound_player(p, kind):
    reduction = Reduction(TensorPlan() if "v" in kind else TensorPlanQ(), kind, noise=False)
    for secret in secrets(p)[:: 1 if p < 4 else 4]:
        play, episode = played(MeanGame(p, 9, secret), reduction)
        assert play.payoff == play.best
        assert play.found
        assert play.queries <= episode.total_queries + episode.steps


class Lister:
    """Asks about every state of stage p, those that cannot be reached included, and goes for the best."""

    access = "global"

    def begin(self, access, rng):
        self.p = access.actions
        self.target = max(access.states(self.p), key=lambda node: access.query(node, 0)[0].reward).key.weights
        return self

    def act(self, node):
        state = node.key
        if bits := (state.weights ^ self.target) & ~state.fixed:
            return bits.bit_length() - 1
        return max(0, state.fixed.bit_length() - 1)


@pytest.mark.parametrize("p", [4, 5, 8])
def test_global_access_pays_for_pinpointing_once(p):
    for seed in range(5):
        play, episode = played(AbstractGame(p, 9, seed=seed), Reduction(Lister()))
        assert play.payoff == play.best
        extra = play.queries - episode.total_queries - episode.steps
        assert extra <= p - 1 + math.ceil(math.log2(p))
        play, episode = played(AbstractGame(p, 9, seed=seed), Reduction(Lister(), "vq", unreachable="zero"))
        assert play.queries <= episode.total_queries + episode.steps


def test_a_certified_planner_plays_with_coins():
    for secret in secrets(2):
        game = AbstractGame(2, 8, secret)
        play, episode = played(game, Reduction(TensorPlan(delta=0.2, budget=100_000)))
        assert play.payoff == play.best
        assert play.queries <= episode.total_queries + episode.steps


@pytest.mark.parametrize(("p", "planner", "n"), [(4, RandomPlanner(), 600), (5, UCT(simulations=3), 300)])
def test_the_payoff_is_worth_the_return_on_average(p, planner, n):
    secret = secrets(p)[2]
    truth = hard(p, 9, secret=secret)
    returns = np.array([e.total_reward for e in tp.run(truth, planner, n, seed=1).episodes])
    plays = [AbstractGame(p, 9, secret, seed=s).play(Reduction(planner), seed=s) for s in range(n)]
    payoffs = np.array([float(play.payoff) for play in plays])
    error = math.sqrt(returns.var() / n + payoffs.var() / n)
    assert payoffs.mean() > returns.mean() - 3 * error


def test_a_spent_budget_leaves_a_legal_output():
    play, episode = played(AbstractGame(8, 9, seed=1), Reduction(UCT(simulations=20), budget=2500))
    assert episode.stopped == "budget"
    assert episode.total_queries <= 2500
    assert play.queries <= 2500 + episode.steps


# --------------------------------------------------------------------------------- the output, bad input


def test_output_of_actions():
    tree = HardTree(5, 9)
    assert output_of(tree, []) == [31, 0] * 4
    assert output_of(tree, [0, 0]) == [31, 0] * 4
    assert output_of(tree, [0, 1, 1, 2, 2]) == [3, 28] * 4
    assert output_of(tree, [0, 1, 1, 2, 2, 4, 4]) == [3, 28] * 4
    assert output_of(tree, [0, 1, 2, 3, 4] * 9) == [31, 0] * 4
    assert output_of(tree, [0, 1, 1, 2, 2] * 8 + [0, 0]) == [3, 0] * 4


def test_bad_input():
    game = AbstractGame(5, 7)
    with pytest.raises(BadInput, match="need K >= 8, got K = 7"):
        game.play(Reduction(RandomPlanner()))
    game = AbstractGame(5, 8)
    for options, words in (({"kind": "w"}, "kind"), ({"features": "some"}, "features"), ({"unreachable": "x"}, "unre")):
        with pytest.raises(BadInput, match=words):
            game.play(Reduction(RandomPlanner(), **options))
    elsewhere = HardTree(5, 8)
    state = elsewhere.root
    for action in range(5):
        state = elsewhere.successor(state, action)
    with pytest.raises(BadInput, match="was not made by this simulator"):
        GameMDP(game).step(state, 0, RNG)
