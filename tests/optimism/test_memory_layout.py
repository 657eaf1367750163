"""The answer does not depend, to the last bit, on where the arrays of the search lie in memory."""

import numpy as np
import pytest
from random_programs import random_program

from tensorplan.optimism import Search
from tensorplan.optimism import search as module
from tensorplan.optimism.kernels.state import Desk

MAKERS = ("make_desk", "make_keep", "make_trial", "make_repair")


def programs():
    rng = np.random.default_rng(0)
    some = (random_program(rng, dims=(5, 24), most=10**6, product=rng.random() < 0.3)[0] for _ in range(60))
    return [program for program in some if len(program.forms)]


def carve(arrays, arena, begin, order, apart):
    """Copies of the arrays in the arena, in that order, so many bytes apart; and where the last one ends."""
    copies = [None] * len(arrays)
    for i in order:
        begin += -begin % 8
        copies[i] = np.ndarray(arrays[i].shape, arrays[i].dtype, buffer=arena, offset=begin)
        copies[i][...] = arrays[i]
        begin += arrays[i].nbytes + apart
    return type(arrays)(*copies), begin


def answer(monkeypatch, program, order, apart):
    """All that a search finds with its working memory in one arena; ``order`` says which array follows which."""
    arena, end = np.zeros(1 << 21, dtype=np.uint8), 0

    def arranged(make):
        def made(*sizes):
            nonlocal end
            arrays = make(*sizes)
            copies, end = carve(arrays, arena, end, order(len(arrays)), apart)
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


@pytest.mark.parametrize(("first", "second"), [("z", "q"), ("q", "pc"), ("u", "r"), ("n", "z"), ("pc", "x")])
def test_two_neighbours_that_are_read_and_written_in_one_place_change_no_bit(monkeypatch, first, second):
    """The arrays by which a new row enters the basis, one right behind the other."""
    names = Desk._fields
    pair = [names.index(first), names.index(second)]

    def adjacent(count):
        return [i for i in range(count) if i not in pair] + pair if count == len(names) else range(count)

    for program in programs():
        assert answer(monkeypatch, program, adjacent, 0) == answer(monkeypatch, program, range, 4096)
