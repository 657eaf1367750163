"""Compiled loops: the Numba decorator, where machine code is kept, and a compiled popcount.

Numba is imported when a loop is first compiled or loaded, since that alone takes half a second.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np

F = TypeVar("F", bound=Callable[..., Any])

KEPT = 12
"""Folders of machine code that are kept, the latest ones: those of a few versions and environments."""

# Masks of the SWAR popcount, in the form that LLVM recognises as the processor's instruction.
_PAIRS, _FOURS = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_BYTES, _SUM = np.uint64(0x0F0F0F0F0F0F0F0F), np.uint64(0x0101010101010101)
_1, _2, _4, _56 = (np.uint64(k) for k in (1, 2, 4, 56))


class CodeFolder:
    """Where the machine code of some sources is kept: one folder per user, version of Numba and content of the sources.

    It does not depend on where the package is installed, so all environments of a user share it.
    """

    def __init__(self, sources: list[Path]) -> None:
        numba = f"numba-{version('numba')}"  # which need not be imported for that
        content = b"".join(path.read_bytes() for path in sources)
        self.stamp = hashlib.sha256(content + numba.encode()).hexdigest()
        self.root, self.instead_of = cache_root()
        self.path = None if self.root is None else self.root / f"{numba}-{self.stamp[:16]}"

    def is_filled(self) -> bool:
        """Whether there is any code."""
        return self.path is not None and any(self.path.glob("*.nbi"))

    def keep(self, dispatcher: Any) -> None:
        """Let the code of a function be loaded from here, and be written here when it is compiled."""
        if self.path is not None:
            dispatcher._cache = _disk_cache(dispatcher.py_func, self)

    def has(self, dispatcher: Any, signature: Any) -> bool:
        """Whether the code of a function is here."""
        cache = dispatcher._cache
        if self.path is None or not self.path.is_dir():
            return False
        try:
            index = cache._cache_file._load_index()
        except Exception:  # a file that Numba did not write to its end, or another one wrote
            cache.flush()
            return False
        os.utime(self.path)
        return cache._index_key(signature, dispatcher.targetctx.codegen()) in index

    def prune(self) -> None:
        """Remove the folders that were used longest ago."""
        if self.root is not None:
            folders = sorted((p for p in self.root.iterdir() if p.is_dir()), key=lambda p: -p.stat().st_mtime)
            for folder in folders[KEPT:]:
                shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def claimed(self) -> Iterator[bool]:
        """Whether no other process is compiling for this folder; if so, others are told no until the end."""
        try:
            import fcntl
        except ImportError:  # Windows: processes that start together may compile together
            yield True
            return
        if self.path is None:
            yield True
            return
        self.path.mkdir(exist_ok=True)
        with open(self.path / "lock", "w") as lock:  # the system releases it when the process ends
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                yield False
                return
            yield True


@functools.cache
def cache_root() -> tuple[Path | None, str]:
    """The folder of all machine code, and, if it is not the usual one, which could not be used.

    NUMBA_CACHE_DIR if that is set, else the user's folder for caches; where that cannot be written, a folder for
    temporary files that belongs to the user alone, since what is in there is executed; None where there is none.
    """
    wanted = _usual_root()
    if wanted is not None and _writable(wanted):
        return wanted, ""
    own = Path(tempfile.gettempdir()) / f"tensorplan-{os.getuid() if hasattr(os, 'getuid') else 'cache'}"
    return (own if _private(own) and _writable(own) else None), str(wanted or "the home directory")


def _usual_root() -> Path | None:
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(chosen) / "tensorplan"
    try:
        if sys.platform == "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "tensorplan" / "Cache"
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "tensorplan"
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tensorplan"
    except RuntimeError:  # there is no home directory
        return None


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def _private(folder: Path) -> bool:
    """Whether nobody else can write to a folder, which is made if it is not there."""
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if not hasattr(os, "getuid"):
            return stat.S_ISDIR(found.st_mode)
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077
    return False


def _disk_cache(function: Any, folder: CodeFolder) -> Any:
    """Numba's cache of a function, in our folder."""
    from numba.core import caching

    class Locator(caching._CacheLocator):  # type: ignore[misc]
        def get_cache_path(self) -> str:
            return str(folder.path)

        def get_source_stamp(self) -> str:
            return folder.stamp

        def get_disambiguator(self) -> str:
            return str(function.__code__.co_firstlineno)

        @classmethod
        def from_function(cls, py_func: Any, py_file: Any) -> Locator:
            found = cls()
            found.ensure_cache_path()
            return found

    class Files(caching.CompileResultCacheImpl):  # type: ignore[misc]
        _locator_classes = (Locator,)

    class OurCache(caching.Cache):  # type: ignore[misc]
        _impl_class = Files

    return OurCache(function)


class _Compiled:
    """A function that is compiled, or loaded, when it is first called."""

    def __init__(self, function: Any) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, *arguments: Any) -> Any:
        return self.dispatcher(*arguments)

    @functools.cached_property
    def dispatcher(self) -> Any:
        """What Numba makes of it, with the other compiled functions that it calls."""
        import numba

        world = dict(self.function.__globals__)
        for name in self.function.__code__.co_names:
            if isinstance(world.get(name), _Compiled):
                world[name] = world[name].dispatcher
        twin = FunctionType(self.function.__code__, world, self.function.__name__)
        found = numba.njit(twin)
        if isinstance(found, FunctionType):  # the user turned the compiler off
            return found
        CodeFolder([Path(__file__), Path(self.function.__code__.co_filename)]).keep(found)
        return found


def compiled(function: F) -> F:
    """The function, compiled at its first call; the machine code is kept on disk."""
    return cast(F, _Compiled(function))


@compiled
def popcount(x: Any) -> Any:
    """The number of set bits of a 64-bit word."""
    x = x - ((x >> _1) & _PAIRS)
    x = (x & _FOURS) + ((x >> _2) & _FOURS)
    x = (x + (x >> _4)) & _BYTES
    return np.int64((x * _SUM) >> _56)
