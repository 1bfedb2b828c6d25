"""Free loopback ports that stay free while a service is down."""

import contextlib
import random
import socket
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from app.edges.embedded.errors import PortTakenError

T = TypeVar("T")

LOOPBACK = "127.0.0.1"
_LOWEST = 15_000


def free_ports(count: int) -> list[int]:
    """`count` different ports of 127.0.0.1 that nobody listens on.

    They lie below the kernel's range for outgoing connections. A port from inside that range can be taken by any
    client while a broker is being restarted, and a client that keeps connecting to a dead loopback port of that range
    sooner or later connects to itself.
    """
    candidates = list(range(_LOWEST, _first_ephemeral_port()))
    random.SystemRandom().shuffle(candidates)
    found: list[int] = []
    for port in candidates:
        if len(found) == count:
            break
        with contextlib.closing(socket.socket()) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((LOOPBACK, port))
                found.append(port)
    return found


def with_free_ports(count: int, start: Callable[[list[int]], T]) -> T:
    """`start` given `count` free ports, and given others when one of them was taken in between (at most twice)."""
    for _ in range(2):
        try:
            return start(free_ports(count))
        except PortTakenError:
            continue
    return start(free_ports(count))


def accepts_connections(port: int, *, timeout_s: float = 0.5) -> bool:
    """Whether somebody listens on the loopback port."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=timeout_s):
            return True
    except OSError:
        return False


def _first_ephemeral_port() -> int:
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError):
        return 32_768
    # A machine may use nearly everything for outgoing connections; then there is no safe range to keep to.
    return first if first > _LOWEST + 1_000 else 32_768
