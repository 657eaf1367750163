import signal
import sys
from pathlib import Path

import pytest
from hypothesis import settings

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "support"), str(HERE / "docs")]
settings.register_profile("default", deadline=None, derandomize=True)
settings.load_profile("default")


def pytest_configure():
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background; tests of Ctrl-C need it
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Mark the tests that ``make quick`` leaves out: thorough.txt lists those that take half a second or more."""
    names = set((HERE / "thorough.txt").read_text(encoding="utf-8").split())
    for item in items:
        if item.nodeid.partition("[")[0] in names:
            item.add_marker(pytest.mark.thorough)


@pytest.fixture
def cli(capsys):
    """``cli("plan", "hanoi/3")`` -> exit code, stdout, stderr."""
    from tensorplan.cli.main import main

    def call(*arguments):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        out, err = capsys.readouterr()
        return stop.value.code, out, err

    return call
