"""The command hardness."""

import json

import pytest


@pytest.mark.slow
def test_hardness_measures_the_price_of_a_guess(cli, tmp_path):
    arguments = ("hardness", "--p", "8:16:4", "--seeds", "3", "--plot", str(tmp_path / "cost.png"))
    code, out, _ = cli(*arguments)
    assert code == 0
    assert "vacuous" in out
    assert "doubles" in out
    assert max(len(line) for line in out.splitlines() if "doubles" not in line) <= 80
    assert (tmp_path / "cost.png").exists()
    _, out, _ = cli(*arguments, "--json")
    data = json.loads(out)
    assert [row["p"] for row in data["costs"]] == [8, 8, 12, 12, 16, 16]
    assert all(row["vacuous"] for row in data["costs"])
    assert {row["planner"] for row in data["planners"]} == {"tensorplan", "uct"}
    code, _, err = cli("hardness", "--p", "x")
    assert (code, len(err.splitlines())) == (2, 1)
