"""The data types: a program, what is known of its solution, and the tree that proves a bound."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tensorplan.core.errors import CertificateError, ProgramError

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

FORMAT = "tensorplan certificate 1"


@dataclass(frozen=True, eq=False, init=False)
class Program:
    """maximise <objective, θ>  over  ‖θ‖ <= radius,  rows θ <= rhs,  and one disjunction per i (see the package).

    With l_{i,a}(θ) = forms[i,a,0] + forms[i,a,1:] θ, disjunction i asks for some a with |l_{i,a}(θ)| <= tol[i]; with
    ``product`` it asks for |Π_a l_{i,a}(θ)| <= tol[i] instead.
    """

    objective: Array
    radius: float
    rows: Array
    rhs: Array
    forms: Array
    tol: Array
    product: bool

    def __init__(
        self,
        objective: ArrayLike,
        radius: float,
        rows: ArrayLike | None = None,
        rhs: ArrayLike | None = None,
        forms: ArrayLike | None = None,
        tol: ArrayLike = 0.0,
        product: bool = False,
    ) -> None:
        c = _numbers("objective", objective)
        if c.ndim != 1 or not c.size:
            raise ProgramError(f"objective must be a vector (d,), got shape {c.shape}")
        d = c.size
        if isinstance(radius, bool) or not isinstance(radius, int | float | np.integer | np.floating):
            raise ProgramError(f"radius must be a number, got {radius!r}")
        if not 0 <= radius < math.inf:
            raise ProgramError(f"radius must be finite and not negative, got {radius!r}")
        if (rows is None) != (rhs is None):
            raise ProgramError("rows and rhs go together: one of them is missing")
        g = np.zeros((0, d)) if rows is None else _numbers("rows", rows)
        h = np.zeros(0) if rhs is None else _numbers("rhs", rhs)
        f = np.zeros((0, 1, d + 1)) if forms is None else _numbers("forms", forms)
        if g.ndim != 2 or g.shape[1] != d:
            raise ProgramError(f"rows must have shape (m, {d}), got {g.shape}")
        if h.shape != (len(g),):
            raise ProgramError(f"rhs must have shape ({len(g)},), got {h.shape}")
        if f.ndim != 3 or f.shape[2] != d + 1:
            raise ProgramError(f"forms must have shape (n, A, {d + 1}), got {f.shape}")
        if f.shape[1] == 0:
            raise ProgramError("forms have A = 0 alternatives: no θ can satisfy a disjunction of nothing")
        t = _numbers("tol", tol)
        if t.shape not in ((), (len(f),)):
            raise ProgramError(f"tol must be a number or have shape ({len(f)},), got {t.shape}")
        if (t < 0).any():
            raise ProgramError(f"tol must not be negative, got {float(t[t < 0].flat[0])!r}")
        set_ = object.__setattr__
        set_(self, "objective", c)
        set_(self, "radius", float(radius))
        set_(self, "rows", g)
        set_(self, "rhs", h)
        set_(self, "forms", f)
        set_(self, "tol", np.broadcast_to(t, (len(f),)).astype(np.float64))
        set_(self, "product", bool(product))

    @property
    def dimension(self) -> int:
        """d, the length of θ."""
        return int(self.objective.size)

    @property
    def alternatives(self) -> int:
        """A, the number of forms in each disjunction."""
        return int(self.forms.shape[1])

    def extend(
        self,
        rows: ArrayLike | None = None,
        rhs: ArrayLike | None = None,
        forms: ArrayLike | None = None,
        tol: ArrayLike = 0.0,
    ) -> Program:
        """The program with more rows and disjunctions behind those it has."""
        more = Program(self.objective, self.radius, rows, rhs, forms, tol, self.product)
        if len(more.forms) and len(self.forms) and more.alternatives != self.alternatives:
            raise ProgramError(f"forms have A = {more.alternatives}, those of the program A = {self.alternatives}")
        return Program(
            self.objective,
            self.radius,
            np.concatenate([self.rows, more.rows]),
            np.concatenate([self.rhs, more.rhs]),
            np.concatenate([p.forms for p in (self, more) if len(p.forms)] or [self.forms]),
            np.concatenate([self.tol, more.tol]),
            self.product,
        )


@dataclass(frozen=True, eq=False)
class BoundTree:
    """A proof of an upper bound: a tree of branchings with multipliers at its leaves.

    Node 0 is the root, the whole ball with all rows; parents come before their children.  The edge into node k > 0 adds
    the range low[k] <= l_{i,a}(θ) <= high[k] with (i, a) = (form[k], choice[k]).  The children of an inner node are
    either a *cover*, one i, each a once, and ranges [-w_a, w_a] of which every feasible θ is in one (w_a >= tol_i, or
    Π_a w_a >= tol_i for a product); or a *split*, the ranges (-inf, s] and [s, inf) of one form, in that order.

    Each leaf is closed by multipliers y, entries start[k] .. start[k+1]-1 of (index, value): index j >= 0 is row j, and
    y >= 0; index -e < 0 is the range of node e on the path to the leaf, where y > 0 uses its high end and y < 0 its low
    end, which must be finite.
    """

    parent: Ints
    form: Ints
    choice: Ints
    low: Array
    high: Array
    bound: Array
    """What the multipliers of a leaf prove: <c, θ> <= bound there; -inf: no θ is there; NaN: an inner node."""
    start: Ints
    index: Ints
    value: Array

    @staticmethod
    def leaf(bound: float, index: Ints, value: Array) -> BoundTree:
        """A tree that is one leaf: multipliers of rows prove the bound."""
        one, ends = np.zeros(1, dtype=np.int64), np.array([0, len(index)], dtype=np.int64)
        infinite = np.array([np.inf])
        return BoundTree(one - 1, one - 1, one - 1, -infinite, infinite, np.array([bound]), ends, index, value)

    def save(self, path: str | Path) -> None:
        """Write it as JSON, exact to the last bit."""
        data: dict[str, Any] = {"format": FORMAT}
        for name in KINDS:
            values = getattr(self, name).tolist()
            data[name] = [v.hex() if isinstance(v, float) else v for v in values]
        Path(path).write_text(json.dumps(data), encoding="utf-8")

    @staticmethod
    def load(path: str | Path) -> BoundTree:
        """Read what :meth:`save` wrote."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
            if not isinstance(data, dict) or data.get("format") != FORMAT:
                raise CertificateError(f"{path} is not a file of the format {FORMAT!r}")
            parts: dict[str, Any] = {
                name: np.array([_number(v) for v in data[name]], dtype=kind) for name, kind in KINDS.items()
            }
        except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, ValueError, OverflowError) as error:
            if isinstance(error, CertificateError):
                raise
            raise CertificateError(f"{path} is not a readable certificate: {error}") from error
        return BoundTree(**parts)


KINDS: dict[str, type] = {f.name: np.int64 if f.type == "Ints" else np.float64 for f in fields(BoundTree)}
"""The arrays of a BoundTree, and what they hold."""


@dataclass(frozen=True, eq=False)
class Solution:
    """What is known of a program, and why the search stopped."""

    status: str
    """``"optimal"``: bound - value <= gap; ``"infeasible"``: no θ; ``"limit"``: time, nodes or digits ran out."""
    theta: Array | None
    """The best feasible θ found, None when there is none."""
    value: float
    """<objective, theta>; -inf without a theta."""
    bound: float
    """No feasible θ has a larger <objective, θ>; -inf when infeasible."""
    nodes: int
    """Node problems solved."""
    seconds: float
    certificate: BoundTree | None = None
    """What :func:`verify` checks; None unless it was asked for."""


def _number(text: Any) -> Any:
    return float.fromhex(text) if isinstance(text, str) else text


def _numbers(name: str, value: Any) -> Array:
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ProgramError(f"{name} must be an array of numbers") from None
    if not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ProgramError(f"{name} contains {array[place]} at index {place}")
    return array
