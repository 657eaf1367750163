"""The same transitions in all the forms that a table takes them in."""

from __future__ import annotations

import numpy as np
from scipy import sparse

FORMS = ("dense", "flat", "csr", "coo", "matrix")


def stored(dense: np.ndarray, form: str):
    flat = dense.reshape(-1, dense.shape[2])
    if form == "csr":
        return sparse.csr_array(flat)
    if form == "coo":
        # explicit zeros, and every entry in two halves, must not matter
        rows, columns = (index.ravel() for index in np.indices(flat.shape))
        halves = np.concatenate([flat.ravel(), flat.ravel()]) / 2
        return sparse.coo_array((halves, (np.tile(rows, 2), np.tile(columns, 2))), shape=flat.shape)
    return {"dense": dense, "flat": flat, "matrix": sparse.csc_matrix(flat)}[form]
