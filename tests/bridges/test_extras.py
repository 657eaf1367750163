"""What is missing is named."""

import subprocess
import sys

import pytest

import tensorplan as tp
from tensorplan.bridges.gymnasium_env import register_envs, to_gym


def test_without_gymnasium_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(tp.BadInput, match=r"to_gym needs Gymnasium: pip install 'tensorplan\[gym\]'"):
        to_gym("hanoi/3")
    with pytest.raises(tp.BadInput, match=r"register_envs needs Gymnasium: pip install 'tensorplan\[gym\]'"):
        register_envs()


def test_without_scikit_decide_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "skdecide", None)
    monkeypatch.delitem(sys.modules, "tensorplan.bridges.scikit_decide", raising=False)
    with pytest.raises(tp.BadInput, match=r"needs scikit-decide: pip install 'tensorplan\[skdecide\]'"):
        __import__("tensorplan.bridges.scikit_decide")


def test_importing_the_package_imports_neither():
    code = "import sys, tensorplan, tensorplan.bridges.gymnasium_env, tensorplan.bridges.agent; "
    code += "print(*sorted({'gymnasium', 'skdecide'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"
