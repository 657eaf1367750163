"""What is kept on disk of compiled functions is used by the source it was compiled from, and by no other."""

import ast
import copy
import pickle
from pathlib import Path

import numba

from tensorplan.optimism import compiled
from tensorplan.optimism.basis import dot


def kept(path, version):
    """The index of a compiled function in a file that another version may have written, of classes that are gone."""
    path.write_bytes(pickle.dumps(version) + b"cbuiltins\nno_such_class\n.")
    index = copy.copy(dot._cache._cache_file)
    index._index_path = str(path)
    return index


def test_machine_code_of_another_source_is_compiled_anew(tmp_path):
    for version in (numba.__version__, dot._cache._cache_file._version[:-1]):
        assert kept(tmp_path / "dot.nbi", version)._load_index() == {}


def test_all_sources_of_compiled_functions_are_watched():
    """What they import of the optimiser is watched too."""
    folder = Path(compiled.__file__).parent
    for path in folder.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        if "\n@compiled" in text or "\n@inlined" in text:
            nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
            ours = [node.module.split(".")[2] for node in nodes if node.module.startswith("tensorplan.optimism.")]
            assert {path.stem, *ours} <= set(compiled.SOURCES)
