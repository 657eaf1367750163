"""The results of an experiment in a folder: an SQLite database with one row per run, and the traces beside it.

    DIR/sweep.sqlite      in WAL mode, every row in its own transaction, on disk before the next begins
    DIR/traces/ID.json    written in full and renamed before the row that names it

Only the sweeping process writes; others may read meanwhile.  The schema has a version (``PRAGMA user_version``): a
database with a newer one is refused before SQLite opens it, and one with an older one can be read, and gets the new
columns when a sweep continues in it.

Sweeps, Table 1 and the hardness experiment share the format; a folder holds one kind of them.
"""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import astuple
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tensorplan.core.errors import BadInput, TensorplanError
from tensorplan.evaluation.row import Row
from tensorplan.sweeps.columns import COLUMNS, check_export, restored, storable, write_rows
from tensorplan.sweeps.suite import Suite
from tensorplan.sweeps.unit import Experiment

SCHEMA = 3
"""The version of the tables; 1 and 2 had fewer columns."""
NAME = "sweep.sqlite"
VERSION_AT = 60
"""The offset of the user version in SQLite's file header, four bytes, big-endian."""


class StoreError(TensorplanError):
    """The folder of a sweep cannot be read or written; its contents are intact."""


_TYPED = {name: f'"{name}" {kind}' for name, kind in COLUMNS.items()}
_TABLES = (
    "CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    f"CREATE TABLE runs ({', '.join(_TYPED.values())}, PRIMARY KEY (id))",
)


class Store:
    """The rows of an experiment.  ``stopped`` is ``"interrupted"`` after Ctrl-C, else None."""

    stopped: str | None = None

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self.folder = folder
        self._connection = connection

    # ------------------------------------------------------------------ opening

    @classmethod
    def open(cls, folder: str | Path) -> Store:
        """The store in a folder, for reading; a sweep may be writing to it."""
        folder = Path(folder)
        path = folder / NAME
        if not path.is_file():
            raise BadInput(f"{str(folder)!r} holds no sweep: there is no {NAME} in it")
        _refuse_newer(path)
        with _store_errors(path):
            connection = _connect(f"{path.absolute().as_uri()}?mode=rw")
            try:
                known = _version(connection, path)
            except sqlite3.OperationalError:
                connection.close()
                if path.with_name(NAME + "-wal").exists():
                    raise
                # no sweep is running, and the folder is read-only
                connection = _connect(f"{path.absolute().as_uri()}?immutable=1")
                known = _version(connection, path)
        if not known:
            raise BadInput(f"{str(folder)!r} holds no sweep yet: {NAME} is empty")
        return cls(folder, connection)

    @classmethod
    def create(cls, folder: str | Path, experiment: Experiment, *, grow: bool = False) -> Store:
        """The store in a folder, for writing; with ``grow`` it may contain runs."""
        folder = Path(folder)
        path = folder / NAME
        with _store_errors(path):
            folder.mkdir(parents=True, exist_ok=True)
            _refuse_newer(path)
            connection = _connect(path.absolute().as_uri())
            store = cls(folder, connection)
            known = _version(connection, path)
            if known and (reason := store._refusal(experiment, grow)):
                connection.close()
                raise BadInput(f"{str(folder)!r} holds {reason} choose another folder")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            with store._transaction():
                if not known:
                    for table in _TABLES:
                        connection.execute(table)
                there = store._columns()
                for name in COLUMNS:
                    if name not in there:
                        connection.execute(f"ALTER TABLE runs ADD COLUMN {_TYPED[name]}")
                if known < SCHEMA:
                    connection.execute(f"PRAGMA user_version = {SCHEMA}")
                store._set("kind", experiment.kind)
                store._set("suite", experiment.as_json())
                store._set("machine", json.dumps(_machines(store._get("machine"))))
            return store

    def _refusal(self, experiment: Experiment, grow: bool) -> str | None:
        """Why the contents of the folder do not fit the experiment, or None."""
        if self.kind != experiment.kind:
            return f"the results of {self.kind!r}, not of {experiment.kind!r}:"
        if not grow and (held := self.count()):
            return f"{held:,} runs already: resume (--resume), or"
        return None

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    # ------------------------------------------------------------------ reading

    @property
    def kind(self) -> str:
        """The kind of experiment: ``"sweep"``, ``"table1"`` or ``"hardness"``."""
        return self._get("kind") or Suite.kind

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the latest experiment, without the ids of its units."""
        told: dict[str, Any] = json.loads(self._get("suite") or "{}")
        told.pop("units", None)
        return told

    def unit_ids(self) -> list[str]:
        """The ids of the units of the latest experiment, in its order."""
        told = json.loads(self._get("suite") or "{}")
        ids: list[str] = told.get("units") or [unit.id for unit in Suite(**told).units()]
        return ids

    @property
    def machine(self) -> dict[str, Any]:
        """Where the sweep began: processors, python, platform, versions, start; under ``also`` where it continued."""
        told: dict[str, Any] = json.loads(self._get("machine") or "{}")
        return told

    def rows(self) -> list[Row]:
        """The runs of the experiment so far, in the order of its units."""
        found = self.found()
        return [found[id] for id in self.unit_ids() if id in found]

    def found(self) -> dict[str, Row]:
        """All runs by id, those of earlier experiments in the folder included."""
        with _store_errors(self.folder / NAME):
            columns = self._columns()
            rows = self._connection.execute(f"SELECT {', '.join(columns)} FROM runs").fetchall()
        return {row[0]: Row(**dict(zip(columns, map(restored, columns, row), strict=True))) for row in rows}

    def _columns(self) -> list[str]:
        """The columns in the database: an older schema has fewer."""
        there = {column[1] for column in self._connection.execute("PRAGMA table_info(runs)")}
        return [name for name in COLUMNS if name in there]

    def count(self) -> int:
        """The number of runs."""
        with _store_errors(self.folder / NAME):
            return int(self._connection.execute("SELECT count(*) FROM runs").fetchone()[0])

    def export(self, path: str | Path) -> Path:
        """Write the runs to a file, ``.csv`` or ``.parquet`` (which needs the extra ``parquet``)."""
        check_export(path)
        path = Path(path)
        with _store_errors(path):
            write_rows(path, self.rows())
        return path

    # ------------------------------------------------------------------ writing

    def add(self, row: Row) -> None:
        """Write a run, replacing an earlier attempt; it is on disk on return."""
        marks = ", ".join("?" * len(COLUMNS))
        values = [storable(value) for value in astuple(row)]
        with _store_errors(self.folder / NAME), self._transaction():
            self._connection.execute(f"INSERT OR REPLACE INTO runs ({', '.join(COLUMNS)}) VALUES ({marks})", values)

    def write_trace(self, name: str, trace: Any) -> None:
        """Write a trace, as plain data, to DIR/traces/name."""
        path = self.folder / "traces" / name
        partial = path.with_suffix(".partial")
        with _store_errors(path):
            path.parent.mkdir(exist_ok=True)
            with partial.open("w", encoding="utf-8") as file:
                json.dump(trace, file, allow_nan=False)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction: all of it or nothing."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _get(self, key: str) -> str | None:
        row = self._connection.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def _set(self, key: str, value: str) -> None:
        self._connection.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (key, value))


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold the folder exclusively, by the lock of an empty database, which ends with the process."""
    path = folder / "sweep.lock"
    with _store_errors(path):
        folder.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=0, isolation_level=None)
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            connection.close()
            if "locked" in str(error):
                raise BadInput(f"another sweep is running in {str(folder)!r}") from None
            raise
    try:
        yield
    finally:
        connection.close()


def _connect(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, timeout=30, isolation_level=None)


def _refuse_newer(path: Path) -> None:
    """Check the version in the file header, before SQLite changes anything."""
    if path.is_file():
        with _store_errors(path), path.open("rb") as file:
            header = file.read(100)
        _refuse_version(int.from_bytes(header[VERSION_AT : VERSION_AT + 4], "big"), path)


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """The version of the schema; zero if there are no tables yet."""
    found = int(connection.execute("PRAGMA user_version").fetchone()[0])
    _refuse_version(found, path)
    if not found and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise BadInput(f"{str(path)!r} is not the database of a sweep")
    return found


def _refuse_version(found: int, path: Path) -> None:
    if found > SCHEMA:
        raise BadInput(
            f"{str(path)!r} was written by a newer version of tensorplan (its tables have version {found}, "
            f"and this one knows {SCHEMA}); nothing was touched"
        )


@contextmanager
def _store_errors(path: Path) -> Iterator[None]:
    """Turn errors of the disk or SQLite into one sentence."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise StoreError(f"cannot use {str(path)!r}: {error}; what was finished before is kept") from error
    except OSError as error:
        where = error.filename or path
        reason = error.strerror or error
        raise StoreError(f"cannot use {str(where)!r}: {reason}; what was finished before is kept") from error


# ------------------------------------------------------------------------------------------------- the machine


def _machines(known: str | None) -> dict[str, Any]:
    """The machine where the sweep began, with this one under ``also`` if it is another."""
    here = _machine()
    if known is None:
        return here
    first: dict[str, Any] = json.loads(known)
    others: list[dict[str, Any]] = first.get("also", [])
    if all(_timeless(here) != _timeless(m) for m in [first, *others]):
        first["also"] = [*others, here]
    return first


def _timeless(machine: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in machine.items() if key not in ("start", "also")}


def _machine() -> dict[str, Any]:
    versions = {}
    for package in ("tensorplan", "numpy", "scipy", "numba", "highspy"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "processors": os.cpu_count(),
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "versions": versions,
        "start": datetime.now(UTC).isoformat(timespec="seconds"),
    }
