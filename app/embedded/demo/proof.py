"""Was every flight processed exactly once? Counted by a reader of its own, from the CSV outward.

It shares no code with the loop: what *must* be in the sink follows from the CSV and from the group's committed offsets,
what *is* there from an ordinary `read_committed` consumer.
"""

import time
from collections import Counter
from dataclasses import dataclass, field

import orjson
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka import KafkaError as Code
from confluent_kafka.admin import AdminClient

from app.embedded.demo.feed import FedFlight, Feed
from app.embedded.demo.offsets import ANSWER_S, answered, stable_offsets
from app.embedded.errors import EmbeddedError

_READ_S = 60.0

PROJECTED = ("flight_id", "carrier", "origin", "destination", "arrival_delay_min")
"""The fields that the pipeline `delayed-flights` keeps, in their order."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one look at the sink showed.

    fed: flights that were handed to the broker by then; what lies between them and `records_in` was not judged.
    records_in: flights whose offset the group has committed.
    expected: those of them that were late, each of which must be in the sink once.
    found: how many of the expected ones are there.
    duplicated: copies beyond the first, of any record.
    wrong: records that no fed flight explains, or whose fields differ from the CSV's; shown, at most a few.
    """

    fed: int
    records_in: int
    expected: int
    found: int
    lost: int
    duplicated: int
    wrong: tuple[str, ...] = ()

    @property
    def is_exactly_once(self) -> bool:
        return self.lost == 0 and self.duplicated == 0 and not self.wrong

    def sentence(self) -> str:
        """One line for people."""
        line = (
            f"{self.records_in:,} flights read of {self.fed:,} fed · expected {self.expected:,} · "
            f"found {self.found:,} · lost {self.lost:,} · duplicated {self.duplicated:,}"
        )
        if self.wrong:
            line += f" · wrong {len(self.wrong):,}, such as {self.wrong[0]}"
        return line


@dataclass(slots=True)
class SinkReader:
    """Reads a topic as an ordinary downstream service would: committed records only, each offset once."""

    bootstrap_servers: str
    topic: str
    seen: Counter[str] = field(default_factory=Counter[str])
    wrong: list[str] = field(default_factory=list[str])
    _consumer: Consumer | None = None
    _partitions: tuple[int, ...] = ()
    _next: dict[int, int] = field(default_factory=dict[int, int])

    def read_to_end(self, admin: AdminClient) -> None:
        """Read on up to the last stable offsets of this moment."""
        consumer = self._open(admin)
        ends = stable_offsets(admin, self.topic, self._partitions, is_end=True)
        deadline = time.monotonic() + _READ_S
        while behind := {p: end for p, end in ends.items() if self._next.get(p, 0) < end}:
            if time.monotonic() > deadline:
                raise EmbeddedError(f"reading {self.topic} to {ends} took more than {_READ_S:.0f} s; behind: {behind}")
            for message in consumer.consume(2_000, timeout=0.2):
                error = message.error()
                if error is None:
                    self._take(message.value())
                elif error.code() == Code._PARTITION_EOF:  # noqa: SLF001 - its public name has the underscore
                    # The end behind commit markers and aborted records, which are never delivered.
                    self._read_up_to(message.partition(), message.offset())
                else:
                    raise EmbeddedError(f"reading {self.topic}: {error.str()}")
            for position in consumer.position([TopicPartition(self.topic, p) for p in self._partitions]):
                self._read_up_to(position.partition, position.offset)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _open(self, admin: AdminClient) -> Consumer:
        if self._consumer is None:
            described = answered(f"the topic {self.topic}", lambda: admin.list_topics(self.topic, timeout=ANSWER_S))
            metadata = described.topics[self.topic]
            self._partitions = tuple(sorted(metadata.partitions))
            starts = stable_offsets(admin, self.topic, self._partitions, is_end=False)
            self._next = dict(starts)
            self._consumer = Consumer(
                {
                    "bootstrap.servers": self.bootstrap_servers,
                    # Never joined and never committed to: partitions are assigned by hand.
                    "group.id": "fenceline-demo-proof",
                    "enable.auto.commit": False,
                    "isolation.level": "read_committed",
                    "auto.offset.reset": "earliest",
                    "enable.partition.eof": True,
                    "log_level": 0,
                }
            )
            self._consumer.assign([TopicPartition(self.topic, p, starts[p]) for p in self._partitions])
        return self._consumer

    def _read_up_to(self, partition: int | None, offset: int | None) -> None:
        if partition is not None and offset is not None:
            self._next[partition] = max(self._next[partition], offset)

    def _take(self, value: bytes | str | None) -> None:
        try:
            record = orjson.loads(value or b"")
            flight_id = str(record["flight_id"])
        except (orjson.JSONDecodeError, KeyError, TypeError):
            self.wrong.append(f"not a flight: {value!r}"[:200])
            return
        # What a record says beyond its id is remembered with it, to be compared with the CSV.
        self.seen[orjson.dumps([flight_id, *(record.get(name) for name in PROJECTED[1:]), len(record)]).decode()] += 1


class Proof:
    """Compares what was fed with what came out, as often as one likes; each look reads only what is new."""

    def __init__(
        self, *, bootstrap_servers: str, group: str, feed: Feed, sink_topic: str, settle_s: float = 10.0
    ) -> None:
        self._settle_s = settle_s
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
        # It never joins: it only asks for the group's offsets, and does not wait for undecided ones.
        self._offsets = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "log_level": 0,
                "group.id": group,
                "enable.auto.commit": False,
                "isolation.level": "read_uncommitted",
            }
        )
        self._reader = SinkReader(bootstrap_servers, sink_topic)
        self._group = group
        self._feed = feed
        # How many flights of each partition are in `_expected` already.
        self._counted = [0] * feed.partitions
        self._expected: set[str] = set()

    def close(self) -> None:
        self._reader.close()
        self._offsets.close()
        # Not left to the garbage collector, which may run on a thread of this client's own and would end the process.
        self._admin.__exit__(None, None, None)

    def committed(self) -> list[int]:
        """The group's committed offset in each source partition; 0 where it has none."""
        wanted = [TopicPartition(self._feed.topic, p) for p in range(self._feed.partitions)]

        def ask() -> list[TopicPartition]:
            # Not AdminClient.list_consumer_group_offsets: while the group's coordinator loads or moves, librdkafka
            # 2.16.0 dereferences the group that an admin handle does not have, and the process is gone.
            found = self._offsets.committed(wanted, ANSWER_S)
            for partition in found:
                if partition.error is not None:
                    raise KafkaException(partition.error)
            return found

        found = answered(f"the offsets of group {self._group}", ask)
        offsets = [0] * self._feed.partitions
        for partition in found:
            offsets[partition.partition] = max(partition.offset, 0)
        return offsets

    def look(self) -> Verdict:
        """Judge everything whose input offsets are committed by now.

        1. the committed offsets    what lies before them is in the sink, or about to be: same transaction
        2. the sink up to its end   it may show more than that, from transactions that committed in between
        3. the sink again           until all is there or `settle_s` is over
        The other order would call a record lost that was committed between the two looks. And a coordinator writes a
        commit's markers to each partition on its own, so the group's offsets may be visible before the outputs are.
        """
        committed = self.committed()
        fed_by_now = self._feed.sent
        for partition, end in enumerate(committed):
            fed = self._feed.flights_in(partition)[self._counted[partition] : end]
            self._expected.update(expected_output(pair) for pair in fed if pair[1].is_late)
            self._counted[partition] += len(fed)
        deadline = time.monotonic() + self._settle_s
        while True:
            self._reader.read_to_end(self._admin)
            found = len(self._expected & self._reader.seen.keys())
            if found == len(self._expected) or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        seen = self._reader.seen
        return Verdict(
            fed=fed_by_now,
            records_in=sum(committed),
            expected=len(self._expected),
            found=found,
            lost=len(self._expected) - found,
            duplicated=sum(seen.values()) - len(seen),
            wrong=(*self._reader.wrong[:5], *self._unexplained()),
        )

    def _unexplained(self) -> tuple[str, ...]:
        """A few of the sink's records that no fed flight explains."""
        surplus = [output for output in self._reader.seen if output not in self._expected]
        if not surplus:
            return ()
        # Committed after the offsets were read, but fed: that explains them.
        ahead = {
            expected_output(fed)
            for partition in range(self._feed.partitions)
            for fed in self._feed.flights_in(partition)[self._counted[partition] :]
            if fed[1].is_late
        }
        return tuple(output for output in surplus if output not in ahead)[:5]


def expected_output(fed: FedFlight) -> str:
    """What the sink must hold for a late flight, in the form in which SinkReader remembers a record."""
    lap, flight = fed
    fields = [flight.id_in(lap), flight.carrier, flight.origin, flight.destination, flight.arrival_delay_min]
    return orjson.dumps([*fields, len(PROJECTED)]).decode()
