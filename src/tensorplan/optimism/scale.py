"""The program in the unit ball: every row and every form's slope a unit vector, the objective too."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tensorplan.core.errors import ProgramError
from tensorplan.optimism.kernels.state import Rows
from tensorplan.optimism.program import Array, Program

TINY = 1e-300
"""Next to nothing, and far enough from zero to have all its digits."""

LEAST, MOST = 1e-140, 1e140
"""The sizes that the search handles: the product of any two, and their ratio, have 28 decades to spare."""

FAINT = 1e-290
"""The least size of an objective, times the radius or not: values have all their digits."""

FAR = 1e25
"""Distances, in the unit ball, that are as good as infinite; times the largest B ‖a‖ they are still a float."""


@dataclass(frozen=True, eq=False)
class Scaled:
    """A program, and what it is in the unit ball."""

    program: Program
    rows: Rows
    size: float
    """B ‖c‖: values in the unit ball, times this, are values of the program."""
    row_norms: Array
    form_norms: Array
    """Of the forms' slopes, (n A,)."""

    def norm(self, name: int) -> float:
        """The norm of a row or of a form's slope in the program, by its name in :class:`Rows`; 1 for a constant one."""
        if name < 0:
            return float(self.form_norms[-1 - name]) if self.rows.moves[-1 - name] else 1.0
        return float(self.row_norms[name]) if self.program.radius * self.row_norms[name] > 0 else 1.0


def scale(program: Program) -> Scaled:
    """The program in the unit ball; sizes that double precision cannot handle are refused."""
    radius, d = program.radius, program.dimension
    forms = program.forms.reshape(-1, d + 1)
    with np.errstate(over="ignore", under="ignore"):  # what overflows is refused, or as good as infinite
        length, norms, slopes = _length(program), _norms(program.rows), _norms(forms[:, 1:])
        _check_sizes(program, norms, slopes)
        row_scale, form_scale, constants = radius * norms, radius * slopes, np.abs(forms[:, 0])
        moves = FAR * form_scale > constants
        form_scale = np.where(moves, form_scale, constants)
        form_scale[form_scale == 0] = 1.0
        unit = _over(program.rows, row_scale / radius if radius > 0 else row_scale)
        hi = _over(program.rhs, np.where(row_scale > 0, row_scale, np.abs(program.rhs)))
        rows = Rows(
            c=program.objective / length if length * radius > 0 else np.zeros(d),
            a=unit if radius > 0 else np.zeros_like(unit),
            hi=np.minimum(np.maximum(hi, -FAR), FAR),
            f=forms[:, 1:] / np.where(moves, slopes, np.inf)[:, None],
            centre=-forms[:, 0] / form_scale,
            scale=form_scale,
            moves=moves,
        )
    return Scaled(program, rows, radius * length, norms, slopes)


def _length(program: Program) -> float:
    """‖c‖; what no multiple of it can be told from 0, or from infinity, is refused."""
    length = math.sqrt(program.objective @ program.objective)
    if LEAST <= length <= MOST or not program.objective.any():
        return length
    length = math.hypot(*program.objective.tolist())
    if length > MOST or min(length, length * (program.radius or 1.0)) < FAINT:
        raise ProgramError(
            f"the norm of the objective is about {length:.1e}, and the search handles 0 and {FAINT:g} to {MOST:g}, "
            "times the radius too"
        )
    return length


def _check_sizes(program: Program, norms: Array, slopes: Array) -> None:
    """Refuse numbers so large or small that their products and ratios leave double precision; see :class:`Search`."""
    forms = program.forms.reshape(-1, program.dimension + 1)
    if program.radius != 0.0 and not LEAST <= program.radius <= MOST:
        raise _refusal("the radius", program.radius)
    sizes = np.concatenate([norms, slopes])
    if sizes.size and not (sizes.min() >= LEAST and sizes.max() <= MOST):
        vectors = np.concatenate([program.rows, forms[:, 1:]])
        wrong = ~((sizes >= LEAST) & (sizes <= MOST)) & vectors.any(axis=1)
        if wrong.any():
            k = int(np.argmax(wrong))
            name = f"row {k}" if k < len(norms) else f"form {divmod(k - len(norms), program.alternatives)}"
            raise _refusal(f"the norm of {name}", float(np.abs(vectors[k]).max()))
    if program.product and len(forms):
        _check_products(program, np.abs(forms[:, 0]) + program.radius * slopes)


def _check_products(program: Program, sizes: Array) -> None:
    """Refuse products that may overflow or vanish, whatever the order of multiplication."""
    alternatives, tol = program.alternatives, program.tol
    usual = min(1.0, sizes.min()) ** alternatives >= LEAST and max(1.0, sizes.max()) ** alternatives <= MOST
    if usual and not ((tol > 0) & (tol < TINY * MOST)).any():
        return
    factors = np.where(sizes > 0, sizes, 1.0).reshape(-1, alternatives)
    grown, shrunk = np.maximum(factors, 1.0).prod(axis=1), np.minimum(factors, 1.0).prod(axis=1)
    for products in (grown, shrunk):
        wrong = ~((products >= LEAST) & (products <= MOST))
        if wrong.any():
            i = int(np.argmax(wrong))
            raise _refusal(f"what the factors of product {i} multiply to", float(products[i]))
    wrong = (tol > 0) & (tol < TINY * grown)  # no factor can be that small
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ProgramError(f"the tolerance of product {i} is {tol[i]:.1e}: too small to be told from 0, say so")


def _refusal(what: str, size: float) -> ProgramError:
    return ProgramError(f"{what} is about {size:.1e}, and the search handles 0 and {LEAST:g} to {MOST:g}")


def _norms(vectors: Array) -> Array:
    norms: Array = np.sqrt((vectors * vectors).sum(axis=1))
    return norms


def _over(x: Any, norm: Any) -> Array:
    """x / norm row by row; rows of norm zero stay as they are."""
    safe = np.where(norm > 0, norm, 1.0)
    return np.ascontiguousarray(x / (safe[:, None] if x.ndim == 2 else safe))
