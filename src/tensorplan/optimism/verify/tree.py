"""The tree: its branchings cover the feasible set, and every multiplier belongs to a row or a range on its path."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tensorplan.core.errors import CertificateError
from tensorplan.optimism.program import KINDS, Array, BoundTree, Ints, Program


def check_tree(program: Program, tree: BoundTree) -> None:
    """Refuse what is not a tree of covers and splits with multipliers at its leaves."""
    _check_arrays(tree)
    _check_nodes(program, tree)
    _check_entries(program, tree)
    _check_branchings(program, tree)


def _check_arrays(tree: BoundTree) -> None:
    """The arrays are vectors of the right kind, with lengths that agree."""
    nodes = len(np.atleast_1d(tree.parent))
    entries = len(np.atleast_1d(tree.index))
    if not nodes:
        raise CertificateError("the certificate has no nodes, not even the root")
    lengths = dict.fromkeys(KINDS, nodes) | {"start": nodes + 1, "index": entries, "value": entries}
    for name, length in lengths.items():
        array = np.asarray(getattr(tree, name))
        kind = np.dtype(KINDS[name]).kind
        if array.dtype.kind != kind or array.dtype.itemsize != 8:
            raise CertificateError(f"{name} of the certificate holds {array.dtype}, not {kind}8")
        if array.shape != (length,):
            raise CertificateError(f"{name} of the certificate has shape {array.shape}, not ({length},)")


def _check_nodes(program: Program, tree: BoundTree) -> None:
    """Node 0 is the root, every other node has an earlier parent and a range of a form, and leaves have bounds."""
    parent, edge = tree.parent, np.arange(len(tree.parent)) > 0
    if parent[0] != -1:
        raise CertificateError(f"node 0 must be the root, with parent -1, and has parent {parent[0]}")
    n, alternatives = len(program.forms), program.alternatives
    refuse(
        edge & ((parent < 0) | (parent >= np.arange(len(parent)))),
        lambda k: f"node {k} has parent {parent[k]}: parents come before their children",
    )
    refuse(
        edge & ((tree.form < 0) | (tree.form >= n)),
        lambda k: f"node {k} branches on form {tree.form[k]}, the program has {n}",
    )
    refuse(
        edge & ((tree.choice < 0) | (tree.choice >= alternatives)),
        lambda k: f"node {k} takes alternative {tree.choice[k]}, the program has {alternatives}",
    )
    low, high = tree.low, tree.high
    refuse(edge & ~(low <= high), lambda k: f"node {k} has the range [{low[k]}, {high[k]}], which is none")
    inner, bound = inner_nodes(tree), tree.bound
    refuse(inner & ~np.isnan(bound), lambda k: f"node {k} has children and the bound {bound[k]:g} all the same")
    refuse(~inner & np.isnan(bound), lambda k: f"leaf {k} has no bound: it was never closed, or lost its children")
    refuse(bound == math.inf, lambda k: f"leaf {k} claims the bound inf, which says nothing")


def _check_entries(program: Program, tree: BoundTree) -> None:
    """Only leaves have multipliers, one per row at most, and >= 0, or one per range on the path, with a finite end."""
    start, index, value = tree.start, tree.index, tree.value
    nodes, rows = len(tree.parent), len(program.rows)
    if start[0] != 0 or start[-1] != len(index):
        raise CertificateError(f"start must run from 0 to {len(index)}, and runs from {start[0]} to {start[-1]}")
    refuse(start[1:] < start[:-1], lambda k: f"start decreases at node {k}, from {start[k]} to {start[k + 1]}")
    count = np.diff(start)
    refuse(inner_nodes(tree) & (count > 0), lambda k: f"node {k} has children and multipliers")
    leaf = np.repeat(np.arange(nodes), count)
    refuse(index >= rows, lambda t: f"leaf {leaf[t]} has a multiplier for row {index[t]}, the program has {rows}")
    refuse(
        index <= -nodes, lambda t: f"leaf {leaf[t]} has a multiplier for the range of node {-int(index[t])} of {nodes}"
    )
    refuse(~np.isfinite(value), lambda t: f"leaf {leaf[t]} has the multiplier {value[t]}")
    refuse(
        (index >= 0) & (value < 0),
        lambda t: f"leaf {leaf[t]} has the negative multiplier {value[t]:g} for row {index[t]}",
    )
    first, last = _intervals(tree.parent)
    node = np.where(index < 0, -index, 0)
    refuse(
        (first[leaf] < first[node]) | (first[leaf] >= last[node]),
        lambda t: f"leaf {leaf[t]} has a multiplier for the range of node {node[t]}, which is not on its path",
    )
    end = used_ends(tree)
    refuse(
        ~np.isfinite(end),
        lambda t: f"leaf {leaf[t]} has the multiplier {value[t]:g} for the end {end[t]} of the range of node {node[t]}",
    )
    order = np.lexsort((index, leaf))
    twice = (np.diff(index[order]) == 0) & (np.diff(leaf[order]) == 0)
    refuse(twice, lambda t: f"leaf {leaf[order[t]]} has two multipliers of index {index[order[t]]}")


def _check_branchings(program: Program, tree: BoundTree) -> None:
    """Every feasible θ of an inner node lies in one of its children, which are a cover or a split.

    The ranges of a cover are finite, those of a split are not: an infinite end of any of the children makes it a split.
    """
    if len(tree.parent) == 1:
        return
    child = 1 + np.argsort(tree.parent[1:], kind="stable")  # the children of each node together, in their order
    parent, form = tree.parent[child], tree.form[child]
    split = np.zeros(len(tree.parent), dtype=np.bool_)
    split[parent[np.isinf(tree.low[child]) | np.isinf(tree.high[child])]] = True
    count = np.bincount(parent, minlength=len(split))
    due = np.where(split, 2, program.alternatives)
    refuse(
        (count > 0) & (count != due),
        lambda k: f"node {k} has {count[k]} children, a {'split' if split[k] else 'cover'} has {due[k]}",
    )
    eldest = (np.cumsum(count) - count)[parent]
    refuse(form != form[eldest], lambda t: f"the children of node {parent[t]} branch on different forms")
    _check_splits(tree, child[split[parent]].reshape(-1, 2))
    _check_covers(program, tree, child[~split[parent]].reshape(-1, program.alternatives))


def _check_splits(tree: BoundTree, family: Ints) -> None:
    """The two children of each row have the ranges (-inf, s] and [s, inf) of one form: every θ is in one of them."""
    node, choice = tree.parent[family[:, 0]], tree.choice[family]
    low, high = tree.low[family], tree.high[family]
    refuse(
        (low[:, 0] != -math.inf) | (high[:, 1] != math.inf) | ~np.isfinite(high[:, 0]) | ~np.isfinite(low[:, 1]),
        lambda t: f"the children of node {node[t]} have an infinite end but not the ranges (-inf, s] and [s, inf)",
    )
    refuse(choice[:, 0] != choice[:, 1], lambda t: f"the children of node {node[t]} split different alternatives")
    refuse(
        high[:, 0] != low[:, 1],
        lambda t: f"the children of node {node[t]} are split at {high[t, 0]} and {low[t, 1]}, which do not meet",
    )


def _check_covers(program: Program, tree: BoundTree, family: Ints) -> None:
    """The children of each row have each alternative of one form i once, and ranges [-w_a, w_a] that are wide enough.

    A feasible θ has |l_{i,a}| <= tol_i for some a, so w_a >= tol_i for all a is enough.  In a product program let
    Π_a w_a >= tol_i: a θ outside all ranges has Π_a |l_{i,a}| > Π_a w_a >= tol_i and is not feasible.
    """
    node, child = tree.parent[family[:, 0]], family.ravel()
    missing = (np.sort(tree.choice[family], axis=1) != np.arange(program.alternatives)).any(axis=1)
    refuse(missing, lambda t: f"the children of node {node[t]} do not have each alternative once")
    low, high, form = tree.low[child], tree.high[child], tree.form[child]
    refuse(low != -high, lambda t: f"node {child[t]} has the range [{low[t]}, {high[t]}], a cover has [-w, w]")
    if program.product:
        _check_products(program, tree, family)
    else:
        narrow = high < program.tol[form]
        refuse(narrow, lambda t: f"node {child[t]} has a range narrower than the tolerance of form {form[t]}")


def _check_products(program: Program, tree: BoundTree, family: Ints) -> None:
    for children in family:
        product = math.prod(map(Fraction, tree.high[children].tolist()), start=Fraction(1))
        node, form = tree.parent[children[0]], tree.form[children[0]]
        if product < Fraction(float(program.tol[form])):
            raise CertificateError(
                f"the widths of the children of node {node} multiply to less than tol of form {form}"
            )


def inner_nodes(tree: BoundTree) -> NDArray[np.bool_]:
    """Which nodes have children."""
    inner = np.zeros(len(tree.parent), dtype=np.bool_)
    inner[tree.parent[1:]] = True
    return inner


def used_ends(tree: BoundTree) -> Array:
    """The end of its range that each multiplier uses: high if it is > 0, low if it is < 0; 0 if it is 0 or of a row."""
    value, ranged = tree.value, tree.index < 0
    edge = np.where(ranged, -tree.index, 0)
    end = np.where(value > 0, tree.high[edge], tree.low[edge])
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


def refuse(wrong: NDArray[np.bool_], sentence: Callable[[int], str]) -> None:
    """Raise CertificateError with the sentence for the first entry that is wrong, if any is."""
    if wrong.any():
        raise CertificateError(sentence(int(np.argmax(wrong))))
