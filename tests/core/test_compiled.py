"""Machine code is kept in one folder per user, used by the sources it was compiled from, and by nobody else's."""

import os
import subprocess
import sys
import tempfile

import pytest

from tensorplan.core import compiled
from tensorplan.core.compiled import CodeFolder, cache_root, popcount


@pytest.fixture(autouse=True)
def _forget(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    cache_root.cache_clear()
    yield
    cache_root.cache_clear()


def test_the_folder_of_the_user_is_used(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_root() == (tmp_path / "home" / ".cache" / "tensorplan", "")
    cache_root.cache_clear()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_root() == (tmp_path / "xdg" / "tensorplan", "")
    cache_root.cache_clear()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "chosen"))
    assert cache_root() == (tmp_path / "chosen" / "tensorplan", "")


@pytest.mark.parametrize(
    ("platform", "folder"), [("darwin", "Library/Caches/tensorplan"), ("win32", "AppData/Local/tensorplan/Cache")]
)
def test_other_systems_have_other_folders(monkeypatch, tmp_path, platform, folder):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == (tmp_path / folder, "")


def test_without_a_home_a_private_folder_is_found_again(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", "/dev/null")
    own = tmp_path / "tmp" / f"tensorplan-{os.getuid()}"
    for _ in range(2):
        assert cache_root() == (own, "/dev/null/.cache/tensorplan")
        assert own.stat().st_mode & 0o777 == 0o700
        cache_root.cache_clear()


def test_a_folder_that_others_can_write_to_is_not_trusted(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", "/dev/null")
    own = tmp_path / "tmp" / f"tensorplan-{os.getuid()}"
    own.mkdir()
    own.chmod(0o777)
    assert cache_root()[0] is None
    own.rmdir()
    cache_root.cache_clear()
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    own.symlink_to(tmp_path / "elsewhere")
    assert cache_root()[0] is None


def test_other_sources_have_another_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    source = tmp_path / "source.py"
    source.write_text("1")
    one = CodeFolder([source])
    assert one.path == CodeFolder([source]).path
    source.write_text("2")
    assert one.path != CodeFolder([source]).path
    assert not one.is_filled()


def test_folders_of_long_ago_are_removed(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    folder = CodeFolder([])
    for age in range(compiled.KEPT + 3):
        (folder.root / f"{age}").mkdir()
        os.utime(folder.root / f"{age}", (1e9 - age, 1e9 - age))
    folder.prune()
    assert sorted(int(path.name) for path in folder.root.iterdir()) == list(range(compiled.KEPT))


SCRIPT = """
from tensorplan.core import compiled
assert compiled.popcount(__import__("numpy").uint64(7)) == 3
print(sum(compiled.popcount.dispatcher.stats.cache_hits.values()))
"""


def test_code_is_compiled_once_for_all_environments(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    hits = [subprocess.check_output([sys.executable, "-c", SCRIPT], env=environment, text=True) for _ in range(2)]
    assert hits == ["0\n", "1\n"]
    assert [path.name.partition("-")[0] for path in (tmp_path / "tensorplan").iterdir()] == ["numba"]


def test_a_damaged_file_is_compiled_anew(monkeypatch, tmp_path):
    import numba

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    folder = CodeFolder([])
    double = numba.njit(lambda x: 2 * x)
    folder.keep(double)
    signature = (numba.int64,)
    assert not folder.has(double, signature)
    double.compile(signature)
    assert folder.has(double, signature)
    for index in folder.path.glob("*.nbi"):
        index.write_bytes(index.read_bytes()[:-20])
    assert not folder.has(double, signature)
    assert popcount.__doc__
