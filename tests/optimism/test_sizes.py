"""Numbers of any size: scaled, or refused in a sentence, and compiled code stays within its arrays."""

import os
import subprocess
import sys

import numpy as np
import pytest

from tensorplan.optimism import Program, ProgramError, Search, solve, verify
from tensorplan.optimism.search import compile_now

HANDLED = 10.0 ** np.array([-139, -70, -8, 0, 8, 70, 139])
ALL = 10.0 ** np.array([-300, -160, -139, -30, -8, 0, 8, 30, 139, 160, 300])

LINE = {"objective": [1.0], "radius": 1.0}


def sized_program(rng):
    """A program of sizes at random, a tenth of them 0; constants fit the radius in half of them."""
    d, alternatives, n, m = (int(rng.integers(*ends)) for ends in ((1, 4), (1, 4), (0, 4), (0, 4)))
    sizes = (ALL, HANDLED, np.ones(1))[rng.integers(3)]

    def size(*shape):
        return rng.choice(sizes, size=shape) * (rng.random(shape) > 0.1)

    radius, objective = float(size()), rng.normal(size=d) * size()
    forms, rows, rhs = rng.normal(size=(n, alternatives, d + 1)), rng.normal(size=(m, d)), rng.normal(size=m)
    related = rng.random() < 0.5
    scale, row_scale = size(n, alternatives), size(m)
    forms[..., 1:] *= scale[..., None]
    rows *= row_scale[:, None]
    with np.errstate(over="ignore"):
        forms[..., 0] *= scale * radius if related else size(n, alternatives)
        rhs *= row_scale * radius if related else size(m)
    largest = np.finfo(np.float64).max
    return Program(
        objective,
        radius,
        rows,
        np.clip(rhs, -largest, largest),
        np.clip(forms, -largest, largest),
        np.abs(rng.normal(size=n)) * size(n),
        bool(rng.integers(2)),
    )


def check(count, seed):
    """How many programs of any size have a status, all of them verified, or are refused."""
    rng = np.random.default_rng(seed)
    statuses = []
    for _ in range(count):
        program = sized_program(rng)
        try:
            found = solve(program, node_limit=300, certificate=True)
        except ProgramError:
            statuses.append("refused")
        else:
            verify(program, found)
            statuses.append(found.status)
    return {status: statuses.count(status) for status in statuses}


def test_what_is_not_refused_is_verified():
    seen = check(1500, 0)
    assert seen["optimal"] > 300
    assert seen["infeasible"] > 200
    assert seen["refused"] < 600


@pytest.mark.slow  # it compiles everything once more
def test_compiled_code_stays_within_its_arrays(tmp_path):
    """With checks compiled in, which takes most of the time; not optimised, to be done sooner."""
    environment = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_OPT": "0", "NUMBA_CACHE_DIR": str(tmp_path)}
    found = subprocess.run(
        [sys.executable, __file__], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"radius": 1e300, "forms": [[[0.0, 1.0]]], "tol": 1e280, "product": True},
            "the radius is about 1.0e+300, and the search handles 0 and 1e-140 to 1e+140",
        ),
        (
            {"rows": [[1.0], [1e-160]], "rhs": [1.0, 1.0]},
            "the norm of row 1 is about 1.0e-160, and the search handles 0 and 1e-140 to 1e+140",
        ),
        (
            {"forms": [[[0.0, 1.0], [0.0, 1e200]]]},
            "the norm of form (0, 1) is about 1.0e+200, and the search handles 0 and 1e-140 to 1e+140",
        ),
        (
            {"objective": [1e-300]},
            "the norm of the objective is about 1.0e-300, and the search handles 0 and 1e-290 to 1e+140, times the "
            "radius too",
        ),
        (
            {"forms": [[[0.0, 1e100], [0.0, 1e100]]], "tol": 1.0, "product": True},
            "what the factors of product 0 multiply to is about 1.0e+200, and the search handles 0 and 1e-140 to "
            "1e+140",
        ),
        (
            {"forms": [[[0.0, 1.0], [0.0, 1.0]]], "tol": 1e-305, "product": True},
            "the tolerance of product 0 is 1.0e-305: too small to be told from 0, say so",
        ),
    ],
)
def test_what_cannot_be_scaled_is_refused_in_a_sentence(fields, sentence):
    with pytest.raises(ProgramError) as error:
        solve(Program(**(LINE | fields)))
    assert str(error.value) == sentence


def test_a_refused_extension_leaves_the_search_as_it_was():
    search = Search(Program([1.0], 1.0))
    with pytest.raises(ProgramError, match="the norm of row 0"):
        search.extend([[1e200]], [1.0])
    assert search.solve().value == 1.0
    assert len(search.program.rows) == 0


if __name__ == "__main__":
    compile_now()
    print(check(250, 1))
