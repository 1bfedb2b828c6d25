"""One bounded question to a cluster: how long is left, and what its failure is called above this room."""

from __future__ import annotations

import time

from app.kit.errors import BrokerUnreachableError, UnavailableError


class Attempt:
    """Counts from its making. `address` is what the cluster was reached by, for the errors."""

    def __init__(self, address: str, timeout_s: float) -> None:
        self.address = address
        self.started = time.monotonic()
        self._deadline = self.started + timeout_s

    @property
    def left_s(self) -> float:
        """Never quite nothing, since clients take 0 for their default."""
        return max(0.001, self._deadline - time.monotonic())

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._deadline

    def half(self) -> Attempt:
        """A part of this question that has half of the time that is left."""
        return Attempt(self.address, self.left_s / 2)

    def unreachable(self, error: str, *, is_advertised: bool = False) -> BrokerUnreachableError:
        tried_s = time.monotonic() - self.started
        return BrokerUnreachableError(self.address, error, tried_s, is_advertised=is_advertised)

    def refused(self, what: str, error: str) -> UnavailableError:
        """A broker answered, and the answer was no."""
        return UnavailableError(f"the brokers at {self.address} refuse to {what}: {error}")
