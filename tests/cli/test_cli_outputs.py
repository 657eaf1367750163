"""Files that commands write: looked at before the work, and no results are lost where they fail after it."""

import json
import os
import stat
from pathlib import Path

import pytest

OUTPUTS = [
    (["plan", "no-such-problem", "--trace"], "x.json"),
    (["plan", "no-such-problem", "--proof"], "x.json"),
    (["hardness", "--p", "no such size", "--plot"], "x.png"),
    (["table1", "--rows", "no such row", "--plot"], "x.png"),
    (["trace", "no-such-problem", "--out"], "x.html"),
    (["audit", "no-such-problem", "--planner", "uct", "--out"], "x.html"),
    (["sweep", "no-such-file.yaml", "--out", "folder", "--export"], "x.csv"),
    (["report", "no-such-folder", "--out"], "x.html"),
]
"""Each would complain of something else, if it did not look at the file first."""


@pytest.mark.parametrize(("command", "name"), OUTPUTS)
def test_files_that_cannot_be_written_are_known_before_the_work(cli, tmp_path, command, name):
    (tmp_path / name).mkdir()
    for path, why in ((tmp_path / "nowhere" / name, "its folder does not exist"), (tmp_path / name, "it is a folder")):
        code, out, err = cli(*command, str(path))
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert f"cannot write to '{path}': {why}" in err
    code, _, err = cli(*command, str(tmp_path / f"fine-{name}"))
    assert (code, "cannot write" in err) == (2, False)
    assert not (tmp_path / f"fine-{name}").exists()


@pytest.mark.parametrize(
    ("command", "path", "sentence"),
    [
        (["hardness", "--plot"], "x.xyz", "the name must end in one of png, svg, pdf"),
        (["table1", "--plot"], "picture", "the name must end in one of png, svg, pdf"),
        (["sweep", "no-such-file.yaml", "--out", "folder", "--export"], "x.xls", "must end in .csv or .parquet"),
        (["table1", "--out"], "/dev/null", "cannot use '/dev/null'"),
    ],
)
def test_files_of_a_wrong_kind_are_known_before_the_work(cli, command, path, sentence):
    code, out, err = cli(*command, path)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert sentence in err


def test_devices_are_not_replaced(cli, tmp_path):
    link = tmp_path / "null.html"
    link.symlink_to("/dev/null")
    for arguments in (
        ("trace", "hanoi/2", "--out", str(link)),
        ("plan", "hanoi/2", "--trace", str(link), "--proof", str(link)),
    ):
        assert cli(*arguments)[0] == 0
    assert link.is_symlink()
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_file_that_fails_in_the_end_costs_no_results(cli, tmp_path, monkeypatch):
    def full(path, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    code, out, err = cli("plan", "hanoi/2", "--trace", str(tmp_path / "x.json"), "--json")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "No space left on device" in err
    assert json.loads(out)["episodes"][0]["steps"] == 3
