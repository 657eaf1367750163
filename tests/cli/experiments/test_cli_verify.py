"""The command verify."""

import json


def test_verify_checks_the_hard_problems(cli):
    code, out, _ = cli("verify", "hard/2x3")
    assert code == 0
    assert "hard/2x3: passed (exhaustive, exact fractions; 27 states" in out
    assert max(map(len, out.splitlines())) <= 80
    code, out, _ = cli("verify", "hard/3x1", "--json")
    assert (code, json.loads(out)["passed"]) == (0, True)
    code, _, err = cli("verify", "hanoi/3")
    assert code == 2
    assert len(err.splitlines()) == 1
