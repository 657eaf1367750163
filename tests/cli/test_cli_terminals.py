"""Narrow terminals, terminals that know ASCII alone, help."""

import os
import subprocess
import sys

import pytest
from commands import CONSTANTS


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["compare", "layered/2x3:states=10", "--seeds", "2", "--planners", "tensorplan,uct:simulations=20"],
        [*CONSTANTS],
        ["verify", "hard/2x3"],
        ["diagnose", "hanoi/3"],
        ["table1", "--quick", "--rows", "4", "--workers", "1"],
    ],
)
def test_narrow_terminals(cli, monkeypatch, arguments):
    monkeypatch.setenv("COLUMNS", "40")
    code, out, _ = cli(*arguments)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 40
    assert "…" not in out


@pytest.mark.parametrize(
    ("arguments", "code", "there"),
    [
        (["compare", "hanoi/3", "--seeds", "2", "--planners", "oracle,random"], 0, "mean per episode +- half-width"),
        (["plan", "hanöi/3"], 2, "unknown problem 'han\\xf6i'"),
        (["plan", "layered/3x6:eta=0.3"], 2, "eta"),
    ],
)
def test_terminals_that_know_ascii_alone(arguments, code, there):
    poor = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "60"}
    done = subprocess.run([sys.executable, "-m", "tensorplan", *arguments], capture_output=True, env=poor, check=False)
    assert done.returncode == code
    said = (done.stdout + done.stderr).decode("ascii")
    assert there in said
    assert "Traceback" not in said


def test_help_and_version(cli):
    code, out, _ = cli("--help")
    assert code == 0
    assert "compare" in out
    code, out, _ = cli("--version")
    assert (code, out.split()[0]) == (0, "tensorplan,")
