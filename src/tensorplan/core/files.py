"""Output files, checked before the work starts and written atomically.

Only regular files are replaced; devices and pipes are written to directly.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from tensorplan.core.errors import BadInput, shown

QUOTED = 160
"""Characters of a path quoted in a message, which leaves room for the reason."""


def check_output(path: str | Path) -> None:
    """Raise BadInput if the path cannot be written to."""
    if not str(path):
        raise BadInput("cannot write to a file without a name")
    try:
        mode = _mode(path)
        folder = Path(os.path.realpath(path)).parent
        exists = folder.is_dir()
    except OSError as error:
        raise _cannot(path, error) from None
    if not exists:
        raise _cannot(path, "its folder does not exist")
    if mode is None:
        allowed = _may(folder, os.W_OK | os.X_OK)
    elif stat.S_ISDIR(mode):
        raise _cannot(path, "it is a folder")
    elif stat.S_ISREG(mode) or _takes_a_stream(mode):
        allowed = _may(path, os.W_OK)
    else:
        raise _cannot(path, "it is not a regular file")
    if not allowed:
        raise _cannot(path, "permission denied")


def write_output(path: str | Path, content: str | bytes) -> Path:
    """Write the content to a file atomically; BadInput if that fails."""
    data = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
    return save_output(path, lambda file: file.write_bytes(data))


def save_output(path: str | Path, save: Callable[[Path], object]) -> Path:
    """Like :func:`write_output`, with the content written by ``save(file)``."""
    check_output(path)
    try:
        mode = _mode(path)
        if mode is None or stat.S_ISREG(mode):
            _replace(Path(os.path.realpath(path)), save)
        else:
            save(Path(path))
    except OSError as error:
        raise _cannot(path, error) from None
    return Path(path)


def _replace(path: Path, save: Callable[[Path], object]) -> None:
    """Replace the file by a temporary one beside it; write in place where the folder does not allow new files."""
    partial = path.with_name(path.name + ".partial")
    try:
        save(partial)
        partial.replace(path)
    except PermissionError:
        save(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def _mode(path: str | Path) -> int | None:
    """The mode of the file that the path resolves to, or None if there is none."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _may(path: str | Path, what: int) -> bool:
    return os.access(path, what, effective_ids=os.access in os.supports_effective_ids)


def _takes_a_stream(mode: int) -> bool:
    return stat.S_ISCHR(mode) or stat.S_ISFIFO(mode)


def _cannot(path: str | Path, why: str | OSError) -> BadInput:
    reason = why if isinstance(why, str) else why.strerror or str(why)
    return BadInput(f"cannot write to {shown(str(path), QUOTED)}: {reason}")
