"""Batches of packed queries against single ones."""

import numpy as np
import pytest

from tensorplan.core.errors import BadInput
from tensorplan.game import AbstractGame, Answer
from tensorplan.game.kernels import weights
from tensorplan.game.packed import antipodal, draw, legal, pack, pack_bits, unpack, word_count
from tensorplan.problems.hard.hypercube import to_signs

SHAPES = [(2, 1, 1), (5, 3, 3), (8, 4, 2), (16, 2, 1), (63, 3, 3), (64, 2, 2), (65, 5, 3), (130, 3, 2), (700, 1, 1)]


def random_batch(p, L, n, rng):
    """Legal packed queries (L, W, n) and the same as lists of numbers: each weight at least half-way from the last."""
    ones = pack([(1 << p) - 1], p)
    batch, before = [], np.zeros((word_count(p), n), dtype=np.uint64)
    for _ in range(L):
        w = draw(p, n, rng)
        before = np.where(2 * weights(w ^ before) >= p, w, w ^ ones)
        batch.append(before)
    words = np.stack(batch)
    return words, [[unpack(words[j, :, i]) for j in range(L)] for i in range(n)]


def pair(p, K, seed=0):
    secret = AbstractGame(p, K, seed=seed).secret
    return AbstractGame(p, K, secret, seed), AbstractGame(p, K, secret, seed)


def plant(words, numbers, p, secret):
    """Make the secret the last weight of the first query from 200 on in which that is legal."""
    at = next(i for i in range(200, 300) if 4 * ([0, *numbers[i]][-2] ^ secret).bit_count() >= p)
    numbers[at][-1] = secret
    words[-1, :, at] = pack([secret], p)[:, 0]


@pytest.mark.parametrize("p", [2, 7, 8, 63, 64, 65, 128, 200])
def test_packing(p):
    rng = np.random.default_rng(p)
    words = draw(p, 50, rng)
    numbers = [unpack(words[:, i]) for i in range(50)]
    assert max(numbers) < 1 << p
    assert (pack(numbers, p) == words).all()
    assert (pack_bits(np.array([to_signs(w, p) for w in numbers]) < 0) == words).all()
    assert weights(words).tolist() == [w.bit_count() for w in numbers]
    assert [unpack(w) for w in legal(words, -(-p // 4)).T] == [w for w in numbers if 4 * w.bit_count() >= p]
    for w, (first, second) in zip(numbers, antipodal(words, p).transpose(2, 0, 1), strict=True):
        assert {unpack(first), unpack(second)} == {w, w ^ ((1 << p) - 1)}
        assert 2 * unpack(first).bit_count() >= p


@pytest.mark.parametrize(("p", "K", "L"), SHAPES)
def test_batch_equals_single_queries(p, K, L):
    """The same replies, coins included: both toss one coin per query with V = 1 or L = K, in order."""
    words, numbers = random_batch(p, L, 300, np.random.default_rng(1))
    one, many = pair(p, K)
    plant(words, numbers, p, one.secret)
    answers = many.query_batch(words)
    assert [Answer(*map(int, reply)) for reply in zip(*answers, strict=True)] == [one.query(q) for q in numbers]
    assert (many.queries, many.found_at) == (one.queries, one.found_at) == (300, many.found_at)


@pytest.mark.parametrize(("p", "K", "L"), SHAPES)
def test_search_stops_where_single_queries_would(p, K, L):
    words, numbers = random_batch(p, L, 300, np.random.default_rng(2))
    one, many = pair(p, K)
    for game in (one, many):
        game.K = K + 1  # no coins but at a hit, so that the streams stay together
    plant(words, numbers, p, one.secret)
    stopped = many.query_batch(words, stop=True)
    replies = []
    while not replies or not (replies[-1].U or replies[-1].V):
        replies.append(one.query(numbers[len(replies)]))
    assert [Answer(*map(int, reply)) for reply in zip(*stopped, strict=True)] == replies
    again = AbstractGame(p, K + 1, one.secret)
    hit = again.search(words)
    assert (hit.at, hit.answer[:2]) == (len(replies) - 1, replies[-1][:2])
    assert again.queries == again.found_at == many.queries == many.found_at == len(replies)
    if hit.at:
        before = AbstractGame(p, K, one.secret)
        assert before.search(words[:, :, : hit.at]) is None
        assert (before.queries, before.found_at) == (hit.at, None)


def test_coins_of_a_batch_have_mean_f():
    """200000 coins: false alarm below 1e-9 (6.2 deviations); a mean off by 0.01 slips through below 1e-9."""
    game = AbstractGame(16, 2, 0b1111_0000_1111_0000, seed=1)
    path = [0b0000_1111_0000_1111, 0b0000_1111_1111_0000]
    Z = game.query_batch(np.repeat(pack(path, 16).T[:, :, None], 200_000, axis=2)).Z
    f = float(game.f(path))
    assert abs(Z.mean() - f) <= 6.2 * np.sqrt(f * (1 - f) / 200_000)


@pytest.mark.parametrize("ask", ["query_batch", "search"])
def test_bad_batches(ask):
    game = AbstractGame(16, 2, 0b1111_0000_1111_0000)
    words, _ = random_batch(16, 2, 40, np.random.default_rng(0))

    def refuse(batch, message):
        with pytest.raises(BadInput) as error:
            getattr(game, ask)(batch)
        assert str(error.value) == message
        assert game.queries == 0

    refuse(words[0], "a batch must be uint64 words of shape (L, 1, n), got uint64 (1, 40)")
    refuse(words.astype(np.int64), "a batch must be uint64 words of shape (L, 1, n), got int64 (2, 1, 40)")
    refuse(np.concatenate([words, words]), "a query has from 1 to K = 2 weight vectors, got 4")
    short = words.copy()
    short[1, 0, 0] = short[0, 0, 0] ^ np.uint64(0b111)
    message = "weight vector 2 must differ from weight vector 1 in at least p/4 = 4 components, got 3"
    refuse(short, f"query 0 of the batch: {message}")
    first = words.copy()
    first[0, 0, 0] = 1
    message = "weight vector 1 must differ from the vector of ones in at least p/4 = 4 components, got 1"
    refuse(first, f"query 0 of the batch: {message}")
    stray = words.copy()
    stray[1, 0, 39] |= np.uint64(1 << 20)
    refuse(stray, "a batch must have no bits set beyond the 16 components of a weight vector")
