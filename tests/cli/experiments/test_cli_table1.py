"""The command table1."""

import json


def test_table1_prints_verdicts_from_measurements(cli, tmp_path):
    book, picture = tmp_path / "book", tmp_path / "table.png"
    code, out, err = cli(
        "table1", "--quick", "--rows", "4", "--workers", "1", "--out", str(book), "--plot", str(picture)
    )
    assert (code, err) == (0, "")
    assert "✗ (✗)" in out
    assert "evidence" in out
    assert max(map(len, out.splitlines())) <= 80
    assert picture.read_bytes().startswith(b"\x89PNG")
    code, out, _ = cli("table1", "--quick", "--rows", "4", "--out", str(book), "--json")
    data = json.loads(out)
    assert code == 0
    assert data["agrees"] is True
    (row,) = data["rows"]
    assert (row["row"], row["verdict"], row["planner"]) == (4, False, "root-search")
    (family,) = row["families"]
    (planner,) = family["planners"]
    assert planner["sound"]
    assert planner["growth"]["verdict"] == "exponential"
    assert all(family["forced"][str(at["size"])] < at["queries"]["mean"] for at in planner["at"])


def test_table1_is_told_of_rows_that_do_not_exist(cli, tmp_path):
    for rows in ("11", "0", "one", "1,,2"):
        code, out, err = cli("table1", "--rows", rows)
        assert (code, out) == (2, "")
        assert len(err.splitlines()) == 1
    diary = tmp_path / "diary"
    diary.write_text("dear diary\n")
    code, _, err = cli("table1", "--quick", "--rows", "4", "--out", str(diary))
    assert code == 2
    assert "is a file" in err
    code, _, err = cli("hardness", "--p", "8", "--seeds", "1", "--out", str(tmp_path / "hard"))
    assert code == 0
    code, out, err = cli("table1", "--quick", "--rows", "4", "--out", str(tmp_path / "hard"))
    assert (code, out) == (2, "")
    assert err.endswith("holds the results of 'hardness', not of 'table1': choose another folder\n")
