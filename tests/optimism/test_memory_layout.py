"""The answer does not depend, to the last bit, on where the arrays of the search lie in memory."""

import numpy as np
import pytest
from random_programs import random_program

from tensorplan.optimism import Search
from tensorplan.optimism import search as module
from tensorplan.optimism.search import compile_now

MAKERS = ("make_desk", "make_basis", "make_trial", "make_repair")


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    compile_now()


def programs():
    rng = np.random.default_rng(0)
    some = (random_program(rng, dims=(5, 24), most=10**6, product=rng.random() < 0.3)[0] for _ in range(60))
    return [program for program in some if len(program.forms)]


def flat(arrays):
    """All arrays of an object of arrays."""
    return [array for part in arrays for array in (flat(part) if isinstance(part, tuple) else [part])]


def rebuilt(arrays, copies):
    """An object like this one with the next copies in place of its arrays."""
    parts = [rebuilt(part, copies) if isinstance(part, tuple) else next(copies) for part in arrays]
    return type(arrays)(*parts)


def carve(arrays, arena, begin, order, apart):
    """Copies of the arrays in the arena, in that order, so many bytes apart; and where the last one ends."""
    originals = flat(arrays)
    copies = [None] * len(originals)
    for i in order(len(originals)):
        begin += -begin % 8
        copies[i] = np.ndarray(originals[i].shape, originals[i].dtype, buffer=arena, offset=begin)
        copies[i][...] = originals[i]
        begin += originals[i].nbytes + apart
    return rebuilt(arrays, iter(copies)), begin


def answer(monkeypatch, program, order, apart):
    """All that a search finds with its working memory in one arena; ``order`` says which array follows which."""
    arena, end = np.zeros(1 << 21, dtype=np.uint8), 0

    def arranged(make):
        def made(*sizes):
            nonlocal end
            arrays = make(*sizes)
            copies, end = carve(arrays, arena, end, order, apart)
            return copies

        return made

    with monkeypatch.context() as patch:
        for name in MAKERS:
            patch.setattr(module, name, arranged(getattr(module, name)))
        found = Search(program).solve(node_limit=300, certificate=True)
    theta = None if found.theta is None else found.theta.tobytes()
    return found.value, found.bound, found.nodes, theta, found.certificate.value.tobytes()


@pytest.mark.parametrize("apart", [0, 64, 4096])
def test_neighbours_in_memory_change_no_bit(monkeypatch, apart):
    """Side by side or far apart: compiled loops choose by that whether they run vectorised."""
    for k, program in enumerate(programs()):
        expected = answer(monkeypatch, program, range, 4096)
        for seed in range(4):
            shuffled = np.random.default_rng([k, seed]).permutation
            assert answer(monkeypatch, program, shuffled, apart) == expected
