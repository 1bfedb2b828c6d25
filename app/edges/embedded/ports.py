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
    """Return `count` different free ports of 127.0.0.1.

    They are below the kernel's range for outgoing connections. Any client can take a port of that range while a broker
    restarts. A client that keeps connecting to a dead loopback port of that range eventually connects to itself.
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
    """Call `start` with `count` free ports, and with others when one of them was taken meanwhile (at most twice)."""
    for _ in range(2):
        try:
            return start(free_ports(count))
        except PortTakenError:
            continue
    return start(free_ports(count))


def accepts_connections(port: int, *, timeout_s: float = 0.5) -> bool:
    """Return whether a process listens on the loopback port."""
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
    # A machine may use nearly all ports for outgoing connections; then no safe range exists.
    return first if first > _LOWEST + 1_000 else 32_768
