"""The commands sweep and report."""

import json

SUITE = """problems: [hanoi/3, "layered/2x3:states=10"]
planners: [tensorplan, random]
seeds: 2
"""


def test_a_sweep_its_report_and_a_trace(cli, tmp_path):
    file, out = tmp_path / "suite.yaml", tmp_path / "out"
    file.write_text(SUITE)
    code, text, err = cli(
        "sweep", str(file), "--out", str(out), "--workers", "1", "--export", str(tmp_path / "rows.csv")
    )
    assert (code, err) == (0, "")
    assert "8 runs" in text
    assert max(map(len, text.splitlines())) <= 80
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 9
    code, _, err = cli("sweep", str(file), "--out", str(out))
    assert code == 2
    assert "--resume" in err
    code, text, _ = cli("sweep", str(file), "--out", str(out), "--resume", "--json")
    assert code == 0
    assert len(json.loads(text)["rows"]) == 8
    code, text, _ = cli("report", str(out))
    assert code == 0
    page = out / "report.html"
    assert text.strip() == str(page)
    assert "layered/2x3:states=10" in page.read_text()
    code, text, _ = cli("report", str(out), "--json")
    assert {s["planner"] for s in json.loads(text)["standings"]} == {"tensorplan", "random"}


def test_sweeps_reports_and_traces_say_what_is_wrong(cli, tmp_path):
    file = tmp_path / "suite.yaml"
    file.write_text(SUITE.replace("planners:", "planers:"))
    for arguments, sentence in (
        (
            ("sweep", str(file), "--out", str(tmp_path / "out")),
            "line 2: unknown key 'planers'; did you mean 'planners'?",
        ),
        (("sweep", str(tmp_path / "no.yaml"), "--out", str(tmp_path / "out")), "No such file or directory"),
        (("report", str(tmp_path / "nowhere")), "holds no sweep"),
        (("trace", "hanoi/3"), "--out"),
        (("trace", "exponential/64", "--out", str(tmp_path / "x.html")), "has no phi_v"),
        (("trace", "hanoi/3", "--out", str(tmp_path / "no" / "x.html")), "x.html"),
        (("report", str(tmp_path / "nowhere"), "--out", str(tmp_path / "x.html")), "holds no sweep"),
    ):
        code, out, err = cli(*arguments)
        assert (code, out) == (2, "")
        assert sentence in err
        assert "Traceback" not in err
