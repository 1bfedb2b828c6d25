"""Check that every flight was processed exactly once, with a reader of its own and the CSV.

It shares no code with the loop. The expected outputs follow from the CSV and the group's committed offsets, the actual
ones come from an ordinary `read_committed` consumer.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from app.core.allow_lists.client_options import NEVER_CREATE_TOPICS
from app.products.demo.feed import FedFlight, Feed
from app.products.demo.offsets import ANSWER_S, answered
from app.products.demo.outputs import Outputs
from app.products.demo.sink_reader import SinkReader


@dataclass(frozen=True, slots=True)
class SinkVerdict:
    """The result of one check of the sink.

    fed: flights handed to the producer by then; those between `records_in` and `fed` were not judged.
    records_in: flights whose offset the group has committed.
    expected: the outputs of those flights, each of which must exist once.
    found: the number of expected outputs that exist.
    duplicated: copies beyond the first, of any record.
    wrong: outputs of no fed flight, or with fields other than the CSV's; at most a few.
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
        """Return it as one line for people."""
        line = (
            f"{self.records_in:,} flights read of {self.fed:,} fed · expected {self.expected:,} · "
            f"found {self.found:,} · lost {self.lost:,} · duplicated {self.duplicated:,}"
        )
        if self.wrong:
            line += f" · wrong {len(self.wrong):,}, such as {self.wrong[0]}"
        return line


class SinkProof:
    """Compares input and output, repeatedly; each check reads only new records."""

    def __init__(
        self,
        *,
        bootstrap_servers: str,
        group: str,
        feed: Feed,
        sink_topic: str,
        outputs: Outputs,
        settle_s: float = 10.0,
    ) -> None:
        self._settle_s = settle_s
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, **NEVER_CREATE_TOPICS, "log_level": 0})
        # It never joins the group: it only reads the group's offsets, without waiting for pending ones.
        self._offsets = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "log_level": 0,
                "group.id": group,
                "enable.auto.commit": False,
                "isolation.level": "read_uncommitted",
            }
        )
        self._reader = SinkReader(bootstrap_servers, sink_topic, outputs)
        self._group = group
        self._feed = feed
        self._outputs = outputs
        # The number of flights of each partition in `_expected`.
        self._counted = [0] * feed.partitions
        self._expected: set[str] = set()

    def close(self) -> None:
        self._reader.close()
        self._offsets.close()
        # Closed explicitly: the garbage collector may run on this client's own thread, which would end the process.
        self._admin.__exit__(None, None, None)

    def committed(self) -> list[int]:
        """Return the group's committed offset in each source partition; 0 if there is none."""
        wanted = [TopicPartition(self._feed.topic, p) for p in range(self._feed.partitions)]

        def ask() -> list[TopicPartition]:
            # Not AdminClient.list_consumer_group_offsets: while the group's coordinator loads or moves, librdkafka
            # 2.16.0 dereferences a group that an admin handle does not have. The process crashes.
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

    def look(self) -> SinkVerdict:
        """Judge all flights whose input offsets are committed by now.

        1. the committed offsets    outputs of earlier flights are in the sink, or about to be: same transaction
        2. the sink up to its end   it may have more, from transactions that committed in between
        3. the sink again           until all is there or `settle_s` is over
        The other order would report a record as lost that was committed between the two reads. A coordinator writes the
        markers to each partition separately, so the group's offsets may be visible before the outputs are.
        """
        committed = self.committed()
        fed_by_now = self._feed.sent
        for partition, end in enumerate(committed):
            fed = self._feed.flights_in(partition)[self._counted[partition] : end]
            self._expected.update(self._outputs_of(fed))
            self._counted[partition] += len(fed)
        deadline = time.monotonic() + self._settle_s
        while True:
            self._reader.read_to_end(self._admin)
            found = len(self._expected & self._reader.seen.keys())
            if found == len(self._expected) or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        seen = self._reader.seen
        return SinkVerdict(
            fed=fed_by_now,
            records_in=sum(committed),
            expected=len(self._expected),
            found=found,
            lost=len(self._expected) - found,
            duplicated=sum(seen.values()) - len(seen),
            wrong=(*self._reader.wrong[:5], *self._unexplained()),
        )

    def _outputs_of(self, fed: Iterable[FedFlight]) -> Iterator[str]:
        return (output for flight in fed if (output := self._outputs.expected(flight)) is not None)

    def _unexplained(self) -> tuple[str, ...]:
        """Return a few of the outputs that no fed flight explains."""
        surplus = [output for output in self._reader.seen if output not in self._expected]
        if not surplus:
            return ()
        # Fed flights that were committed after the offsets were read explain their outputs.
        ahead: set[str] = set()
        for partition in range(self._feed.partitions):
            ahead.update(self._outputs_of(self._feed.flights_in(partition)[self._counted[partition] :]))
        return tuple(output for output in surplus if output not in ahead)[:5]
