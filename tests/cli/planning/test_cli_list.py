"""The command list."""

import json
import subprocess
import sys


def test_list_names_problems_and_planners(cli):
    code, out, _ = cli("list")
    assert code == 0
    for name in ("hanoi/6", "layered/4x10", "uct", "sparse-sampling", "oracle", "random"):
        assert name in out
    assert max(map(len, out.splitlines())) <= 80
    code, out, _ = cli("list", "--json")
    names = json.loads(out)
    assert {"hanoi", "chinese-rings", "grid", "layered"} <= {p["name"] for p in names["problems"]}
    assert {"uct", "oracle"} <= {p["name"] for p in names["planners"]}


def test_the_list_does_not_load_the_compiler():
    program = "import sys; from tensorplan.cli.main import app; app(['list'], standalone_mode=False); "
    program += "sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 0
