"""The columns of rows in SQLite and in files.

Numbers have 64 bits there.  A whole number that needs more, as a seed may, is stored as hexadecimal text.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tensorplan.judge.row import Row

TYPES = {"str": "TEXT", "int": "INTEGER", "float": "REAL"}
COLUMNS = {f.name: TYPES[str(f.type).removesuffix(" | None")] for f in fields(Row)}
"""Names and SQL types, in the order of the fields."""
LARGEST = 2**63 - 1
"""The largest whole number that SQLite and Parquet have a place for."""


def storable(value: Any) -> Any:
    """The value as SQLite can hold it: numbers of 64 bits, and text in UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    return hex(value) if isinstance(value, int) and not -LARGEST <= value <= LARGEST else value


def restored(column: str, value: Any) -> Any:
    """What :func:`storable` was given."""
    return int(value, 16) if isinstance(value, str) and COLUMNS[column] == "INTEGER" else value
