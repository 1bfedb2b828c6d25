"""The time limit of one question to a cluster, and the errors of its failures."""

from __future__ import annotations

import time

from app.kit.errors import BrokerUnreachableError, UnavailableError


class ConnectionAttempt:
    """Counts from its creation. `address`: the cluster's, for the errors."""

    def __init__(self, address: str, timeout_s: float) -> None:
        self.address = address
        self.started = time.monotonic()
        self._deadline = self.started + timeout_s

    @property
    def left_s(self) -> float:
        """The remaining time; never 0, which clients read as their default."""
        return max(0.001, self._deadline - time.monotonic())

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._deadline

    def half(self) -> ConnectionAttempt:
        """Return a part of this question with half of the remaining time."""
        return ConnectionAttempt(self.address, self.left_s / 2)

    def unreachable(self, error: str, *, is_advertised: bool = False) -> BrokerUnreachableError:
        tried_s = time.monotonic() - self.started
        return BrokerUnreachableError(self.address, error, tried_s, is_advertised=is_advertised)

    def refused(self, what: str, error: str) -> UnavailableError:
        """Return the error for a broker's refusal."""
        return UnavailableError(f"the brokers at {self.address} refuse to {what}: {error}")
