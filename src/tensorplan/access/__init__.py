"""Access models: what a planner may query, and how queries are charged."""

from tensorplan.access.everywhere import GlobalAccess, ModelAccess
from tensorplan.access.local import LocalAccess
from tensorplan.access.meter import Meter

__all__ = ["ACCESS", "GlobalAccess", "LocalAccess", "Meter", "ModelAccess"]

ACCESS: dict[str, type[LocalAccess]] = {"local": LocalAccess, "global": GlobalAccess, "model": ModelAccess}
"""The access models that a planner may declare in its class attribute ``access``."""
