"""How many connections a listener holds, in all and of one peer: file descriptors are shared by the whole process.

The listeners have limits of their own, and what they may hold together leaves room for Postgres, brokers and files:
a flood of one listener takes nothing from the other.
"""

from __future__ import annotations

import resource
from collections import Counter
from dataclasses import dataclass, field

_MOST_DESCRIPTORS = 65_536
_MOST_CONNECTIONS = 4_096


@dataclass(eq=False)
class ConnectionLimit:
    """most: connections at once. most_of_a_peer: of one address, which is every user's behind a proxy."""

    most: int
    most_of_a_peer: int
    _held: Counter[str] = field(default_factory=Counter[str])
    _total: int = 0

    def admit(self, peer: str) -> str | None:
        """Count one more; or say in a sentence why not, without counting it."""
        if self._total >= self.most:
            return f"This listener has {self.most} connections already."
        if self._held[peer] >= self.most_of_a_peer:
            return f"Your address has {self.most_of_a_peer} connections to this listener already."
        self._held[peer] += 1
        self._total += 1
        return None

    def leave(self, peer: str) -> None:
        """Of one that was admitted."""
        self._total -= 1
        self._held[peer] -= 1
        if not self._held[peer]:
            del self._held[peer]


def limits_of_process() -> tuple[ConnectionLimit, ConnectionLimit]:
    """Those of the users' and of the workers' listener, by the descriptors that this process may open.

    The soft limit is raised to the hard one: it is often 1,024, for the sake of programs that use `select`.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    descriptors = wanted if soft == resource.RLIM_INFINITY else soft
    # The workers' first: their heartbeats are what runs are kept by.
    users, workers = min(_MOST_CONNECTIONS, descriptors // 4), min(_MOST_CONNECTIONS, descriptors // 2)
    return ConnectionLimit(users, users // 2), ConnectionLimit(workers, workers)
