import doctest
import math

import numpy as np
import pytest

import tensorplan.optimism
from tensorplan.optimism import Program, ProgramError


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"objective": [[1.0]]}, "objective must be a vector (d,), got shape (1, 1)"),
        ({"objective": []}, "objective must be a vector (d,), got shape (0,)"),
        ({"objective": [1.0, math.nan]}, "objective contains nan at index (1,)"),
        ({"objective": ["a", "b"]}, "objective must be an array of numbers"),
        ({"radius": -1.0}, "radius must be finite and not negative, got -1.0"),
        ({"radius": math.inf}, "radius must be finite and not negative, got inf"),
        ({"radius": "1"}, "radius must be a number, got '1'"),
        ({"rows": [[1.0, 0.0]]}, "rows and rhs go together: one of them is missing"),
        ({"rows": [[1.0]], "rhs": [1.0]}, "rows must have shape (m, 2), got (1, 1)"),
        ({"rows": [[1.0, 0.0]], "rhs": [1.0, 2.0]}, "rhs must have shape (1,), got (2,)"),
        ({"rows": [[1.0, math.inf]], "rhs": [1.0]}, "rows contains inf at index (0, 1)"),
        ({"forms": np.zeros((2, 3, 2))}, "forms must have shape (n, A, 3), got (2, 3, 2)"),
        ({"forms": np.zeros((2, 0, 3))}, "forms have A = 0 alternatives: no θ can satisfy a disjunction of nothing"),
        ({"forms": np.full((1, 1, 3), math.nan)}, "forms contains nan at index (0, 0, 0)"),
        ({"forms": np.zeros((2, 3, 3)), "tol": [1.0]}, "tol must be a number or have shape (2,), got (1,)"),
        ({"forms": np.zeros((2, 3, 3)), "tol": -0.5}, "tol must not be negative, got -0.5"),
        ({"forms": np.zeros((2, 3, 3)), "tol": [0.0, -0.25]}, "tol must not be negative, got -0.25"),
    ],
)
def test_bad_programs_are_one_sentence(fields, sentence):
    with pytest.raises(ProgramError) as error:
        Program(**({"objective": [1.0, 0.0], "radius": 1.0} | fields))
    assert str(error.value) == sentence


def test_extend_appends():
    program = Program([1.0, 0.0], 1.0).extend([[1.0, 1.0]], [2.0], np.ones((2, 3, 3)), 0.5)
    program = program.extend(forms=np.zeros((1, 3, 3)))
    assert program.rows.shape == (1, 2)
    assert program.forms.shape == (3, 3, 3)
    assert program.tol.tolist() == [0.5, 0.5, 0.0]
    with pytest.raises(ProgramError, match="forms have A = 2, those of the program A = 3"):
        program.extend(forms=np.zeros((1, 2, 3)))


def test_what_is_given_is_copied():
    c = np.array([1.0, 0.0])
    program = Program(c, 1.0)
    c[0] = 7.0
    assert program.objective[0] == 1.0


def test_the_page_of_the_package_speaks_the_truth():
    result = doctest.testmod(tensorplan.optimism)
    assert result.attempted >= 5
    assert result.failed == 0
