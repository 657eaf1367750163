"""What is kept on disk of compiled functions is used by the source it was compiled from, and by no other."""

import copy
import pickle

import numba

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
