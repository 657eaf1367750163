"""The connection to a Ray cluster (the extra ``ray``): a running one, by its address, or one started here."""

from __future__ import annotations

import os
import socket
from typing import Any
from urllib.parse import urlsplit

from tensorplan.core.errors import BadInput

CONNECT_TIMEOUT = 5.0
"""Seconds until a cluster that does not respond is an error."""
OBJECT_STORE = 100_000_000
"""Bytes of the object store of a cluster started here; messages are small."""


def connect(address: str | None, workers: int | None) -> tuple[Any, bool]:
    """The module ``ray``, connected, and whether the connection was made here."""
    try:
        import ray
    except ImportError:
        raise BadInput("the engine 'ray' needs Ray: pip install 'tensorplan[ray]'") from None
    if ray.is_initialized():
        if address is not None:
            raise BadInput(f"this process is connected to a Ray cluster already; cannot connect to {address!r}")
        return ray, False
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    if address is None:
        options |= {"num_cpus": workers, "include_dashboard": False, "object_store_memory": OBJECT_STORE}
    else:
        _check_reachable(address)
        options |= {"address": address}
    try:
        ray.init(**options)
    except (OSError, RuntimeError, ValueError) as error:
        where = "cannot start Ray here" if address is None else f"no Ray cluster answers at {address!r}"
        raise BadInput(f"{where}: {str(error).splitlines()[0]}") from None
    return ray, True


def _check_reachable(address: str) -> None:
    """Raise BadInput if nothing listens at the host:port of the address; Ray itself would retry for a long time."""
    if address == "auto":
        return
    try:
        where = urlsplit(address if "//" in address else f"//{address}")
        host, port = where.hostname, where.port
    except ValueError:
        host = port = None
    if host is None or port is None:
        raise BadInput(f"the address of a Ray cluster is host:port, ray://host:port or auto, got {address!r}")
    try:
        socket.create_connection((host, port), timeout=CONNECT_TIMEOUT).close()
    except OSError as error:
        raise BadInput(f"no Ray cluster answers at {address!r}: {error.strerror or error}") from None
