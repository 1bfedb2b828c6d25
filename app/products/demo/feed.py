"""Write flights to the source topic, at full speed or at a steady rate, and record the offset of each."""

import contextlib
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from app.core.allow_lists.client_options import NEVER_CREATE_TOPICS
from app.edges.embedded.errors import EmbeddedError
from app.products.demo.flights import Flight

_DELIVERY_TIMEOUT_S = 60.0
# The interval of a steady feed, short enough for an even line on a chart.
_TICK_S = 0.02

FedFlight = tuple[int, Flight]
"""The number of the replay, and the flight."""


class Feed:
    """The only producer of a fresh source topic: `flights_in(partition)[n]` is the flight at offset n.

    The producer is idempotent (no duplicates or gaps, order kept) and not transactional (no markers between the
    records). The topic is new, and every flight's partition is chosen here.
    """

    def __init__(self, *, bootstrap_servers: str, topic: str, partitions: int) -> None:
        self.topic = topic
        self._fed: list[list[FedFlight]] = [[] for _ in range(partitions)]
        self._refused: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                **NEVER_CREATE_TOPICS,
                "enable.idempotence": True,
                "linger.ms": 5,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 200_000,
                "log_level": 0,
            }
        )

    @property
    def sent(self) -> int:
        """The number of flights handed to the producer so far."""
        return sum(len(flights) for flights in self._fed)

    @property
    def partitions(self) -> int:
        return len(self._fed)

    def flights_in(self, partition: int) -> Sequence[FedFlight]:
        """The flights sent to the partition, by offset. Grows while the feed runs."""
        return self._fed[partition]

    def partition_of(self, flight: Flight) -> int:
        """All of an airline's flights go to one partition."""
        return zlib.crc32(flight.key()) % len(self._fed)

    def send_all(
        self, flights: Iterable[FedFlight], *, on_progress: Callable[[int], None] | None = None, every: int = 5_000
    ) -> None:
        """Send at full speed, and wait until all of it is acknowledged."""
        count = 0
        for count, (lap, flight) in enumerate(flights, start=1):
            self._send(lap, flight)
            if count % every == 0:
                self._producer.poll(0)
                if on_progress is not None:
                    on_progress(count)
        self.flush()
        if on_progress is not None:
            on_progress(count)

    def send_steadily(
        self,
        flights: Iterator[FedFlight],
        *,
        rate_per_s: float,
        stop: threading.Event,
        on_progress: Callable[[int], None] | None = None,
    ) -> None:
        """Send at `rate_per_s` until the flights run out or `stop` is set, then wait for the acknowledgements.

        A late wake-up sends the missed flights too, so the average rate holds.
        """
        started = time.monotonic()
        count = 0
        exhausted = False
        while not exhausted and not stop.is_set():
            due = int((time.monotonic() - started) * rate_per_s)
            while count < due:
                pair = next(flights, None)
                if pair is None:
                    exhausted = True
                    break
                self._send(*pair)
                count += 1
            self._producer.poll(0)
            if on_progress is not None:
                on_progress(count)
            stop.wait(_TICK_S)
        self.flush()

    def flush(self) -> None:
        """Wait until the broker has acknowledged everything. Raises EmbeddedError after an error or a timeout."""
        remaining = self._producer.flush(_DELIVERY_TIMEOUT_S)
        if self._refused:
            raise EmbeddedError(f"the broker refused a flight for topic {self.topic}: {self._refused[0].str()}")
        if remaining:
            raise EmbeddedError(f"{remaining} flights were not acknowledged within {_DELIVERY_TIMEOUT_S:.0f} s")

    def _send(self, lap: int, flight: Flight) -> None:
        partition = self.partition_of(flight)
        while True:
            with contextlib.suppress(BufferError):
                self._producer.produce(
                    self.topic,
                    key=flight.key(),
                    value=flight.value(lap=lap),
                    partition=partition,
                    on_delivery=self._delivered,
                )
                break
            self._producer.poll(0.05)
        self._fed[partition].append((lap, flight))

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        del message
        if error is not None:
            self._refused.append(error)


def laps(flights: Sequence[Flight], *, start: int = 0) -> Iterator[FedFlight]:
    """Yield the flights from `start` on as the first lap, then the whole year repeatedly."""
    lap = 1
    yield from ((lap, flight) for flight in flights[start:])
    while flights:
        lap += 1
        yield from ((lap, flight) for flight in flights)


def describe_error(error: KafkaException) -> str:
    """The sentence inside a KafkaException."""
    detail = error.args[0] if error.args else error
    return detail.str() if isinstance(detail, KafkaError) else str(detail)
