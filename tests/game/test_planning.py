import itertools

import numpy as np
import pytest

import tensorplan as tp
from tensorplan.access import GlobalAccess
from tensorplan.core import END
from tensorplan.core.errors import Refused
from tensorplan.game import AbstractGame
from tensorplan.game.packed import pack
from tensorplan.game.planning import GuessPlanner, SimulatedGame
from tensorplan.problems.hard.hypercube import distance, is_close


def simulated(p, K, kind="v", seed=0):
    problem = tp.make("hard", p=p, K=K, kind=kind, features="structured", seed=seed)
    rng = np.random.default_rng(seed)
    access = GlobalAccess(problem, problem.mdp.root, rng)
    return problem.mdp, access, SimulatedGame(access)


def far(a, b, p):
    return not is_close(distance(a, b), p)


@pytest.mark.parametrize(("p", "kind"), [(4, "v"), (5, "q"), (5, "v"), (6, "q")])
def test_the_last_step_is_a_state_of_the_tree_and_ends_the_round_with_the_weights(p, kind):
    mdp, _, game = simulated(p, 4, kind)
    states = [set(layer) for layer in itertools.islice(mdp.layers(), p)] if p < 6 else []
    for w in range(1, 1 << p):
        if far(0, w, p):
            state, action = game.last_step([w])
            assert not states or state in states[p - 1]
            following = mdp.successor(state, action)
            assert (following.round, following.step, following.last) == (1, 0, w)


@pytest.mark.parametrize(("p", "kind", "seed"), [(4, "v", 0), (5, "q", 1), (5, "v", 2), (8, "q", 3), (9, "v", 4)])
def test_replies_are_those_of_the_game(p, kind, seed):
    mdp, access, game = simulated(p, 5, kind, seed)
    real = AbstractGame(p, 5, secret=mdp.secret)
    rng = np.random.default_rng(seed)
    seen = set()
    for _ in range(400):
        path = [0]
        for _ in range(int(rng.integers(1, 4))):
            path.append(next(w for w in rng.permutation(1 << p).tolist() if far(path[-1], w, p)))
        before = access.spent
        reply, truth = game.query(path[1:]), real.query(path[1:])
        assert reply.U == truth.U
        assert reply.V == truth.V * (1 - truth.U)
        assert access.spent - before <= (3 if truth.U or truth.V else 1)
        seen.add((reply.U, reply.V))
    assert seen == {(0, 0), (0, 1), (1, 0)}


def test_a_search_stops_at_the_first_hit_and_asks_no_more():
    mdp, access, game = simulated(5, 4)
    words = [w for w in range(1, 32) if far(0, w, 5)]
    hit = game.search(pack(words, 5)[None])
    assert hit.at == next(i for i, w in enumerate(words) if mdp.close(w))
    assert access.spent == hit.at + 1
    misses = [w for w in words if not mdp.close(w)]
    assert game.search(pack(misses, 5)[None]) is None


@pytest.mark.parametrize("strategy", ["uniform", "best", "covering-pairs"])
@pytest.mark.parametrize("kind", ["v", "q", "vq"])
def test_the_planner_finds_the_optimum(strategy, kind):
    for seed in range(3):
        problem = tp.make("hard", p=9, K=9, kind=kind, features="structured", noise=False, seed=seed)
        (episode,) = tp.run(problem, GuessPlanner(strategy=strategy), seed=seed).episodes
        assert episode.total_reward == pytest.approx(problem.optimal_value(episode.start))
        assert sum(episode.queries[1:]) == 0


def test_what_it_spends_is_what_the_player_spends():
    """The same law: queries up to the first close weight of 60 plays each, a rank test at a level of 1%."""
    from scipy.stats import mannwhitneyu

    from tensorplan.game import cost

    spent = []
    for seed in range(60):
        problem = tp.make("hard", p=12, K=12, features="structured", seed=seed)
        spent.append(tp.run(problem, GuessPlanner(strategy="uniform"), seed=seed).worst_call)
    games = [
        c + 12 + 4 for c in cost("uniform", 12, 12, range(100, 160)).costs
    ]  # finding w* takes up to p - 1 + log2 p
    assert mannwhitneyu(spent, games).pvalue > 0.01


def test_it_goes_on_after_its_last_goal():
    from tensorplan.game.planning import Rounds

    mdp, access, _ = simulated(4, 12)
    policy = Rounds([1, 14] * 4)
    state, stage, ended = mdp.root, 0, []
    while state is not END:
        state = mdp.successor(state, policy.act(access.node(state, stage)))
        stage += 1
        if state.step == 0:
            ended.append(state.last)
        if state.round == mdp.K:
            break
    assert ended == [1, 14] * 6


def test_other_problems_are_refused():
    with pytest.raises(Refused, match="not one of them"):
        tp.run(tp.make("layered/2x3:states=5"), GuessPlanner())
    with pytest.raises(Refused, match="needs K >= 3"):
        tp.run(tp.make("hard/4x2"), GuessPlanner())
    with pytest.raises(tp.BadInput):
        GuessPlanner(strategy="wild")
