"""How the inner loops of the search are compiled, and where the machine code is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])

SOURCES = ("compiled", "state", "basis", "relax", "tree", "points", "branch", "step")
"""The files that compiled functions, and the constants in them, come from."""

_FOLDER = Path(__file__).parent
_STAMP = hashlib.sha256(b"".join((_FOLDER / f"{name}.py").read_bytes() for name in SOURCES)).hexdigest()
_OPTIONS: Any = {
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
    "nogil": True,
    "_nrt": False,  # no reference counts, which would take a third of the time; so compiled code cannot allocate
}


def compiled(function: F) -> F:
    """The function, compiled when first called; the machine code is kept on disk.

    Numba would keep code that calls into another file when only that file changes, and fail to read what it kept for
    classes that are gone, so a hash of all these files is a part of the version that it looks at first.

    Sums may be taken in any order, else they could not be vectorised.  So that the order is always the same, no
    innermost loop both sums and stores: such a loop decides when it is entered whether it runs vectorised, by how near
    in memory the arrays are that it reads and writes.
    """
    try:
        dispatcher: Any = numba.njit(cache=True, **_OPTIONS)(function)
    except RuntimeError:  # nowhere to write to: compile in every process
        return cast(F, numba.njit(**_OPTIONS)(function))
    kept = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if kept is not None:  # None when the user turned the compiler off
        kept._source_stamp = kept._version = f"{kept._version} {_STAMP}"
    return cast(F, dispatcher)


def inlined(function: F) -> F:
    """The function as a part of each compiled one that calls it: no call, and no machine code of its own.

    For steps that have one caller and are named for the reader.  Compiled alone, each would be passed dozens of arrays,
    and all that it calls would be optimised once more.
    """
    return cast(F, numba.njit(inline="always", **_OPTIONS)(function))
