"""Limit the connections of a listener, in all and for one peer, as the process shares its file descriptors.

Each listener has a limit of its own. Both together leave descriptors for Postgres, brokers and files. A flood of one
listener takes none from the other.
"""

from __future__ import annotations

import ipaddress
import resource
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Protocol

_MOST_DESCRIPTORS = 65_536
_MOST_CONNECTIONS = 4_096
_IPV6_HOST_BITS = 64


class HeldConnection(Protocol):
    """A connection that takes a place."""

    @property
    def is_authenticated(self) -> bool:
        """A request of it came with a valid credential."""
        ...

    def evict(self) -> None:
        """Close it at once, with unsent data."""
        ...


@dataclass(eq=False)
class ConnectionLimit:
    """If no place is left, a new connection takes that of the oldest one without a credential.

    So connections alone cannot exclude a worker or a user. Authenticated connections keep their places.

    most: connections at once. most_of_a_peer: for one address, which is every user's behind a proxy. For IPv6 it is for
        one network of 64 bits, since a host may have all of its addresses.
    """

    most: int
    most_of_a_peer: int
    _peers: dict[HeldConnection, str] = field(default_factory=dict[HeldConnection, str])
    _held: Counter[str] = field(default_factory=Counter[str])
    # Those without a credential at the last check, oldest first: in all, and of each peer.
    _unproven: dict[HeldConnection, None] = field(default_factory=dict[HeldConnection, None])
    _unproven_of: defaultdict[str, dict[HeldConnection, None]] = field(
        default_factory=lambda: defaultdict[str, dict[HeldConnection, None]](dict)
    )

    @property
    def held(self) -> int:
        """The present number of connections."""
        return len(self._peers)

    def admit(self, connection: HeldConnection, address: str) -> str | None:
        """Count one more; or return the reason of its refusal."""
        peer = _peer_of(address)
        if len(self._peers) >= self.most and not self._make_room(self._unproven):
            return f"All {self.most} connections of this listener are in use. Try again in some seconds."
        if self._held[peer] >= self.most_of_a_peer and not self._make_room(self._unproven_of[peer]):
            return f"{peer} has {self.most_of_a_peer} connections already, the most of one address. Close some of them."
        self._peers[connection] = peer
        self._held[peer] += 1
        self._unproven[connection] = self._unproven_of[peer][connection] = None
        return None

    def leave(self, connection: HeldConnection) -> None:
        """Release its place, if it has one."""
        peer = self._peers.pop(connection, None)
        if peer is None:
            return
        self._prove(connection, peer)
        self._held[peer] -= 1
        if not self._held[peer]:
            del self._held[peer]
            self._unproven_of.pop(peer, None)

    def _make_room(self, candidates: dict[HeldConnection, None]) -> bool:
        while candidates:
            oldest = next(iter(candidates))
            if oldest.is_authenticated:
                self._prove(oldest, self._peers[oldest])
                continue
            self.leave(oldest)
            oldest.evict()
            return True
        return False

    def _prove(self, connection: HeldConnection, peer: str) -> None:
        self._unproven.pop(connection, None)
        self._unproven_of[peer].pop(connection, None)


def _peer_of(address: str) -> str:
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return address
    return str(found.ipv4_mapped or ipaddress.ip_network((int(found), _IPV6_HOST_BITS), strict=False))


def limits_of_process() -> tuple[ConnectionLimit, ConnectionLimit]:
    """Divide the descriptors that this process may open between the users' and the workers' listener.

    The soft limit is raised to the hard one: it is often 1,024, for programs that use `select`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    descriptors = wanted if soft == resource.RLIM_INFINITY else soft
    # The workers' first: runs depend on their heartbeats.
    users, workers = min(_MOST_CONNECTIONS, descriptors // 4), min(_MOST_CONNECTIONS, descriptors // 2)
    return ConnectionLimit(users, users // 2), ConnectionLimit(workers, workers)
