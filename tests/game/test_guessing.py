"""The players find w*, pay what theory says, and never less than the bound."""

from itertools import islice
from math import ceil, log2

import numpy as np
import pytest

from tensorplan.core.errors import BadInput
from tensorplan.game import STRATEGIES, AbstractGame, Best, Blind, Local, cost, lower_bound, pinpoint
from tensorplan.game.balls import least_far
from tensorplan.game.code import blocks
from tensorplan.game.kernels import weights
from tensorplan.game.local import _queries_to
from tensorplan.game.packed import draw, unpack
from tensorplan.game.search import interval
from tensorplan.problems.hard.hypercube import distance, is_secret


def all_secrets(p):
    return [w for w in range(1 << p) if is_secret(w, p)]


# ----------------------------------------------------------------------------------------- every strategy


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize(("p", "K"), [(2, 2), (3, 1), (5, 1), (5, 9), (8, 2), (16, 3), (16, 20), (33, 1)])
def test_every_strategy_ends_at_the_secret(name, p, K):
    player = STRATEGIES[name]
    if K == 1 and "pairs" in name:
        with pytest.raises(BadInput, match="pairs of guesses need queries of length 2, and K is 1"):
            AbstractGame(p, K).play(player)
        return
    for seed in range(8):
        game = AbstractGame(p, K, seed=seed)
        play = game.play(player, seed=seed)
        assert play.found
        assert play.payoff == play.best == game.best
        assert play.output[0] == game.secret
        assert 1 <= play.cost == game.found_at <= play.queries == game.queries
        assert play.queries - play.cost <= p - 1 + ceil(log2(p))
        assert play == AbstractGame(p, K, seed=seed).play(player, seed=seed)


@pytest.mark.parametrize("name", STRATEGIES)
def test_who_gives_up_makes_eight_last_guesses(name):
    player = type(STRATEGIES[name])(**vars(STRATEGIES[name]) | {"limit": 37})
    play = AbstractGame(64, 20, seed=2).play(player)
    assert (play.queries, play.cost, len(play.output)) == (37, 37, 8)
    assert not play.found
    assert play.payoff < (25 / 32) ** 9
    assert len({min(w, w ^ ((1 << 64) - 1)) for w in play.output}) == 4


@pytest.mark.parametrize("p", [2, 3, 4, 5, 6, 8, 9])
def test_pinpoint_from_every_close_weight(p):
    for secret in all_secrets(p) if p < 9 else all_secrets(p)[::20]:
        for w in range(1 << p):
            if 4 * distance(w, secret) < p:
                for K in (1, 2) if 4 * w.bit_count() >= p else (2,):
                    game = AbstractGame(p, K, secret)
                    assert pinpoint(game, w) == secret
                    assert game.queries <= p - 1 + ceil(log2(p))


# ---------------------------------------------------------------------------------- what guessing costs


def test_expected_costs_by_enumeration():
    for p in (2, 4, 5, 8, 9):
        first = [w for w in range(1 << p) if 4 * w.bit_count() >= p]
        means = [len(first) / sum(4 * distance(w, s) < p for w in first) for s in all_secrets(p)]
        assert Blind().expected(p) == pytest.approx(np.mean(means))
        assert Blind(pairs=True).expected(p) == lower_bound(p, 2).guesses / 2
    assert Blind(code=True).expected(8) is None


@pytest.mark.parametrize("player", [Blind(), Blind(pairs=True)])
@pytest.mark.parametrize("p", [4, 8, 16])
def test_mean_cost_of_uniform_guesses(player, p):
    """1500 plays, deviation of the mean at most 1/38 of it: false alarm below 1e-6 (4.9 deviations), and a cost that is
    off by a factor of 1.3 slips through below 1e-6."""
    costs = [AbstractGame(p, 2, seed=s).play(player, seed=s).cost for s in range(1500)]
    assert np.mean(costs) == pytest.approx(float(player.expected(p)), rel=4.9 / 1500**0.5)


@pytest.mark.slow
@pytest.mark.parametrize(("p", "gain"), [(6, 1.3), (8, 1.7), (10, 1.4), (12, 1.4), (16, 1.3)])
def test_codes_cover_less_twice(p, gain):
    """The exact mean over all secrets, for 5 codes.  Never to cover anything twice would halve the cost of pairs."""
    secrets = np.array(all_secrets(p), dtype=np.uint64)
    means = []
    for seed in range(5):
        listed = np.concatenate(list(islice(blocks(p, np.random.default_rng(seed)), 13)), axis=1)[0]
        first = np.zeros(len(secrets), dtype=np.int64)
        for asked, w in reversed(list(enumerate(listed, 1))):
            apart = weights((secrets ^ w)[None])
            first[4 * np.minimum(apart, p - apart) < p] = asked
        assert first.min() >= 1  # all secrets are found
        for i in range(0, len(secrets), len(secrets) // 20):
            game = AbstractGame(p, 2, int(secrets[i]))
            Blind(code=True, pairs=True)(game, np.random.default_rng(seed))
            assert game.found_at == first[i]
        means.append(first.mean())
    uniform = float(Blind(pairs=True).expected(p))
    assert max(uniform / 2 * (1 - 1 / uniform), lower_bound(p, 1000).sharp) < np.mean(means) < uniform / gain


@pytest.mark.parametrize("p", [2, 3, 5, 8, 11])
def test_the_code_lists_every_pair_once(p):
    listed = [unpack(w) for block in blocks(p, np.random.default_rng(p)) for w in block.T]
    assert len(listed) == 1 << (p - 1)
    assert {w ^ flip for w in listed for flip in (0, (1 << p) - 1)} == set(range(1 << p))


def test_the_code_is_a_coset_of_a_linear_code():
    found = list(islice(blocks(40, np.random.default_rng(0)), 8))
    listed = np.concatenate(found, axis=1)[0]
    assert [block.shape[1] for block in found] == [1, 1, 2, 4, 8, 16, 32, 64]
    linear = {int(w) ^ int(listed[0]) for w in listed}
    assert len(linear) == 128
    assert {u ^ v for u in linear for v in linear} == linear
    nearest = min(min(distance(0, w), 40 - distance(0, w)) for w in linear - {0})
    assert nearest >= 10  # of uniform pairs, one in 8 or so is nearer: (128 choose 2) of them have minimum 4 to 6


@pytest.mark.parametrize(("p", "K"), [(48, 1), (48, 3), (64, 4)])
def test_the_signal_is_worth_more_than_guessing_when_k_is_small(p, K):
    """40 plays, whose cost varies by 0.7 of its mean at most: a ninth for the mean.  It is about 1.15 of what theory
    says, and the limits are 3 deviations from that."""
    found = cost("local", p, K, 40)
    assert 0.75 * found.expected < found.mean.mean < 1.55 * found.expected
    assert found.mean.mean < 0.35 * found.bound.guesses


def test_luck_finds_it_when_k_is_large():
    """400 plays at a constant rate: the limits are 5 deviations of the mean."""
    found = cost("local", 16, 30, 400)
    assert found.mean.mean == pytest.approx(found.expected, rel=0.25)


def test_routes_are_legal_and_end_where_they_should():
    rng = np.random.default_rng(0)
    for p, K in ((2, 2), (2, 5), (3, 4), (5, 2), (8, 2), (9, 3), (64, 7), (100, 12)):
        last = draw(p, 200, rng)
        words, chance = _queries_to(last, K, p, rng)
        assert (words[-1] == last).all()
        game = AbstractGame(p, K)
        for i in range(0, 200, 7):
            path = [unpack(words[j, :, i]) for j in range(K)]
            assert game.f(path) == pytest.approx(game.g(distance(path[-1], game.secret)) * chance[i])
            steps = [distance(u, v) for u, v in zip([0, *path], path, strict=False)]
            assert sum(step > least_far(p) for step in steps) <= (K > 2) + 1 or K < 4


def test_best_takes_the_cheaper_one():
    assert Best().choice(64, 1) == Local()
    assert Best(limit=9).choice(96, 4) == Local(limit=9)
    assert Best().choice(16, 20) == Blind(code=True, pairs=True)
    assert Best().choice(8, 1) == Blind(code=True)


# -------------------------------------------------------------------------------------------- measurement


def test_cost_reports_mean_interval_theory_and_bound():
    found = cost("pairs", 16, 20, seeds=50)
    assert found.costs == cost("pairs", 16, 20, seeds=range(50)).costs
    assert found.found == len(found.costs) == 50
    assert found.mean.mean == np.mean(found.costs)
    assert found.mean.low < found.expected < found.mean.high
    assert found.expected == float(found.bound.guesses) / 2
    assert found.ratio == found.mean.mean / float(found.bound.guesses)
    assert found.bound == lower_bound(16, 20)


def test_plays_that_give_up_count_as_time():
    found = cost("uniform", 16, 20, 200, limit=60)
    assert found.found < 120
    assert max(found.costs) == 60
    assert found.mean.low < found.expected < found.mean.high
    none = cost("uniform", 64, 20, 3, limit=10)
    assert (none.found, none.mean.mean, none.mean.high) == (0, np.inf, np.inf)
    assert none.mean.low == pytest.approx(30 / 3.69, rel=0.01)  # -log 0.025


def test_the_interval_holds_for_geometric_costs():
    """500 intervals: fewer than 450 of 95% hold with probability below 1e-5, 450 or more of 80% below 1e-8."""
    totals = np.random.default_rng(0).geometric(1 / 40, size=(500, 15)).sum(axis=1)
    intervals = [interval(int(total), 15) for total in totals]
    assert sum(low < 40 < high for _, low, high in intervals) >= 450


def test_large_dimensions_play_on():
    play = AbstractGame(300, 3, seed=1).play(Blind(code=True, pairs=True, limit=2000))
    assert play.queries == 2000
    assert AbstractGame(300, 3, seed=1).play(Local(limit=100)).queries == 100


def test_unknown_strategy_and_bad_seeds():
    with pytest.raises(BadInput, match="unknown strategy 'covring'; did you mean 'covering'"):
        cost("covring", 8, 2)
    with pytest.raises(BadInput, match="seeds must be a whole number >= 1, got 0"):
        cost("uniform", 8, 2, 0)
    with pytest.raises(BadInput, match="p must be a whole number >= 2, got 1"):
        cost("uniform", 1, 2)
    for player in (Blind, Local, Best):
        with pytest.raises(BadInput, match="limit must be a whole number >= 0, got -1"):
            player(limit=-1)
