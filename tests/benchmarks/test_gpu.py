"""The search on a GPU: its generator and its counting everywhere, its kernel against NumPy where there is a GPU."""

import sys

import numpy as np
import pytest
from benchmarks import gpu_guessing as gpu

from tensorplan.core.errors import BadInput, TensorplanError
from tensorplan.game import AbstractGame, Blind
from tensorplan.game.balls import least_far
from tensorplan.game.packed import pack, pack_bits, unpack
from tensorplan.problems.hard.hypercube import from_secret, is_close


def missing():
    try:
        gpu.load()
    except BadInput as error:
        return str(error)
    return ""


on_gpu = pytest.mark.skipif(bool(missing()), reason=missing())


def bits(words, p):
    """The components that are -1, (n, p)."""
    parts = [np.unpackbits(row.astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, bitorder="little") for row in words]
    assert not np.concatenate(parts, axis=1)[:, p:].any()
    return np.concatenate(parts, axis=1)[:, :p]


class Twin:
    """What the kernel computes, by NumPy."""

    def __init__(self, p, secret, seed, far=None):
        self.p, self.seed, self.calls = p, seed, []
        self.far = least_far(p) if far is None else far
        self.secret = bits(pack([secret], p), p)

    def __call__(self, start, n):
        self.calls.append((start, n))
        guesses = bits(gpu.guesses(self.p, self.seed, start, n), self.p)
        legal = guesses.sum(axis=1) >= self.far
        close = np.flatnonzero(legal & ((guesses != self.secret).sum(axis=1) < self.far))
        return (start + int(close[0]) if len(close) else None), int((~legal).sum())


def a_secret(p, seed):
    return from_secret(None, p, np.random.default_rng(seed))


def cost_by_the_game(p, secret, seed, limit):
    """Legal guesses, one after the other, as queries of the abstract game."""
    game = AbstractGame(p, 1, secret)
    start = 0
    while True:
        words = gpu.guesses(p, seed, start, 5000)
        legal = np.array([not is_close(unpack(w).bit_count(), p) for w in words.T])
        words = words[:, legal][:, : limit - game.queries]
        hit = game.search(words[None]) if words.shape[1] else None
        if hit is not None or game.queries == limit:
            return game.queries, None if hit is None else unpack(words[:, hit.at])
        start += 5000


# --------------------------------------------------------------------------------------------- everywhere


def test_the_generator_is_splitmix64(monkeypatch):
    """The published outputs for the state 1234567."""
    monkeypatch.setattr(gpu, "stream", lambda seed: np.array([seed], dtype=np.uint64))
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert gpu.guesses(64, 1234567, 0, 4)[0].tolist() == expected
    assert gpu.guesses(128, 1234567, 0, 2).T.ravel().tolist() == expected


@pytest.mark.parametrize("p", [2, 5, 33, 64, 65, 96, 128, 200])
def test_any_part_of_the_guesses_can_be_made_alone(p):
    whole = gpu.guesses(p, 7, 0, 300)
    assert whole.shape == (-(-p // 64), 300)
    assert (gpu.guesses(p, 7, 120, 80) == whole[:, 120:200]).all()
    assert (pack_bits(bits(whole, p).astype(bool)) == whole).all()  # no bits beyond the p components
    assert (gpu.guesses(p, 8, 0, 300) != whole).any()


@pytest.mark.parametrize("p", [5, 64, 100])
def test_guesses_are_uniform(p):
    """Means, correlations of components and of neighbours, over 20,000 guesses: 5.5 deviations, false alarm < 1e-3."""
    n = 20_000
    signs = 1.0 - 2.0 * bits(gpu.guesses(p, 3, 10**12, n), p)
    limit = 5.5 / n**0.5
    assert np.abs(signs.mean(axis=0)).max() <= limit
    assert np.abs(signs.T @ signs / n - np.eye(p)).max() <= limit
    assert np.abs(signs[1:].T @ signs[:-1] / (n - 1)).max() <= limit
    other = 1.0 - 2.0 * bits(gpu.guesses(p, 4, 10**12, n), p)
    assert np.abs(signs.T @ other / n).max() <= limit


@pytest.mark.parametrize(("p", "limit"), [(2, 9), (5, 1), (8, 100), (16, 1000), (16, 40), (70, 3000)])
def test_costs_are_those_of_the_game(p, limit):
    for seed in range(12):
        secret = a_secret(p, seed)
        cost, found = gpu.first_close(Twin(p, secret, seed), limit)
        weight = None if found is None else unpack(gpu.guesses(p, seed, found, 1)[:, 0])
        assert (cost, weight) == cost_by_the_game(p, secret, seed, limit)
        assert cost == limit or weight is not None


@pytest.mark.parametrize("p", [4, 8, 16])
def test_mean_cost_is_that_of_uniform_guesses(p, monkeypatch):
    """1500 searches, deviation of the mean at most 1/38 of it: false alarm below 1e-6."""
    monkeypatch.setattr(gpu, "FIRST", 512)
    costs = [gpu.first_close(Twin(p, a_secret(p, seed), seed), None)[0] for seed in range(1500)]
    assert np.mean(costs) == pytest.approx(float(Blind().expected(p)), rel=4.9 / 1500**0.5)


def test_launches_double_follow_each_other_and_respect_the_limit(monkeypatch):
    monkeypatch.setattr(gpu, "FIRST", 4)
    monkeypatch.setattr(gpu, "LARGEST", 16)
    twin = Twin(64, a_secret(64, 0), 0)
    assert gpu.first_close(twin, 50) == (50, None)
    assert twin.calls == [(0, 4), (4, 8), (12, 16), (28, 16), (44, 6)]
    assert gpu.first_close(twin, 0) == (0, None)
    strict = Twin(64, a_secret(64, 0), 0, far=32)  # many guesses are illegal, many are close
    close = strict(0, 100)[0]
    strict.calls.clear()
    cost, found = gpu.first_close(strict, None)
    assert found == close
    start, n = strict.calls[-1]
    assert start + n == close  # the illegal ones before it were counted by another launch
    assert cost == (bits(gpu.guesses(64, 0, 0, close + 1), 64).sum(axis=1) >= 32).sum()


def test_without_cupy_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(BadInput) as error:
        gpu.search_on_gpu(64, None)
    assert str(error.value) == (
        "a search on a GPU needs CuPy: install the extra 'gpu', as in pip install 'tensorplan[gpu]'"
    )


def test_without_a_gpu_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", _NoGPU)
    with pytest.raises(BadInput, match=r"^a search on a GPU needs one, and CuPy finds none: no CUDA-capable device$"):
        gpu.search_on_gpu(64, None)


class _NoGPU:
    class cuda:  # noqa: N801
        class runtime:  # noqa: N801
            CUDARuntimeError = OSError

            @staticmethod
            def getDeviceCount():  # noqa: N802
                raise OSError("no CUDA-capable device")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((1, None), "p must be a whole number >= 2, got 1"),
        ((64, 0), "the secret must have between p/4 = 16 and 3p/4 = 48 components -1, got 0"),
        ((64, None, -1), "seed must be a whole number from 0 to 18446744073709551615, got -1"),
        ((64, None, 0, -1), "limit must be a whole number >= 0, got -1"),
    ],
)
def test_bad_input(arguments, sentence):
    with pytest.raises(BadInput, match=sentence):
        gpu.search_on_gpu(*arguments)


def test_a_gpu_that_errs_is_found_out(monkeypatch):
    class Broken(Twin):
        def __init__(self, p, secret, seed):
            super().__init__(p, secret, seed)
            self.secret = secret

        def __call__(self, start, n):
            return start + 3, 0

    monkeypatch.setattr(gpu, "Device", Broken)
    with pytest.raises(TensorplanError, match=r"^the GPU reported guess 3 of seed 5, which is not legal and close$"):
        gpu.search_on_gpu(64, a_secret(64, 0), 5)


# -------------------------------------------------------------------------------------------- on a GPU


@on_gpu
@pytest.mark.parametrize("p", [2, 3, 8, 31, 33, 48, 64, 65, 96, 128, 129, 200, 300])
def test_the_kernel_does_what_numpy_does(p):
    """Also with a distance that many guesses have, and at places where the counter is large."""
    secret = a_secret(p, p)
    for far in (least_far(p), p // 2, 1):
        device, twin = gpu.Device(p, secret, 11), Twin(p, secret, 11, far)
        device.far = far
        for start, n in ((0, 1), (0, 50_000), (5, 16384), (7, 16385), (2**40 + 3, 30_000)):
            found, illegal = twin(start, n)
            assert device(start, n)[0] == found
            if found is None:
                assert device(start, n)[1] == illegal


@on_gpu
@pytest.mark.parametrize(("p", "limit"), [(2, 9), (8, 100), (16, 1000), (16, 40), (48, 20_000), (64, 10**6)])
def test_searches_agree(p, limit):
    for seed in range(6):
        secret = a_secret(p, seed)
        cost, found = gpu.first_close(Twin(p, secret, seed), limit)
        weight = None if found is None else unpack(gpu.guesses(p, seed, found, 1)[:, 0])
        assert gpu.search_on_gpu(p, secret, seed, limit) == (cost, weight)


@on_gpu
def test_mean_cost_on_the_gpu():
    """1500 searches, as above."""
    costs = [gpu.search_on_gpu(64, a_secret(64, seed), seed).cost for seed in range(1500)]
    assert np.mean(costs) == pytest.approx(float(Blind().expected(64)), rel=4.9 / 1500**0.5)
