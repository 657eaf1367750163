"""The rules of the abstract game, one query at a time."""

import doctest
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tensorplan.game
from tensorplan.core.errors import BadInput
from tensorplan.game import AbstractGame, Answer
from tensorplan.problems.hard.hypercube import distance, is_secret, to_signs

STEP = Fraction(25, 32)


def secrets(p):
    return [w for w in range(1 << p) if is_secret(w, p)]


def sequences(p, k):
    """W^{∘k}."""
    for path in product(range(1 << p), repeat=k):
        if all(4 * distance(u, v) >= p for u, v in zip((0, *path), path, strict=False)):
            yield path


@st.composite
def long_sequences(draw):
    """(p, a secret, a legal sequence), by steps that are drawn as sets of flips."""
    p = draw(st.integers(2, 80))
    far = -(-p // 4)
    secret = draw(st.sets(st.integers(0, p - 1), min_size=far, max_size=3 * p // 4))
    path, w = [], 0
    for flips in draw(st.lists(st.sets(st.integers(0, p - 1), min_size=far), min_size=1, max_size=8)):
        w ^= sum(1 << j for j in flips)
        path.append(w)
    return p, sum(1 << j for j in secret), path


def test_the_example():
    assert doctest.testmod(tensorplan.game) == (0, 6)


# ---------------------------------------------------------------------------------------- f, g and the payoff


@pytest.mark.parametrize("p", range(2, 11))
def test_best_payoff_lies_between_11_and_25_in_32(p):
    for secret in secrets(p):
        assert Fraction(11, 32) <= AbstractGame(p, 1, secret).best <= STEP


@pytest.mark.parametrize(("p", "k"), [(2, 1), (2, 4), (3, 1), (3, 3), (4, 2), (5, 2), (6, 1), (7, 1)])
def test_f_falls_by_25_in_32_with_every_step(p, k):
    """Lemma f-bounds, on all sequences and secrets."""
    for secret in secrets(p):
        game = AbstractGame(p, k, secret)
        for path in sequences(p, k):
            far = 4 * distance(path[-1], secret) >= p
            assert 0 < game.f(path) <= STEP ** (k + far)
            assert game.f(path) <= game.f(path[:-1])


@given(long_sequences())
def test_f_is_the_product_of_gs(case):
    p, secret, path = case
    game = AbstractGame(p, 8, secret)

    def g(u, v):
        x = int(p - to_signs(u, p) @ to_signs(v, p)) // 2
        return 1 - Fraction(x, p) + Fraction((x - 1) * x, 2 * p * p)

    value = g(path[-1], secret)
    for u, v in zip([0, *path], path, strict=False):
        value *= g(u, v)
    assert game.f(path) == game.f([to_signs(w, p) for w in path]) == value
    far = 4 * distance(path[-1], secret) >= p
    assert 0 < value <= min(STEP ** (len(path) + far), game.best)


@pytest.mark.parametrize("p", range(2, 40))
def test_a_detour_never_pays(p):
    """g(x) g(y) <= g(z) for all distances x, y, z that three weights can have: so f(()) is the best payoff."""
    g = [AbstractGame(p, 1).g(x) for x in range(p + 1)]
    for x, y in product(range(p + 1), repeat=2):
        for z in range(abs(x - y), min(x + y, 2 * p - x - y) + 1, 2):
            assert g[x] * g[y] <= g[z]


def test_payoff_stops_at_the_first_close_weight():
    p, secret = 8, 0b00001111
    game = AbstractGame(p, 2, secret)
    a, b, near = 0b11110000, 0b00111100, 0b00001011
    assert game.payoff([secret, a] * 4) == game.best == game.f([])
    assert game.payoff([a, near, a, secret, a, b, a, b]) == game.f([a, near])
    assert game.payoff([a, b] * 4) == game.f([a, b] * 4) <= STEP**9
    assert game.payoff([a, b, a, b, a, b, a, secret]) == game.f([a, b, a, b, a, b, a, secret])
    assert game.queries == 0


@pytest.mark.parametrize("p", [2, 3, 4])
def test_no_output_pays_more_than_the_secret(p):
    outputs = [first + (first[-1] ^ ((1 << p) - 1), first[-1]) * 3 for first in sequences(p, 2)]
    for secret in secrets(p):
        game = AbstractGame(p, 8, secret)
        assert max(game.payoff(output) for output in outputs) == game.best


# -------------------------------------------------------------------------------------------------- replies


@pytest.mark.parametrize("p", [2, 3, 4, 5, 8])
def test_u_and_v_of_all_short_queries(p):
    for secret in secrets(p)[:: max(1, len(secrets(p)) // 8)]:
        game = AbstractGame(p, 3, secret)
        asked = 0
        for k in (1, 2) if p < 8 else (1,):
            for path in sequences(p, k):
                U, V, Z = game.query(path)
                before = path[-2] if k > 1 else 0
                assert (4 * distance(before, secret) < p, 4 * distance(path[-1], secret) < p) == (bool(U), bool(V))
                assert V or not Z
                asked += 1
        assert game.queries == asked


def test_the_first_close_reply_is_noted():
    game = AbstractGame(8, 3, 0b1111)
    far, near = 0b11110000, 0b1111
    assert game.query([far]) == Answer(0, 0, 0)
    assert (game.queries, game.found_at) == (1, None)
    assert game.query([near, far]) == Answer(1, 0, 0)
    assert game.query([near]).V == 1
    assert (game.queries, game.found_at) == (3, 2)


@pytest.mark.parametrize("path", [[0b11110000], [0b11110000, 0b1111], [0b11110000, 0b1111, 0b11110000]])
def test_z_is_a_coin_with_mean_f(path):
    """20000 tosses of a mean near f: false alarm below 1e-9 (6.2 deviations); a mean off by 0.05 slips through below
    1e-9.  Where V = 0 and the query is short, Z is always 0."""
    game = AbstractGame(8, 3, 0b1111, seed=4)
    tosses = sum(game.query(path).Z for _ in range(20_000))
    f = float(game.f(path)) if len(path) >= 2 else 0.0
    assert abs(tosses / 20_000 - f) <= 6.2 * np.sqrt(f * (1 - f) / 20_000)


def test_secrets_are_uniform_in_w_star():
    """3000 draws of 10 possible secrets (p = 5, exact counts): a count is off by 110 with probability below 1e-9 each,
    and a secret twice as likely as it should be slips through below 1e-9."""
    drawn = [AbstractGame(5, 1, seed=s).secret for s in range(3000)]
    possible = [w for w in range(32) if 2 <= w.bit_count() <= 3]
    assert set(drawn) == set(possible)
    counts = np.bincount(drawn, minlength=32)[possible]
    assert np.abs(counts - 3000 / len(possible)).max() < 110


def test_seeds_reproduce_and_weights_may_be_signs():
    def replies(seed):
        game = AbstractGame(8, 2, seed=seed)
        return [game.secret, *(game.query([0b11110000, 0b1111]) for _ in range(50))]

    assert replies(3) == replies(3) != replies(4)
    signs = to_signs(0b1111, 8)
    game = AbstractGame(8, 2, signs)
    assert game.secret == 0b1111
    assert game.query(np.array([-signs, signs]))[:2] == (0, 1)
    assert game.query([-signs, 0b1111])[:2] == (0, 1)


# ------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, 1), "p must be a whole number >= 2, got 1"),
        ((2.5, 1), "p must be a whole number >= 2, got 2.5"),
        ((8, 0), "K must be a whole number >= 1, got 0"),
        ((8, 1, 0b1), "the secret must have between p/4 = 2 and 3p/4 = 6 components -1, got 1"),
        ((8, 1, [1, -1]), "the secret must have p = 8 components, got 2"),
        ((8, 1, None, -1), "seed must be a whole number >= 0, got -1"),
    ],
)
def test_bad_games(arguments, message):
    with pytest.raises(BadInput) as error:
        AbstractGame(*arguments)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("sequence", "message"),
    [
        ([], "a query has from 1 to K = 3 weight vectors, got 0"),
        ([240, 15, 240, 15], "a query has from 1 to K = 3 weight vectors, got 4"),
        ([1], "weight vector 1 must differ from the vector of ones in at least p/4 = 2 components, got 1"),
        ([15, 15], "weight vector 2 must differ from weight vector 1 in at least p/4 = 2 components, got 0"),
        ([240, 15, 7], "weight vector 3 must differ from weight vector 2 in at least p/4 = 2 components, got 1"),
        ([256], "weight vector 1 as a bit mask must be from 0 to 2^8 - 1, got 256"),
        ([[1, 1]], "weight vector 1 must have p = 8 components, got 2"),
        ([[1, 1, 1, 1, -1, -1, -1, 0]], "weight vector 1 must have components 1 or -1, got 0 at component 7"),
        (7, "expected a sequence of weight vectors, got 7"),
    ],
)
def test_bad_queries(sequence, message):
    game = AbstractGame(8, 3, 0b1111)
    with pytest.raises(BadInput) as error:
        game.query(sequence)
    assert str(error.value) == message
    assert game.queries == 0


def test_bad_outputs():
    game = AbstractGame(8, 3, 0b1111)
    with pytest.raises(BadInput, match="the output must have 8 weight vectors, got 7"):
        game.payoff([240, 15, 240, 15, 240, 15, 240])
    with pytest.raises(BadInput, match="weight vector 8 must differ from weight vector 7 in at least p/4 = 2"):
        game.payoff([240, 15, 240, 15, 240, 15, 240, 240])
    with pytest.raises(BadInput, match="the output must have 8 weight vectors, got 1"):
        game.play(lambda game, rng: [15])
