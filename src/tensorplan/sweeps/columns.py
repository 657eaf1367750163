"""The columns of rows in SQLite, in CSV files and in Parquet files (which need the extra ``parquet``).

Numbers have 64 bits in SQLite.  A whole number that needs more, as a seed may, is stored as hexadecimal text.
"""

from __future__ import annotations

import csv
from dataclasses import asdict, astuple, fields
from pathlib import Path
from typing import Any

from tensorplan.core.errors import BadInput
from tensorplan.core.files import check_output
from tensorplan.evaluation.row import Row

TYPES = {"str": "TEXT", "int": "INTEGER", "float": "REAL"}
COLUMNS = {f.name: TYPES[str(f.type).removesuffix(" | None")] for f in fields(Row)}
"""Names and SQL types, in the order of the fields."""
LARGEST = 2**63 - 1
"""The largest integer in SQLite and Parquet."""


def storable(value: Any) -> Any:
    """The value as SQLite can hold it: numbers of 64 bits, and text in UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    return hex(value) if isinstance(value, int) and not -LARGEST <= value <= LARGEST else value


def restored(column: str, value: Any) -> Any:
    """The inverse of :func:`storable`."""
    return int(value, 16) if isinstance(value, str) and COLUMNS[column] == "INTEGER" else value


def check_export(path: str | Path) -> None:
    """Raise BadInput if rows cannot be exported to a file of that name."""
    kind = Path(path).suffix.lower()
    if kind not in _EXPORTS:
        raise BadInput(f"cannot export to {str(path)!r}: the name must end in {' or '.join(_EXPORTS)}")
    if kind == ".parquet":
        _pyarrow()
    check_output(path)


def write_rows(path: Path, rows: list[Row]) -> None:
    """Write the rows in the format of the file's suffix."""
    _EXPORTS[path.suffix.lower()](path, rows)


def _write_csv(path: Path, rows: list[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(astuple(row) for row in rows)


def _write_parquet(path: Path, rows: list[Row]) -> None:
    pyarrow, parquet = _pyarrow()
    types = {"TEXT": pyarrow.string(), "INTEGER": pyarrow.int64(), "REAL": pyarrow.float64()}
    schema = {name: types[kind] for name, kind in COLUMNS.items()}
    table = [{name: storable(value) for name, value in asdict(row).items()} for row in rows]
    for name in (name for name, kind in COLUMNS.items() if kind == "INTEGER"):
        if any(isinstance(row[name], str) for row in table):  # too large for a column of numbers
            schema[name] = pyarrow.string()
            for row, told in zip(table, rows, strict=True):
                row[name] = None if row[name] is None else str(getattr(told, name))
    parquet.write_table(pyarrow.Table.from_pylist(table, pyarrow.schema(list(schema.items()))), path)


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise BadInput("Parquet needs pyarrow: pip install 'tensorplan[parquet]', or export to .csv") from None
    return pyarrow, parquet


_EXPORTS = {".csv": _write_csv, ".parquet": _write_parquet}
