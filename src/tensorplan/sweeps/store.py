"""What an experiment has found, in a folder: one SQLite database, one row per run, and the traces beside it.

    DIR/sweep.sqlite      in WAL mode, every row in a transaction of its own that is on the disk before the next begins
    DIR/traces/ID.json    written in full and renamed before the row that names it

Only the process that sweeps writes.  Others may read meanwhile.  The schema has a number (``PRAGMA user_version``);
a database with a greater one is refused before SQLite opens it, and one with a lesser one is read as it is and gets the
new columns when a sweep goes on in it.

Sweeps, Table 1 and the hardness experiment are kept alike; a folder belongs to one kind of them.
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
"""Where SQLite's file header has the user version, four bytes, big-endian."""


class StoreError(TensorplanError):
    """The folder of a sweep cannot be read or written; what it holds is unharmed."""


_TYPED = {name: f'"{name}" {kind}' for name, kind in COLUMNS.items()}
_TABLES = (
    "CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    f"CREATE TABLE runs ({', '.join(_TYPED.values())}, PRIMARY KEY (id))",
)


class Store:
    """The rows of an experiment.  ``stopped`` says what ended it early: ``"interrupted"``, or None."""

    stopped: str | None = None

    def __init__(self, folder: Path, connection: sqlite3.Connection) -> None:
        self.folder = folder
        self._connection = connection

    # ------------------------------------------------------------------ opening

    @classmethod
    def open(cls, folder: str | Path) -> Store:
        """The store in a folder, to read; a sweep may be writing to it."""
        folder = Path(folder)
        path = folder / NAME
        if not path.is_file():
            raise BadInput(f"{str(folder)!r} holds no sweep: there is no {NAME} in it")
        _refuse_newer(path)
        with _speaking(path):
            connection = _connect(f"{path.absolute().as_uri()}?mode=rw")
            try:
                known = _version(connection, path)
            except sqlite3.OperationalError:
                connection.close()
                if path.with_name(NAME + "-wal").exists():
                    raise
                # no sweep is at work, and the folder cannot be written
                connection = _connect(f"{path.absolute().as_uri()}?immutable=1")
                known = _version(connection, path)
        if not known:
            raise BadInput(f"{str(folder)!r} holds no sweep yet: {NAME} is empty")
        return cls(folder, connection)

    @classmethod
    def create(cls, folder: str | Path, experiment: Experiment, *, grow: bool = False) -> Store:
        """The store in a folder, to write what comes of it; with ``grow`` there may be runs in it already."""
        folder = Path(folder)
        path = folder / NAME
        with _speaking(path):
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
                store._tell("kind", experiment.kind)
                store._tell("suite", experiment.as_json())
                store._tell("machine", json.dumps(_machines(store._told("machine"))))
            return store

    def _refusal(self, experiment: Experiment, grow: bool) -> str | None:
        """Why what is there does not go with the experiment."""
        if self.kind != experiment.kind:
            return f"the results of {self.kind!r}, not of {experiment.kind!r}:"
        if not grow and (held := self.count()):
            return f"{held:,} runs already: resume (--resume), or"
        return None

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()

    # ------------------------------------------------------------------ reading

    @property
    def kind(self) -> str:
        """Which experiment it is: ``"sweep"``, ``"table1"`` or ``"hardness"``."""
        return self._told("kind") or Suite.kind

    @property
    def asked(self) -> dict[str, Any]:
        """What was asked for, the last time, without the ids of the units."""
        told: dict[str, Any] = json.loads(self._told("suite") or "{}")
        told.pop("units", None)
        return told

    def unit_ids(self) -> list[str]:
        """The units of the experiment, the last time, in its order."""
        told = json.loads(self._told("suite") or "{}")
        ids: list[str] = told.get("units") or [unit.id for unit in Suite(**told).units()]
        return ids

    @property
    def machine(self) -> dict[str, Any]:
        """Where the sweep began: processors, python, platform, versions, start; under ``also`` where it went on."""
        told: dict[str, Any] = json.loads(self._told("machine") or "{}")
        return told

    def rows(self) -> list[Row]:
        """The runs of the experiment so far, in the order of its units."""
        found = self.found()
        return [found[id] for id in self.unit_ids() if id in found]

    def found(self) -> dict[str, Row]:
        """All runs by id, also those that are no longer asked for."""
        with _speaking(self.folder / NAME):
            columns = self._columns()
            rows = self._connection.execute(f"SELECT {', '.join(columns)} FROM runs").fetchall()
        return {row[0]: Row(**dict(zip(columns, map(restored, columns, row), strict=True))) for row in rows}

    def _columns(self) -> list[str]:
        """The columns that there are: an older version of the tables has fewer."""
        there = {column[1] for column in self._connection.execute("PRAGMA table_info(runs)")}
        return [name for name in COLUMNS if name in there]

    def count(self) -> int:
        """How many runs there are."""
        with _speaking(self.folder / NAME):
            return int(self._connection.execute("SELECT count(*) FROM runs").fetchone()[0])

    def export(self, path: str | Path) -> Path:
        """Write the runs to a file, ``.csv`` or ``.parquet`` (which needs the extra ``parquet``)."""
        check_export(path)
        path = Path(path)
        with _speaking(path):
            write_rows(path, self.rows())
        return path

    # ------------------------------------------------------------------ writing

    def add(self, row: Row) -> None:
        """Write a run, over an earlier attempt at it where there was one; it is on the disk on return."""
        marks = ", ".join("?" * len(COLUMNS))
        values = [storable(value) for value in astuple(row)]
        with _speaking(self.folder / NAME), self._transaction():
            self._connection.execute(f"INSERT OR REPLACE INTO runs ({', '.join(COLUMNS)}) VALUES ({marks})", values)

    def write_trace(self, name: str, trace: Any) -> None:
        """Write a trace, plain data, to DIR/traces/name."""
        path = self.folder / "traces" / name
        partial = path.with_suffix(".partial")
        with _speaking(path):
            path.parent.mkdir(exist_ok=True)
            with partial.open("w", encoding="utf-8") as file:
                json.dump(trace, file, allow_nan=False)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All of it or nothing."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _told(self, key: str) -> str | None:
        row = self._connection.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def _tell(self, key: str, value: str) -> None:
        self._connection.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (key, value))


@contextmanager
def lock(folder: Path) -> Iterator[None]:
    """Hold the folder alone, as long as this process lives: the lock of an empty database, which dies with it."""
    path = folder / "sweep.lock"
    with _speaking(path):
        folder.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=0, isolation_level=None)
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            connection.close()
            if "locked" in str(error):
                raise BadInput(f"another sweep is at work in {str(folder)!r}") from None
            raise
    try:
        yield
    finally:
        connection.close()


def _connect(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, timeout=30, isolation_level=None)


def _refuse_newer(path: Path) -> None:
    """Look at the version in the header of the file, before SQLite does anything with it."""
    if path.is_file():
        with _speaking(path), path.open("rb") as file:
            header = file.read(100)
        _judge(int.from_bytes(header[VERSION_AT : VERSION_AT + 4], "big"), path)


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """The version of the tables; zero where there are none yet."""
    found = int(connection.execute("PRAGMA user_version").fetchone()[0])
    _judge(found, path)
    if not found and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise BadInput(f"{str(path)!r} is a database of something else")
    return found


def _judge(found: int, path: Path) -> None:
    if found > SCHEMA:
        raise BadInput(
            f"{str(path)!r} was written by a newer version of tensorplan (its tables have version {found}, "
            f"and this one knows {SCHEMA}); nothing was touched"
        )


@contextmanager
def _speaking(path: Path) -> Iterator[None]:
    """What the disk or SQLite complains about, in one sentence."""
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
    """This machine, or the one where the sweep began with this one beside it, if it is another."""
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
