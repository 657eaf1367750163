"""Files to write to: what cannot be written is known before, and nothing but a regular file is replaced."""

import os
import stat
import threading
from pathlib import Path

import pytest
from permissions import unwritable

from tensorplan import BadInput
from tensorplan.core.files import check_output, write_output

posix = pytest.mark.skipif(os.name != "posix", reason="needs devices, pipes and permissions")


def test_a_file_is_written_whole(tmp_path):
    path = tmp_path / "x.html"
    for content in ("first", "second θ \udce9"):
        assert write_output(path, content) == path
    assert path.read_text(encoding="utf-8") == r"second θ \udce9"
    write_output(str(path), b"\x89PNG")
    assert path.read_bytes() == b"\x89PNG"
    assert [p.name for p in tmp_path.iterdir()] == ["x.html"]


def test_what_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    for path, why in (
        ("", "without a name"),
        (tmp_path, "it is a folder"),
        (tmp_path / "nowhere" / "x", "its folder does not exist"),
        (tmp_path / "file" / "x", "Not a directory"),
        (tmp_path / ("x" * 300), "File name too long"),
        (tmp_path / ("x" * 200) / ("y" * 200) / "z", "its folder does not exist"),
    ):
        for attempt in (check_output, lambda path: write_output(path, "text")):
            with pytest.raises(BadInput, match=why) as caught:
                attempt(path)
            assert len(str(caught.value)) <= 300


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x"
    write_output(path, "old")

    def full(partial, data):
        partial.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(BadInput, match="No space left on device"):
        write_output(path, "new")
    assert path.read_text(encoding="utf-8") == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["x"]


@posix
def test_a_link_stays_and_its_file_is_replaced(tmp_path):
    (tmp_path / "far").mkdir()
    link = tmp_path / "link"
    link.symlink_to(Path("far") / "file")
    for content in ("new", "newer"):  # the file is not there at first
        write_output(link, content)
        assert link.is_symlink()
        assert (tmp_path / "far" / "file").read_text(encoding="utf-8") == content
    link.unlink()
    link.symlink_to(tmp_path / "nowhere" / "file")
    with pytest.raises(BadInput, match="its folder does not exist"):
        check_output(link)


@posix
def test_devices_are_written_to_and_stay(tmp_path):
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    for path in ("/dev/null", link):
        write_output(path, "text")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    assert link.is_symlink()


@posix
def test_a_pipe_hears_it_and_stays(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text(encoding="utf-8")))
    reader.start()
    write_output(pipe, "text")
    reader.join(10)
    assert heard == ["text"]
    assert stat.S_ISFIFO(os.stat(pipe).st_mode)


@pytest.fixture
def locked():
    """A folder that this process may not write to, with a file that it may."""

    def fill(folder):
        for name, rights in (("mine", 0o666), ("theirs", 0o444)):
            (folder / name).touch()
            (folder / name).chmod(rights)

    with unwritable(fill) as folder:
        yield folder


@posix
def test_permissions(locked):
    for name in ("theirs", "new"):
        with pytest.raises(BadInput, match="permission denied"):
            check_output(locked / name)
    write_output(locked / "mine", "text")  # where it stands, since nothing can be put beside it
    assert (locked / "mine").read_text(encoding="utf-8") == "text"
