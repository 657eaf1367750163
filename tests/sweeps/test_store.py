import csv
import os
import sqlite3
from dataclasses import astuple, replace

import pytest
from permissions import unwritable

from tensorplan import BadInput
from tensorplan.evaluation.row import Row
from tensorplan.sweeps import store as module
from tensorplan.sweeps.columns import COLUMNS
from tensorplan.sweeps.store import NAME, SCHEMA, Store, StoreError, lock
from tensorplan.sweeps.suite import Suite

SUITE = Suite(("hanoi/3", "layered/2x3"), ("random", "uct:simulations=20"), (0, 1))


def rows():
    made = [Row(u.id, u.problem, u.planner, u.seed, "done", total_reward=0.1 + u.seed) for u in SUITE.units()]
    made[1] = replace(made[1], status="failed", error='a "bad, thing\nhappened', total_reward=None)
    made[2] = replace(made[2], optimal=1 / 3, steps=2**40, upper=-1e-300, certificate="certified", trace="x.json")
    return made


def test_rows_come_back_to_the_bit_in_the_order_of_the_units(tmp_path):
    with Store.create(tmp_path / "a" / "b", SUITE) as store:
        for row in reversed(rows()):
            store.add(row)
        assert store.rows() == rows()
    with Store.open(tmp_path / "a" / "b") as store:
        assert store.rows() == rows()
        assert (store.kind, Suite(**store.parameters)) == ("sweep", SUITE)
        assert store.machine["processors"] == os.cpu_count()
        assert {"python", "platform", "versions", "start"} <= set(store.machine)


def test_it_is_sqlite_in_wal_mode_with_a_version(tmp_path):
    Store.create(tmp_path, SUITE).close()
    connection = sqlite3.connect(tmp_path / NAME)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA,)
    connection.close()


def test_others_read_while_one_writes(tmp_path):
    with Store.create(tmp_path, SUITE) as writer, Store.open(tmp_path) as reader:
        assert reader.rows() == []
        writer.add(rows()[0])
        assert reader.rows() == rows()[:1]


def test_a_store_with_runs_grows_only_when_asked_to(tmp_path):
    with Store.create(tmp_path, SUITE) as store:
        store.add(rows()[0])
    before = (tmp_path / NAME).read_bytes()
    with pytest.raises(BadInput, match="holds 1 runs already: resume"):
        Store.create(tmp_path, Suite(("hanoi/4",), ("random",), (0,)))
    assert (tmp_path / NAME).read_bytes() == before
    larger = replace(SUITE, seeds=(0, 1, 2))
    with Store.create(tmp_path, larger, grow=True) as store:
        assert Suite(**store.parameters) == larger
        assert store.rows() == rows()[:1]
    smaller = replace(SUITE, seeds=(1,))
    with Store.create(tmp_path, smaller, grow=True) as store:
        assert store.rows() == []
        assert list(store.found().values()) == rows()[:1]


def test_where_it_went_on_is_remembered(tmp_path, monkeypatch):
    Store.create(tmp_path, SUITE).close()
    Store.create(tmp_path, SUITE).close()
    with Store.open(tmp_path) as store:
        first = store.machine
        assert "also" not in first
    monkeypatch.setattr(module.platform, "platform", lambda: "Elsewhere")
    Store.create(tmp_path, SUITE).close()
    with Store.open(tmp_path) as store:
        (other,) = store.machine["also"]
        assert other["platform"] == "Elsewhere"
        assert store.machine["platform"] == first["platform"]


def test_an_older_database_is_read_as_it_is_and_grows_with_a_sweep(tmp_path):
    with Store.create(tmp_path, SUITE) as store:
        store.add(rows()[0])
        for column in ("unmetered", "note"):
            store._connection.execute(f"ALTER TABLE runs DROP COLUMN {column}")
        store._connection.execute("PRAGMA user_version = 1")
    with Store.open(tmp_path) as store:
        assert store.rows() == rows()[:1]
    more = replace(rows()[1], unmetered=12, note="why")
    with Store.create(tmp_path, SUITE, grow=True) as store:
        store.add(more)
        assert store.rows() == [rows()[0], more]
        assert store._connection.execute("PRAGMA user_version").fetchone() == (SCHEMA,)


def test_a_newer_database_is_refused_and_untouched(tmp_path):
    with Store.create(tmp_path, SUITE) as store:
        store.add(rows()[0])
    connection = sqlite3.connect(tmp_path / NAME)
    connection.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    connection.close()
    before = {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in tmp_path.iterdir()}
    for attempt in (Store.open, lambda d: Store.create(d, SUITE), lambda d: Store.create(d, SUITE, grow=True)):
        with pytest.raises(BadInput, match=r"newer version of tensorplan .* nothing was touched"):
            attempt(tmp_path)
    assert {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in tmp_path.iterdir()} == before


def older(folder):
    """A store as the first version wrote it, with the rows of this file."""
    with Store.create(folder, SUITE) as store:
        for row in rows():
            store.add(row)
    connection = sqlite3.connect(folder / NAME)
    connection.execute("ALTER TABLE runs DROP COLUMN output")
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()


def test_a_database_of_the_first_version_is_read_and_grows(tmp_path):
    older(tmp_path)
    with Store.open(tmp_path) as store:
        assert store.rows() == rows()
    talkative = replace(rows()[0], output="hello")
    with Store.create(tmp_path, SUITE, grow=True) as store:
        assert store.rows() == rows()
        store.add(talkative)
    with Store.open(tmp_path) as store:
        assert store.rows() == [talkative, *rows()[1:]]
        assert store._connection.execute("PRAGMA user_version").fetchone() == (SCHEMA,)


def awkward():
    """Rows with what SQLite has no place for."""
    first, second = rows()[:2]
    return [
        replace(first, seed=2**63, horizon=10**30, output="a\0b\x1b[1m\n"),
        replace(second, seed=2**64 + 1, error="caf\udce9", output="\ud800"),
    ]


def test_large_numbers_come_back_and_text_is_made_writable(tmp_path):
    with Store.create(tmp_path, SUITE) as store:
        for row in awkward():
            store.add(row)
    first, second = awkward()
    with Store.open(tmp_path) as store:
        assert store.rows() == [first, replace(second, error=r"caf\udce9", output=r"\ud800")]
        path = store.export(tmp_path / "out.csv")
    with path.open(newline="", encoding="utf-8") as file:
        seeds = [line["seed"] for line in csv.DictReader(file)]
    assert seeds == [str(2**63), str(2**64 + 1)]


def test_large_numbers_in_parquet_are_text(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    with Store.create(tmp_path, SUITE) as store:
        for row in awkward():
            store.add(row)
        table = parquet.read_table(store.export(tmp_path / "out.parquet")).to_pydict()
    assert table["seed"] == [str(2**63), str(2**64 + 1)]
    assert table["horizon"] == [str(10**30), None]
    assert table["attempts"] == [1, 1]


def test_folders_that_hold_no_sweep(tmp_path):
    with pytest.raises(BadInput, match="holds no sweep"):
        Store.open(tmp_path)
    (tmp_path / NAME).touch()
    with pytest.raises(BadInput, match="holds no sweep yet"):
        Store.open(tmp_path)
    Store.create(tmp_path, SUITE).close()  # what a kill at the first moment leaves is no obstacle
    (tmp_path / NAME).write_bytes(b"something else entirely, and long enough to be looked at " * 20)
    with pytest.raises((StoreError, BadInput)) as caught:
        Store.open(tmp_path)
    assert "\n" not in str(caught.value)


def test_another_database_is_left_alone(tmp_path):
    connection = sqlite3.connect(tmp_path / NAME)
    connection.execute("CREATE TABLE mine (x)")
    connection.close()
    before = (tmp_path / NAME).read_bytes()
    with pytest.raises(BadInput, match="is not the database of a sweep"):
        Store.create(tmp_path, SUITE)
    assert (tmp_path / NAME).read_bytes() == before


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path):
    with Store.create(tmp_path, SUITE) as store:
        store.add(rows()[0])
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match="database or disk is full; what was finished before is kept"):
            store.add(replace(rows()[1], error="x" * 100_000))
        assert store.rows() == rows()[:1]
        kept = store.found()
    with Store.open(tmp_path) as store:
        assert store.found() == kept
        assert rows()[0].id in kept


@pytest.fixture
def read_only():
    """A folder with a sweep that this process may read and not write."""

    def fill(folder):
        with Store.create(folder, SUITE) as store:
            store.add(rows()[0])

    with unwritable(fill) as folder:
        yield folder


@pytest.mark.skipif(os.name != "posix", reason="needs folders with permissions")
def test_a_read_only_folder(read_only):
    with Store.open(read_only) as store:
        assert store.rows() == rows()[:1]
    with pytest.raises(StoreError, match="cannot use"):
        Store.create(read_only, SUITE, grow=True)
    with pytest.raises(StoreError, match="cannot use"), lock(read_only):
        pass


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "out").touch()
    with pytest.raises(StoreError, match="cannot use") as caught:
        Store.create(tmp_path / "out", SUITE)
    assert "\n" not in str(caught.value)
    with pytest.raises(StoreError, match="cannot use"), lock(tmp_path / "out"):
        pass


def test_the_lock_is_held_by_one(tmp_path):
    with lock(tmp_path / "x"), pytest.raises(BadInput, match="another sweep is running"), lock(tmp_path / "x"):
        pass
    with lock(tmp_path / "x"):
        pass


def test_traces_are_whole_or_not_there(tmp_path):
    with Store.create(tmp_path, SUITE) as store:
        store.write_trace("x.json", {"episodes": [1.5]})
        path = tmp_path / "traces" / rows()[2].trace
        assert path.read_text() == '{"episodes": [1.5]}'
        with pytest.raises(ValueError, match="not JSON compliant"):
            store.write_trace("y.json", float("nan"))
        assert [p.name for p in path.parent.iterdir() if p.suffix == ".json"] == ["x.json"]


def test_export_to_csv(tmp_path):
    with Store.create(tmp_path, SUITE) as store:
        for row in rows():
            store.add(row)
        path = store.export(tmp_path / "out.csv")
    with path.open(newline="", encoding="utf-8") as file:
        header, *body = csv.reader(file)
    assert header == list(COLUMNS)
    assert body == [["" if x is None else str(x) for x in astuple(row)] for row in rows()]


def test_export_to_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    with Store.create(tmp_path, SUITE) as store:
        for row in rows():
            store.add(row)
        path = store.export(tmp_path / "out.parquet")
    assert [Row(**row) for row in parquet.read_table(path).to_pylist()] == rows()


def test_export_says_what_it_cannot(tmp_path, monkeypatch):
    with Store.create(tmp_path, SUITE) as store:
        with pytest.raises(BadInput, match=r"must end in \.csv or \.parquet"):
            store.export(tmp_path / "out.xls")
        with pytest.raises(BadInput, match=r"out\.csv': its folder does not exist"):
            store.export(tmp_path / "nowhere" / "out.csv")
        monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
        with pytest.raises(BadInput, match=r"pip install 'tensorplan\[parquet\]'"):
            store.export(tmp_path / "out.parquet")
