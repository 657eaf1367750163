"""What a planner may ask, and its price."""

from tensorplan.access.everywhere import GlobalAccess, ModelAccess
from tensorplan.access.local import LocalAccess
from tensorplan.access.meter import Meter

__all__ = ["ACCESS", "GlobalAccess", "LocalAccess", "Meter", "ModelAccess"]

ACCESS: dict[str, type[LocalAccess]] = {"local": LocalAccess, "global": GlobalAccess, "model": ModelAccess}
"""What a planner may declare in its class attribute ``access``."""
