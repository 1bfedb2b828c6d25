"""The state of a task, made into snapshots for the heartbeat."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

from app.core.clusters.partition import Partition
from app.core.wire.heartbeat import PartitionProgress, TaskState
from workers.loop.checkpoint_size import CheckpointSize
from workers.loop.control import Control, ProducerIdentity, TaskSnapshot
from workers.loop.group.membership import Membership
from workers.loop.group.remembered import Remembered
from workers.loop.telling.latency import LatencyWindow
from workers.loop.telling.tally import WorkTally

INTERVAL_S = 0.5


class PartitionProducer(NamedTuple):
    """The producer of one partition. offsets_generation: what its offsets are sent with, -1 for the group alone."""

    transactional_id: str | None
    identity: ProducerIdentity | None
    offsets_generation: int | None


_AT_REST = frozenset({TaskState.PAUSED, TaskState.DRAINED, TaskState.SUPERSEDED, TaskState.FAILED})
_NO_PRODUCER = PartitionProducer(None, None, None)


class ProgressReporter:
    """Keeps the state and publishes a snapshot: at once when the state changes, else every half second.

    last_error: the last error; it stays. obstacle: the reason of a present wait; reported in its place while it lasts.
    has_survived: whether this process has processed a record.
    """

    def __init__(self, control: Control, tally: WorkTally) -> None:
        self.latency = LatencyWindow()
        self.last_error: str | None = None
        self.obstacle: str | None = None
        self.has_survived = False
        self._control = control
        self._tally = tally
        self._state = TaskState.STARTING
        self._published_at = float("-inf")
        self._committed: dict[Partition, int | None] = {}
        self._ends: dict[Partition, int] = {}
        self._partitions: tuple[PartitionProgress, ...] = ()
        self._remembered: Remembered | None = None
        self._member_id: str | None = None
        self._generation: int | None = None
        self._record_source: str | None = None
        self._producer: ProducerIdentity | None = None
        self._producers: Mapping[Partition, PartitionProducer] = {}
        self._sizes: dict[Partition | None, CheckpointSize] = {}

    @property
    def state(self) -> TaskState:
        return self._state

    def enter(self, state: TaskState, *, now: float, opened_at: float | None = None) -> None:
        """Change the state and report it at once; `opened_at` as in `publish`."""
        if state is not self._state:
            self._state = state
            self.publish(now=now, opened_at=opened_at)

    def committed(self, positions: Mapping[Partition, int]) -> None:
        self._committed.update(positions)

    def learned(self, partition: Partition, offset: int | None) -> None:
        """Record the group's committed offset of a partition, read from the broker; None: nothing."""
        self._committed[partition] = offset

    def ends(self, ends: Mapping[Partition, int]) -> None:
        """Record the ends of logs (last stable offsets), read from the brokers."""
        self._ends.update(ends)

    def unknown(self, partitions: Iterable[Partition]) -> list[Partition]:
        """The partitions whose committed offset is not known."""
        return [partition for partition in partitions if partition not in self._committed]

    def forget(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self._committed.pop(partition, None)
            self._ends.pop(partition, None)

    def watch(self, partition: Partition | None, size: CheckpointSize) -> None:
        """Report how long nothing could be committed in the lane of this partition; None: of all."""
        self._sizes[partition] = size

    def unwatch(self, partition: Partition | None) -> None:
        """Forget an ended lane; one that starts again is watched from then on."""
        self._sizes.pop(partition, None)

    def is_due(self, now: float) -> bool:
        return now - self._published_at >= INTERVAL_S

    def look(self, membership: Membership) -> None:
        """Read the values that only the consumer has. On the polling thread; they are all answered locally."""
        consumer, self._remembered = membership.consumer, membership.remembered
        positions = membership.positions()

        def progress(name: Partition) -> PartitionProgress:
            producer = self._producers.get(name, _NO_PRODUCER)
            return PartitionProgress(
                topic=name.topic,
                partition=name.partition,
                position=positions.get(name, self._committed.get(name)),
                committed=self._committed.get(name),
                end=_later(_end(consumer, *name), self._ends.get(name)),
                transactional_id=producer.transactional_id,
                producer_id=None if producer.identity is None else producer.identity.producer_id,
                producer_epoch=None if producer.identity is None else producer.identity.epoch,
                offsets_generation=producer.offsets_generation,
            )

        self._partitions = tuple(map(progress, sorted(membership.ownership.owned)))
        self._member_id = consumer.memberid() or None
        self._generation = membership.generation()
        self._record_source = membership.source.name

    def leave(self) -> None:
        """The consumer is closed: nothing is read any more, and the membership is over. The counts stay."""
        self._partitions, self._member_id, self._generation = (), None, None

    def identify(self, producer: ProducerIdentity | None) -> None:
        """Record the producer's id and epoch, as far as it knows them by now."""
        self._producer = producer

    def identify_each(self, producers: Mapping[Partition, PartitionProducer]) -> None:
        """Record them where each partition has a producer of its own."""
        self._producers = producers

    def publish(self, *, now: float, opened_at: float | None) -> None:
        """Hand a new snapshot to the control; it returns at once.

        Args:
            opened_at: the opening time of the open checkpoint, on the clock of `now`.
        """
        self._published_at = now
        self._control.publish(
            TaskSnapshot(
                state=self._state,
                member_id=self._member_id,
                generation=self._generation,
                producer_id=None if self._producer is None else self._producer.producer_id,
                producer_epoch=None if self._producer is None else self._producer.epoch,
                partitions=self._partitions,
                confirmed=()
                if self._remembered is None
                else self._remembered.seen(is_final=self._state is TaskState.DRAINED),
                counters=self._tally.counters(),
                commit_latency_p50_ms=self.latency.quantile_ms(0.50),
                commit_latency_p99_ms=self.latency.quantile_ms(0.99),
                open_transaction_age_ms=None if opened_at is None else int((now - opened_at) * 1000),
                last_error=self.obstacle or self.last_error,
                not_progressing_ms=self._not_progressing_ms(),
                record_source=self._record_source,
                bad_records=self._tally.totals.bad.causes(),
                bad_minutes=self._tally.totals.bad.minutes(),
            )
        )

    def _not_progressing_ms(self) -> int | None:
        """The longest time without a commit among the lanes; None where nothing is to be committed."""
        if self._state in _AT_REST:
            return None
        still = (size.still_s for size in self._sizes.values())
        longest_s = max((one for one in still if one is not None), default=None)
        return None if longest_s is None else int(longest_s * 1000)


def _later(*ends: int | None) -> int | None:
    return max((end for end in ends if end is not None), default=None)


def _end(consumer: Consumer, topic: str, number: int) -> int | None:
    """The last stable offset as of the last fetch; no request to the broker, which would take half a second."""
    try:
        _low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), cached=True)
    except KafkaException:
        return None
    return high if high >= 0 else None
