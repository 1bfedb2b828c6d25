"""One bounded question to a cluster: how long is left, and what its failure is called above this room."""

from __future__ import annotations

import time

from confluent_kafka import KafkaError

from app.domain.errors import BrokerUnreachableError, FencelineError, UnavailableError

# librdkafka's own codes have public names that begin with an underscore.
_UNREACHABLE = frozenset(
    {
        KafkaError._TIMED_OUT,  # noqa: SLF001
        KafkaError._TRANSPORT,  # noqa: SLF001
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001
        KafkaError._RESOLVE,  # noqa: SLF001
        KafkaError._AUTHENTICATION,  # noqa: SLF001
        KafkaError._SSL,  # noqa: SLF001
    }
)


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

    def unreachable(self, error: str) -> BrokerUnreachableError:
        return BrokerUnreachableError(self.address, error, time.monotonic() - self.started)

    def refused(self, what: str, error: str) -> UnavailableError:
        """A broker answered, and the answer was no."""
        return UnavailableError(f"the brokers at {self.address} refuse to {what}: {error}")

    def means_unreachable(self, error: KafkaError) -> bool:
        return error.code() in _UNREACHABLE

    def failure(self, what: str, error: KafkaError, *, connection_error: str | None) -> FencelineError:
        """`connection_error`: why the client last failed to connect; librdkafka's time-out alone does not say it."""
        if self.means_unreachable(error):
            return self.unreachable(connection_error or error.str())
        return self.refused(what, error.str())
