"""The packages that environments come from, which register their ids when they are imported."""

from __future__ import annotations

from importlib import import_module

from tensorplan.core.errors import BadInput

PACKAGES = {
    **dict.fromkeys(("MiniGrid-", "BabyAI-"), "minigrid"),
    "MinAtar/": "minatar.gym",
    "ALE/": "ale_py",
    **dict.fromkeys(
        ("highway-", "merge-", "roundabout-", "intersection-", "racetrack-", "exit-", "two-way-", "u-turn-"),
        "highway_env",
    ),
}
"""The modules that register ids with such a beginning."""

INSTALLED_AS = {"minatar.gym": "minatar", "ale_py": "ale-py", "highway_env": "highway-env"}
"""The packages of modules that have another name."""


def register_package(name: str) -> bool:
    """Import the package that an id belongs to, if it is a known one; whether it is."""
    module = next((module for start, module in PACKAGES.items() if name.startswith(start)), None)
    if module is None:
        return False
    try:
        found = import_module(module)
    except ModuleNotFoundError:
        package = INSTALLED_AS.get(module, module)
        raise BadInput(f"{name!r} is an environment of the package {package}: pip install {package}") from None
    getattr(found, "register_envs", lambda: None)()
    return True
