"""The checker: a certificate is believed for what its numbers prove, not for where they came from.

It shares nothing with the search but the data types.  A leaf with multipliers y proves, by weak duality,

    <c, θ>  <=  Σ_j y_j g_j + Σ_e y_e (end_e - l0_e) + B ‖c - Σ_j y_j G_j - Σ_e y_e l_e‖                          (*)

for every θ of the ball with G_j θ <= g_j (y_j >= 0) and low_e <= l0_e + <l_e, θ> <= high_e, where end_e is high_e for
y_e > 0 and low_e for y_e < 0, and must be finite.  The same with c = 0 reads 0 <= right-hand side, so a negative
right-hand side shows that no θ is there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tensorplan.core.errors import CertificateError
from tensorplan.optimism.program import Array, BoundTree, Ints, Program, Solution

CLAIM = 1e-9
"""A claimed number may be off by this much of |claim| + B ‖c‖: claims are floating-point evaluations."""
DOUBT = 1e-6
"""A leaf may be off by the worst rounding of a plain evaluation too, but not by more than this much of the same."""
FEASIBLE = 1e-7
"""A θ may exceed a constraint by this much of the largest value its left-hand side has on the ball."""

_TINY = float(np.finfo(np.float64).tiny)
_EPS = float(np.finfo(np.float64).eps)
_BLOCK = 1 << 21


def verify(program: Program, solution: Solution, *, exact: bool = False) -> float:
    """A proven upper bound of max <objective, θ> over the program; -inf when it is proven to be infeasible.

    Raises :class:`CertificateError` unless the certificate is a tree whose branchings cover the feasible set, the
    multipliers of each leaf prove what the leaf claims, and bound, value, theta and status agree with the leaves.

    The claims are compared, not trusted: a claim further than ``CLAIM`` (and the rounding of its own evaluation, at
    most ``DOUBT``) from what the multipliers prove, on either side, is refused.  What comes back is the largest
    right-hand side of (*) itself, rounded outward, so it holds whatever the claims were.  A leaf that floating point
    cannot decide is decided in rational arithmetic; with ``exact`` all leaves are, and the answer is that maximum
    rounded up to a float.
    """
    certificate = solution.certificate
    if certificate is None:
        raise CertificateError("the solution has no certificate: solve with certificate=True")
    _check_arrays(certificate)
    _check_nodes(program, certificate)
    _check_entries(program, certificate)
    _check_branchings(program, certificate)
    leaves = _Leaves.of(program, certificate)
    confirmed = _check_leaves(_Terms(program), leaves, exact)
    _check_status(program, solution, leaves)
    _check_theta(program, solution, confirmed)
    return confirmed


# ---------------------------------------------------------------------------------------------------- the tree


def _check_arrays(certificate: BoundTree) -> None:
    """The arrays are vectors of the right kind, with lengths that agree."""
    nodes = len(np.atleast_1d(certificate.parent))
    entries = len(np.atleast_1d(certificate.index))
    if not nodes:
        raise CertificateError("the certificate has no nodes, not even the root")
    lengths = dict.fromkeys(("parent", "form", "choice", "low", "high", "bound"), nodes)
    lengths |= {"start": nodes + 1, "index": entries, "value": entries}
    for name, length in lengths.items():
        array = np.asarray(getattr(certificate, name))
        kind = "f" if name in ("low", "high", "bound", "value") else "i"
        if array.dtype.kind != kind or array.dtype.itemsize != 8:
            raise CertificateError(f"{name} of the certificate holds {array.dtype}, not {kind}8")
        if array.shape != (length,):
            raise CertificateError(f"{name} of the certificate has shape {array.shape}, not ({length},)")


def _check_nodes(program: Program, certificate: BoundTree) -> None:
    """Node 0 is the root, every other node has an earlier parent and a range of a form, and leaves have bounds."""
    parent, edge = certificate.parent, np.arange(len(certificate.parent)) > 0
    if parent[0] != -1:
        raise CertificateError(f"node 0 must be the root, with parent -1, and has parent {parent[0]}")
    n, alternatives = len(program.forms), program.alternatives
    _refuse(
        edge & ((parent < 0) | (parent >= np.arange(len(parent)))),
        lambda k: f"node {k} has parent {parent[k]}: parents come before their children",
    )
    _refuse(
        edge & ((certificate.form < 0) | (certificate.form >= n)),
        lambda k: f"node {k} branches on form {certificate.form[k]}, the program has {n}",
    )
    _refuse(
        edge & ((certificate.choice < 0) | (certificate.choice >= alternatives)),
        lambda k: f"node {k} takes alternative {certificate.choice[k]}, the program has {alternatives}",
    )
    low, high = certificate.low, certificate.high
    _refuse(edge & ~(low <= high), lambda k: f"node {k} has the range [{low[k]}, {high[k]}], which is none")
    inner, bound = _inner(certificate), certificate.bound
    _refuse(inner & ~np.isnan(bound), lambda k: f"node {k} has children and the bound {bound[k]:g} all the same")
    _refuse(~inner & np.isnan(bound), lambda k: f"leaf {k} has no bound: it was never closed, or lost its children")
    _refuse(bound == math.inf, lambda k: f"leaf {k} claims the bound inf, which says nothing")


def _check_entries(program: Program, certificate: BoundTree) -> None:
    """Only leaves have multipliers, each of an own row, and >= 0, or of a finite end of a range on the path to it."""
    start, index, value = certificate.start, certificate.index, certificate.value
    nodes, rows = len(certificate.parent), len(program.rows)
    if start[0] != 0 or start[-1] != len(index):
        raise CertificateError(f"start must run from 0 to {len(index)}, and runs from {start[0]} to {start[-1]}")
    _refuse(start[1:] < start[:-1], lambda k: f"start decreases at node {k}, from {start[k]} to {start[k + 1]}")
    count = np.diff(start)
    _refuse(_inner(certificate) & (count > 0), lambda k: f"node {k} has children and multipliers")
    leaf = np.repeat(np.arange(nodes), count)
    _refuse(index >= rows, lambda t: f"leaf {leaf[t]} has a multiplier for row {index[t]}, the program has {rows}")
    _refuse(
        index <= -nodes, lambda t: f"leaf {leaf[t]} has a multiplier for the range of node {-int(index[t])} of {nodes}"
    )
    _refuse(~np.isfinite(value), lambda t: f"leaf {leaf[t]} has the multiplier {value[t]}")
    _refuse(
        (index >= 0) & (value < 0),
        lambda t: f"leaf {leaf[t]} has the negative multiplier {value[t]:g} for row {index[t]}",
    )
    first, last = _intervals(certificate.parent)
    node = np.where(index < 0, -index, 0)
    _refuse(
        (first[leaf] < first[node]) | (first[leaf] >= last[node]),
        lambda t: f"leaf {leaf[t]} has a multiplier for the range of node {node[t]}, which is not on its path",
    )
    end = _ends(certificate)
    _refuse(
        ~np.isfinite(end),
        lambda t: f"leaf {leaf[t]} has the multiplier {value[t]:g} for the end {end[t]} of the range of node {node[t]}",
    )
    order = np.lexsort((index, leaf))
    twice = (np.diff(index[order]) == 0) & (np.diff(leaf[order]) == 0)
    _refuse(twice, lambda t: f"leaf {leaf[order[t]]} has two multipliers of index {index[order[t]]}")


def _check_branchings(program: Program, certificate: BoundTree) -> None:
    """Every feasible θ of an inner node lies in one of its children, which are a cover or a split.

    The ranges of a cover are finite, those of a split are not: an infinite end of any of the children makes it a split.
    """
    if len(certificate.parent) == 1:
        return
    child = 1 + np.argsort(certificate.parent[1:], kind="stable")  # the children of each node together, in their order
    parent, form = certificate.parent[child], certificate.form[child]
    split = np.zeros(len(certificate.parent), dtype=np.bool_)
    split[parent[np.isinf(certificate.low[child]) | np.isinf(certificate.high[child])]] = True
    count = np.bincount(parent, minlength=len(split))
    due = np.where(split, 2, program.alternatives)
    _refuse(
        (count > 0) & (count != due),
        lambda k: f"node {k} has {count[k]} children, a {'split' if split[k] else 'cover'} has {due[k]}",
    )
    eldest = (np.cumsum(count) - count)[parent]
    _refuse(form != form[eldest], lambda t: f"the children of node {parent[t]} branch on different forms")
    _check_splits(certificate, child[split[parent]].reshape(-1, 2))
    _check_covers(program, certificate, child[~split[parent]].reshape(-1, program.alternatives))


def _check_splits(certificate: BoundTree, family: Ints) -> None:
    """The two children of each row have the ranges (-inf, s] and [s, inf) of one form: every θ is in one of them."""
    node, choice = certificate.parent[family[:, 0]], certificate.choice[family]
    low, high = certificate.low[family], certificate.high[family]
    _refuse(
        (low[:, 0] != -math.inf) | (high[:, 1] != math.inf) | ~np.isfinite(high[:, 0]) | ~np.isfinite(low[:, 1]),
        lambda t: f"the children of node {node[t]} have an infinite end but not the ranges (-inf, s] and [s, inf)",
    )
    _refuse(choice[:, 0] != choice[:, 1], lambda t: f"the children of node {node[t]} split different alternatives")
    _refuse(
        high[:, 0] != low[:, 1],
        lambda t: f"the children of node {node[t]} are split at {high[t, 0]} and {low[t, 1]}, which do not meet",
    )


def _check_covers(program: Program, certificate: BoundTree, family: Ints) -> None:
    """The children of each row have each alternative of one form i once, and ranges [-w_a, w_a] that are wide enough.

    A feasible θ has |l_{i,a}| <= tol_i for some a, so w_a >= tol_i for all a is enough.  In a product program let
    Π_a w_a >= tol_i: a θ outside all ranges has Π_a |l_{i,a}| > Π_a w_a >= tol_i and is not feasible.
    """
    node, child = certificate.parent[family[:, 0]], family.ravel()
    missing = (np.sort(certificate.choice[family], axis=1) != np.arange(program.alternatives)).any(axis=1)
    _refuse(missing, lambda t: f"the children of node {node[t]} do not have each alternative once")
    low, high, form = certificate.low[child], certificate.high[child], certificate.form[child]
    _refuse(low != -high, lambda t: f"node {child[t]} has the range [{low[t]}, {high[t]}], a cover has [-w, w]")
    if program.product:
        _check_products(program, certificate, family)
    else:
        narrow = high < program.tol[form]
        _refuse(narrow, lambda t: f"node {child[t]} has a range narrower than the tolerance of form {form[t]}")


def _check_products(program: Program, certificate: BoundTree, family: Ints) -> None:
    for children in family:
        product = math.prod(map(Fraction, certificate.high[children].tolist()), start=Fraction(1))
        node, form = certificate.parent[children[0]], certificate.form[children[0]]
        if product < Fraction(float(program.tol[form])):
            raise CertificateError(
                f"the widths of the children of node {node} multiply to less than tol of form {form}"
            )


def _inner(certificate: BoundTree) -> NDArray[np.bool_]:
    """Which nodes have children."""
    inner = np.zeros(len(certificate.parent), dtype=np.bool_)
    inner[certificate.parent[1:]] = True
    return inner


def _ends(certificate: BoundTree) -> Array:
    """The end of its range that each multiplier uses: high if it is > 0, low if it is < 0; 0 if it is 0 or of a row."""
    value, ranged = certificate.value, certificate.index < 0
    edge = np.where(ranged, -certificate.index, 0)
    end = np.where(value > 0, certificate.high[edge], certificate.low[edge])
    return np.where(ranged & (value != 0), end, 0.0)


def _intervals(parent: Ints) -> tuple[Ints, Ints]:
    """(first, last) with: e is k or above k in the tree exactly when first[e] <= first[k] < last[e].

    These are the places of a node and of the end of its subtree when the tree is written parent first.
    """
    above = parent.tolist()
    size = [1] * len(above)
    for k in range(len(above) - 1, 0, -1):
        size[above[k]] += size[k]
    first = [0] * len(above)
    free = [1] * len(above)  # the next place below each node
    for k in range(1, len(above)):
        first[k] = free[above[k]]
        free[above[k]] += size[k]
        free[k] = first[k] + 1
    return np.array(first), np.array(first) + np.array(size)


def _refuse(wrong: NDArray[np.bool_], sentence: Callable[[int], str]) -> None:
    """Nothing, when nothing is wrong; else the sentence for the first that is."""
    if wrong.any():
        raise CertificateError(sentence(int(np.argmax(wrong))))


# -------------------------------------------------------------------------------------------------- the leaves


class _Terms:
    """All that a multiplier can stand at, rows first, then forms: <vector, θ> <= offset (+ end, for a form).

    With it each entry adds y·offset + y·end to the right-hand side of (*), and takes y·vector from c.
    """

    def __init__(self, program: Program) -> None:
        d = program.dimension
        forms = program.forms.reshape(-1, d + 1)
        self.objective = program.objective
        self.radius = program.radius
        self.vector = np.concatenate([program.rows, forms[:, 1:]])
        self.offset = np.concatenate([program.rhs, -forms[:, 0]])
        self.length = _norms(self.vector)
        self.scale = _scale(program)

    @cached_property
    def integers(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], int]:
        """objective, vector and offset as integers, all times 2^shift: floats are integers over a power of two."""
        whole = np.concatenate([np.append(self.objective, 0.0)[None], np.column_stack([self.vector, self.offset])])
        scaled, shift = _dyadic(whole)
        return scaled[0, :-1], scaled[1:, :-1], scaled[1:, -1], shift


@dataclass(frozen=True)
class _Leaves:
    """The leaves with their claims; leaf t has the entries start[t] .. start[t+1]-1 of (term, value, end)."""

    node: Ints
    claim: Array
    start: Ints
    term: Ints
    value: Array
    end: Array

    @staticmethod
    def of(program: Program, certificate: BoundTree) -> _Leaves:
        # Inner nodes have no entries, so the entries of successive leaves follow one another without a gap.
        node = np.flatnonzero(~_inner(certificate))
        ranged = certificate.index < 0
        edge = np.where(ranged, -certificate.index, 0)
        term = len(program.rows) + certificate.form[edge] * program.alternatives + certificate.choice[edge]
        return _Leaves(
            node,
            certificate.bound[node],
            np.append(certificate.start[node], len(certificate.index)),
            np.where(ranged, term, certificate.index),
            certificate.value,
            _ends(certificate),
        )

    @property
    def empty(self) -> NDArray[np.bool_]:
        return np.isneginf(self.claim)

    def blocks(self, dimension: int) -> Iterator[tuple[int, int]]:
        """Ranges of leaves whose entries, times the dimension, fit comfortably into memory."""
        step = max(1, int(_BLOCK / (dimension * (1 + len(self.term) / len(self.node)))))
        for low in range(0, len(self.node), step):
            yield low, min(low + step, len(self.node))


def _check_leaves(terms: _Terms, leaves: _Leaves, exact: bool) -> float:
    """The largest right-hand side of (*) over the leaves that are not empty, rounded up; claims are checked.

    Floating point settles the leaves that are plainly as claimed; the others, wrong or undecided because the rounding
    is larger than the margin, are evaluated exactly, which also finds the number to report.
    """
    with np.errstate(all="ignore"):
        value, doubt = _evaluate(terms, leaves)
        upper = np.nextafter(value + doubt, math.inf)
        size = np.abs(leaves.claim) + terms.scale + _TINY
        allowed = CLAIM * size + np.fmin(doubt, DOUBT * size)
        agrees = (np.abs(value - leaves.claim) <= CLAIM * size) & (doubt <= CLAIM * size) & np.isfinite(upper + size)
        clear = np.where(leaves.empty, upper < 0, agrees)
    for t in range(len(clear)) if exact else np.flatnonzero(~clear).tolist():
        upper[t] = _check_exactly(terms, leaves, t, float(allowed[t]))
    return float(np.max(upper[~leaves.empty], initial=-math.inf))


def _evaluate(terms: _Terms, leaves: _Leaves) -> tuple[Array, Array]:
    """The right-hand side of (*) of each leaf in floating point, and a radius that surely holds its rounding error.

    Let u = eps/2 and γ_k = k u / (1 - k u).  A leaf has N entries; products and sums in any order, with or without
    fused operations, give, with M = B (‖c‖ + Σ |y| ‖vector‖) + Σ |y| (|offset| + |end|),

        ‖r^ - r‖ <= γ_{N+1} (‖c‖ + Σ |y| ‖vector‖)   for r = c - Σ y vector, by the triangle inequality,
        fl(‖r^‖) within γ_{d+3} ‖r^‖,   the scalar sum within γ_{2N+1} Σ |y| (|offset| + |end|),

    and two more roundings for the product with B and the last sum: in all at most γ_K M, K = 2N + d + 8.  M itself is
    computed, as M^ >= (1 - γ_K) M, and γ_K / (1 - γ_K) <= 2 K u = K eps while K u <= 1/4; the radius is twice that,
    which also pays for the roundings made in computing it and in value ± radius.  Products that underflow err by less
    than the smallest normal number each, at most K² of them.  Overflow makes the radius infinite or not a number.
    """
    value, doubt = np.empty(len(leaves.node)), np.empty(len(leaves.node))
    radius, d = terms.radius, len(terms.objective)
    length = float(_norms(terms.objective[None])[0])
    for low, high in leaves.blocks(d):
        start = leaves.start[low : high + 1] - leaves.start[low]
        part = slice(leaves.start[low], leaves.start[high])
        y, term, end = leaves.value[part], leaves.term[part], leaves.end[part]
        aimed = ~leaves.empty[low:high]  # an empty leaf is closed with c = 0
        rest = np.where(aimed[:, None], terms.objective, 0.0) - _sums(y[:, None] * terms.vector[term], start)
        value[low:high] = _sums(y * terms.offset[term] + y * end, start) + radius * _norms(rest)
        pull = np.where(aimed, length, 0.0) + _sums(np.abs(y) * terms.length[term], start)
        mass = radius * pull + _sums(np.abs(y) * (np.abs(terms.offset[term]) + np.abs(end)), start)
        steps = 2.0 * np.diff(start) + (d + 8)
        doubt[low:high] = 2 * _EPS * steps * mass + (1 + radius) * steps**2 * _TINY
    return value, doubt


def _sums(parts: Array, start: Ints) -> Array:
    """Σ parts[start[t] : start[t+1]] for each t."""
    sums = np.zeros((len(start) - 1, *parts.shape[1:]))
    filled = np.diff(start) > 0  # reduceat gives a wrong answer for empty ranges
    if filled.any():
        sums[filled] = np.add.reduceat(parts, start[:-1][filled], axis=0)
    return sums


def _norms(vectors: Array) -> Array:
    """‖v‖ of each row, within a relative γ_{d+3}; scaled by a power of two, so that no square overflows or vanishes."""
    largest = np.abs(vectors).max(axis=1, initial=0.0)
    _, power = np.frexp(largest)
    with np.errstate(all="ignore"):
        scaled = np.ldexp(vectors, -power[:, None])
        return np.asarray(np.ldexp(np.sqrt((scaled * scaled).sum(axis=1)), power))


# ------------------------------------------------------------------------------------------ rational arithmetic


def _check_exactly(terms: _Terms, leaves: _Leaves, t: int, allowed: float) -> float:
    """The right-hand side of (*) of leaf t, s + √q for rational s, q, rounded up; -inf if it is empty, as claimed."""
    s, q = _right_side(terms, leaves, t)
    node, claim = leaves.node[t], float(leaves.claim[t])
    if claim == -math.inf:
        if s < 0 and q < s * s:
            return -math.inf
        raise CertificateError(f"leaf {node} claims to be empty but its multipliers prove only 0 <= {_shown(s, q)}")
    slack = Fraction(allowed) if math.isfinite(allowed) else Fraction(0)
    low, high = Fraction(claim) - slack, Fraction(claim) + slack
    if not _at_most(s, q, high) or (low > s and q < (low - s) ** 2):
        raise CertificateError(f"leaf {node} claims {claim:.12g} but its multipliers prove {_shown(s, q)}")
    return _round_up(s, q)


def _right_side(terms: _Terms, leaves: _Leaves, t: int) -> tuple[Fraction, Fraction]:
    """(s, q) with s + √q the right-hand side of (*): s the sum over the multipliers, q = B² ‖c - Σ y vector‖²."""
    part = slice(leaves.start[t], leaves.start[t + 1])
    objective, vector, offset, shift = terms.integers
    term = leaves.term[part]
    y, raised = _dyadic(leaves.value[part])
    end, lifted = _dyadic(leaves.end[part])
    rest = 0 if leaves.empty[t] else objective * (1 << raised)
    rest = rest - (y[:, None] * vector[term]).sum(axis=0)
    s = Fraction(int((y * offset[term]).sum()), 1 << (shift + raised))
    s += Fraction(int((y * end).sum()), 1 << (raised + lifted))
    q = Fraction(terms.radius) ** 2 * Fraction(int((rest * rest).sum()), 1 << 2 * (shift + raised))
    return s, q


def _dyadic(values: Array) -> tuple[NDArray[Any], int]:
    """(integers, shift) with values = integers / 2^shift, exactly."""
    ratios = [v.as_integer_ratio() for v in values.ravel().tolist()]
    shift = max((q.bit_length() - 1 for _, q in ratios), default=0)
    scaled = np.empty(len(ratios), dtype=object)
    scaled[:] = [p << (shift - q.bit_length() + 1) for p, q in ratios]
    return scaled.reshape(values.shape), shift


def _root_up(q: Fraction) -> Fraction:
    """A rational number >= √q, at most 2^-100 of it too large, and √q itself when that is rational."""
    top, bottom = math.isqrt(q.numerator), math.isqrt(q.denominator)
    if top**2 == q.numerator and bottom**2 == q.denominator:
        return Fraction(top, bottom)
    shift = max(0, 110 + (q.denominator.bit_length() - q.numerator.bit_length()) // 2)
    return Fraction(math.isqrt((q.numerator << 2 * shift) // q.denominator) + 1, 1 << shift)


def _at_most(s: Fraction, q: Fraction, limit: Fraction) -> bool:
    """Whether s + √q <= limit: squared, so that nothing is rounded."""
    return limit >= s and q <= (limit - s) ** 2


def _round_up(s: Fraction, q: Fraction) -> float:
    """A float >= s + √q, at most 2^-100 √q and the distance of two floats too large."""
    try:
        nearest = float(s + _root_up(q))
    except OverflowError:
        return math.inf
    return nearest if _at_most(s, q, Fraction(nearest)) else math.nextafter(nearest, math.inf)


def _shown(s: Fraction, q: Fraction) -> str:
    try:
        return f"{float(s + _root_up(q)):.12g}"
    except OverflowError:
        return "a number too large for a float"


# ------------------------------------------------------------------------------------------------ the solution


def _check_status(program: Program, solution: Solution, leaves: _Leaves) -> None:
    """The claimed bound is the largest of the leaves, and status says infeasible exactly when all leaves are empty.

    The value of theta, which satisfies the program up to ``FEASIBLE`` only, may be ahead of the leaves by as much: then
    it is the bound.  A bound below a leaf is none, be it by a hair.
    """
    status, bound, largest = solution.status, float(solution.bound), float(leaves.claim.max())
    if status not in ("optimal", "infeasible", "limit"):
        raise CertificateError(f"the solution has the unknown status {status!r}")
    if status == "optimal" and solution.theta is None:
        raise CertificateError("the solution is called optimal but has no theta")
    if (largest == -math.inf) != (status == "infeasible"):
        proven = "empty" if largest == -math.inf else "not all empty"
        raise CertificateError(f"the solution has the status {status!r} but its leaves are {proven}")
    slack = CLAIM * (abs(largest) + _scale(program) + _TINY)
    ahead = solution.theta is not None and largest > -math.inf
    highest = max(largest, float(solution.value)) if ahead else largest
    if bound != highest and not (largest <= bound <= highest + slack < math.inf):
        raise CertificateError(f"the solution claims the bound {bound:.12g} but its leaves claim {largest:.12g}")


def _check_theta(program: Program, solution: Solution, confirmed: float) -> None:
    """theta satisfies the program up to ``FEASIBLE``, and value is <objective, theta>, not above the bound."""
    value = float(solution.value)
    if solution.theta is None:
        if value != -math.inf:
            raise CertificateError(f"the solution has the value {value:.12g} but no theta")
        return
    if solution.status == "infeasible":
        raise CertificateError("the solution is called infeasible but has a theta")
    theta = np.asarray(solution.theta, dtype=np.float64)
    if theta.shape != (program.dimension,) or not np.isfinite(theta).all():
        raise CertificateError(f"theta must be a vector of {program.dimension} finite numbers")
    with np.errstate(all="ignore"):
        _check_feasible(program, theta)
        reached = float(program.objective @ theta)
    size = abs(reached) + _scale(program) + _TINY
    if not abs(value - reached) <= CLAIM * size < math.inf:
        raise CertificateError(f"the solution claims the value {value:.12g} but theta has {reached:.12g}")
    # theta is feasible up to FEASIBLE only, so its value may pass the bound by as much.
    if not value <= confirmed + FEASIBLE * size:
        raise CertificateError(f"the solution claims the value {value:.12g}, above the proven bound {confirmed:.12g}")


def _check_feasible(program: Program, theta: Array) -> None:
    """theta is in the ball, the rows and the disjunctions, each up to ``FEASIBLE`` times its largest size on the ball.

    Sizes: B for the ball, |g_j| + B ‖G_j‖ for row j, |l0| + B ‖l‖ for a form and the product of these for a product.
    """
    radius, length = program.radius, float(_norms(theta[None])[0])
    if not length <= radius * (1 + FEASIBLE):
        raise CertificateError(f"theta has norm {length:.12g}, the ball has radius {radius:.12g}")
    rows = program.rows @ theta
    room = program.rhs + FEASIBLE * (np.abs(program.rhs) + radius * _norms(program.rows))
    _refuse(~(rows <= room), lambda j: f"theta violates row {j}: {rows[j]:.12g} > {program.rhs[j]:.12g}")
    forms = np.abs(program.forms[..., 0] + program.forms[..., 1:] @ theta)
    vectors = program.forms[..., 1:].reshape(-1, program.dimension)
    sizes = np.abs(program.forms[..., 0]) + radius * _norms(vectors).reshape(forms.shape)
    if program.product:
        met = forms.prod(axis=1) <= program.tol + FEASIBLE * sizes.prod(axis=1)
    else:
        met = (forms <= program.tol[:, None] + FEASIBLE * sizes).any(axis=1)
    _refuse(~met, lambda i: f"theta violates disjunction {i}")


def _scale(program: Program) -> float:
    """B ‖objective‖: what <objective, θ> can be at most on the ball."""
    return program.radius * float(_norms(program.objective[None])[0])
