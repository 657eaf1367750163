"""Folders that this process may not write to."""

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path

NOBODY = 65534
"""A user without rights, as whom tests go on that root runs: root may write anywhere."""


@contextmanager
def unwritable(fill):
    """A folder that ``fill(folder)`` has filled, and that can be read since then and not be written to."""
    root = Path(tempfile.mkdtemp())
    root.chmod(0o755)
    folder = root / "folder"
    folder.mkdir()
    fill(folder)
    folder.chmod(0o555)
    me = os.geteuid()
    if me == 0:
        os.seteuid(NOBODY)
    try:
        yield folder
    finally:
        os.seteuid(me)
        folder.chmod(0o755)
        shutil.rmtree(root)
