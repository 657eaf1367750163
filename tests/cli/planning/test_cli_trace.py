"""The command trace."""

import json


def test_a_trace_becomes_a_page(cli, tmp_path):
    page = tmp_path / "trace.html"
    code, out, err = cli("trace", "hanoi/3", "--out", str(page), "--json")
    assert code == 0
    told = json.loads(out)["trace"]
    assert (told["mode"], told["certificate"]["lower"]) == ("exact", -7)
    assert page.resolve().as_uri() in err
    assert "hanoi/3" in page.read_text()
    assert "the policy earns at least -7 in any case" in page.read_text()
