"""The command constants."""

import json

from commands import CONSTANTS


def test_constants_beside_what_the_modes_need(cli):
    code, out, _ = cli(*CONSTANTS)
    assert code == 0
    for text in ("2,189", "13,111", "38,739,380", "7.96e+18", "3.49e+22", "exact", "certified"):
        assert text in out
    assert max(map(len, out.splitlines())) <= 80
    _, out, _ = cli(*CONSTANTS, "--json")
    data = json.loads(out)
    assert data["constants"]["E_d"] == 2189
    assert data["constants"]["n1"] == 13111
    exact, *certified = data["measured"]
    assert exact["queries"] < 100
    assert all(need["queries"] < 10**6 and need["gap"] <= 0.25 for need in certified)
    code, _, err = cli("constants", "--A", "2", "--d", "3", "--H", "5", "--delta", "-1", "--B", "1")
    assert code == 2
    assert len(err.splitlines()) == 1
