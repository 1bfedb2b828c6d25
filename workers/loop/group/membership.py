"""The task in its consumer group: one consumer, which only the polling thread calls, and its callbacks (rule 2)."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import Protocol

import msgspec
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, TopicPartition

from app.core.clusters.partition import Partition
from app.core.wire.heartbeat import EventKind
from app.core.wire.offset_events import PartitionLeaving
from workers.loop.control import ProducerIdentity
from workers.loop.errors import FatalError, kafka_call, translated
from workers.loop.group.confirmed import ConfirmedOffsets
from workers.loop.group.leader_epochs import LeaderEpochs
from workers.loop.group.ownership import Ownership
from workers.loop.group.remembered import Remembered
from workers.loop.group.reports import UNREADABLE, has_given_up, has_stopped, is_truncated
from workers.loop.partitions import entries_of, partitions_of
from workers.loop.records.polled import MessageSource, Records, RecordSource
from workers.loop.telling.offset_recorder import OffsetRecorder


def _nothing_to_do(_partitions: Sequence[Partition]) -> None:
    """The default of a callback: do nothing."""


class Hold(StrEnum):
    """The reason why nothing may be read now: a user paused the pipeline, or a failed checkpoint needs recovery."""

    PAUSED = "paused"
    SETTLING = "settling"


class Announce(Protocol):
    """Keeps an event for the server; returns at once and never raises."""

    def __call__(
        self,
        kind: EventKind,
        message: str,
        *,
        partitions: tuple[str, ...] = (),
        generation: int | None = None,
        error: str | None = None,
        producer: ProducerIdentity | None = None,
    ) -> None: ...


class CommittedPosition(msgspec.Struct, frozen=True):
    """The group's committed offset of a partition; `offset` None: nothing yet."""

    offset: int | None
    metadata: str


class PartitionBounds(msgspec.Struct, frozen=True):
    """The bounds of a partition's log: its first offset and its last stable offset (LSO)."""

    start: int
    end: int


class Membership:
    """Subscribes, hands out records, and keeps the ownership numbers in step with the callbacks.

    On revoke, inside the callback:
      1. end the open checkpoint     `end_checkpoint` commits it whole, kept and revoked partitions together: after the
                                     callback the revoked ones belong to other members
      2. raise the numbers           a checkpoint that survives step 1 can no longer be committed

    On loss there is nothing to commit for: the numbers are raised, and the loop aborts the changed checkpoints.
    On assign the partitions are assigned here, not by the client, so that they can be paused before their first fetch.
    `begin` comes before that, and so before their committed offsets are read (rule 4).

    Callbacks never raise: an exception that leaves a callback inside `consume(n)` drops the records gathered so far,
    although the position has passed them. The error is kept in `trouble` for the loop.
    """

    def __init__(
        self,
        consumer: Consumer,
        *,
        ownership: Ownership,
        confirmed: ConfirmedOffsets | None,
        remembered: Remembered | None = None,
        end_checkpoint: Callable[[Sequence[Partition]], None],
        announce: Announce,
        recorder: OffsetRecorder,
        begin: Callable[[Sequence[Partition]], None] = _nothing_to_do,
        lose: Callable[[Sequence[Partition]], None] = _nothing_to_do,
        source: RecordSource | None = None,
    ) -> None:
        """
        Args:
            confirmed: None: committed offsets may go back, nothing is compared.
            `remembered`: the recorded offsets; None: only offsets that this member sees count.
            source: where the consumer's records come from; None: from the consumer itself.
            begin, end_checkpoint, lose: called inside the callbacks with the assigned, revoked or lost partitions.
        """
        self.consumer = consumer
        self.ownership = ownership
        self.confirmed = confirmed
        self.remembered = remembered or Remembered((), ownership=ownership, ask=lambda: None)
        self._begin = begin
        self._end_checkpoint = end_checkpoint
        self._lose = lose
        self._announce = announce
        self.recorder = recorder
        self.source: RecordSource = source or MessageSource(consumer, why="it is the default")
        self._has_read = False
        self._holds: set[Hold] = set()
        self._held_back: set[Partition] = set()
        self._stopped: dict[Partition, int | None] = {}
        self._truncated: dict[Partition, str] = {}
        self.epochs = LeaderEpochs(ownership)
        self._trouble: BaseException | None = None

    def subscribe(self, topics: Sequence[str]) -> None:
        with kafka_call(f"subscribe to {', '.join(topics)}"):
            self.consumer.subscribe(
                list(topics), on_assign=self.on_assign, on_revoke=self.on_revoke, on_lost=self.on_lost
            )

    def consume(self, count: int, timeout_s: float) -> tuple[Records, list[KafkaError]]:
        """Return up to `count` records, and errors that the client reports in place of records. Callbacks run in here.

        A partition for which the client has no position is not reported: it is `stopped` from here on.

        Raises:
            FatalError: a batch is corrupt. Nothing that came with it may be used. After a wrong checksum librdkafka
                continues inside the batch, and takes the content of its records for further batches.
                Or the client is fatal: from then on it returns neither records nor errors, and a wait for it would
                never end.
                Or it has stopped asking for committed offsets. These partitions deliver nothing any more, no later
                ones begin, and it never confirms a revocation to the group.
        """
        if self._has_read and self.recorder.is_on:
            # Before the poll, whether the records of the last one were used or not: the next records follow on this.
            self.positions()
        with kafka_call("read from the source topics"):
            records, reported = self.source.poll(count, timeout_s)
        self._has_read = bool(records or reported)
        errors: list[KafkaError] = []
        for error, partition, offset in reported:
            if error.code() in UNREADABLE:
                doing = f"read {_name_of(partition)}, where a batch is corrupt"
                raise FatalError(f"could not {doing}: {error.name()}: {error.str()}", code=error.code())
            # The error of a message never reports that it is fatal: only its code does.
            is_over = error.code() == KafkaError._FATAL  # noqa: SLF001 - librdkafka's public name begins so
            if is_over or has_given_up(error, partition):
                doing = "read from the source topics"
                raise FatalError(f"could not {doing}: {error.name()}: {error.str()}", code=error.code())
            if has_stopped(error) and partition is not None:
                self._stopped[partition] = offset if offset is not None and offset >= 0 else None
                if is_truncated(error):
                    self._truncated[partition] = error.str()
            else:
                errors.append(error)
        return records, errors

    @property
    def stopped(self) -> frozenset[Partition]:
        """Owned partitions that deliver nothing until `restart`: no committed offset, or one that the log lacks."""
        return self.ownership.owned & self._stopped.keys()

    def stopped_at(self, partition: Partition) -> int | None:
        """The offset that the log of a stopped partition did not hold; None: it had no offset to begin at."""
        return self._stopped.get(partition)

    def truncation(self, partition: Partition) -> str | None:
        """The client's message, if the log of a stopped partition was cut before the offset, or grew again since."""
        return self._truncated.get(partition)

    def take_trouble(self) -> BaseException | None:
        """Return the error that a callback has kept since the last call."""
        trouble, self._trouble = self._trouble, None
        return trouble

    def keep_trouble(self, error: BaseException) -> None:
        """Keep an error of a callback; the loop takes it when the poll is over."""
        self._trouble = self._trouble or error

    def positions(self) -> dict[Partition, int]:
        """The next offset of each owned partition that has delivered anything since it was assigned or sought."""
        owned = list(self.ownership.owned)
        if not owned:
            return {}
        with kafka_call("read the positions"):
            found = self.consumer.position(entries_of(owned))
        # rd_kafka_position fills in the offsets of the given list: the order stays.
        for partition, entry in zip(owned, found, strict=True):
            self.epochs.note(partition, entry.offset, entry.leader_epoch)
        positions = {at: entry.offset for at, entry in zip(owned, found, strict=True) if entry.offset >= 0}
        if self._has_read:
            self._has_read = False
            self.recorder.stands_at(positions)
        return positions

    def committed(self, partitions: Iterable[Partition], *, timeout_s: float) -> dict[Partition, CommittedPosition]:
        """Read the group's committed offsets; waits for pending offsets of transactions, up to `timeout_s`.

        Never inside a callback: in that of `close()` the answer does not come. An answer that is older than our own
        confirmed commit is retriable.
        """
        with kafka_call("read the committed offsets"):
            found = self.consumer.committed(entries_of(partitions), timeout_s)
        answer: dict[Partition, CommittedPosition] = {}
        for partition, entry in zip(partitions_of(found), found, strict=True):
            if entry.error is not None:
                raise translated(entry.error, f"read the committed offset of {partition}")
            offset = entry.offset if entry.offset >= 0 else None
            answer[partition] = CommittedPosition(offset, entry.metadata or "")
            self.epochs.note(partition, entry.offset, entry.leader_epoch)
        offsets = {name: committed.offset for name, committed in answer.items()}
        if self.confirmed is not None:
            self.confirmed.refuse_older(offsets)
        self.remembered.note(offsets)
        return answer

    def begins(self, partition: Partition, committed: int) -> None:
        """Record that reading continues at this committed offset, and no later one has been committed yet."""
        self.recorder.begins(partition, committed)
        self.epochs.begins(partition, committed)

    def bounds(self, partitions: Iterable[Partition], *, timeout_s: float) -> dict[Partition, PartitionBounds]:
        """The current bounds of these partitions' logs, from their leaders."""
        wanted = list(partitions)
        starts = self._offsets_at(OFFSET_BEGINNING, wanted, timeout_s)
        ends = self._offsets_at(OFFSET_END, wanted, timeout_s)
        return {partition: PartitionBounds(starts[partition], ends[partition]) for partition in wanted}

    def _offsets_at(self, place: int, partitions: list[Partition], timeout_s: float) -> dict[Partition, int]:
        with kafka_call("read the beginnings and ends of the logs"):
            found = self.consumer.offsets_for_times([TopicPartition(*name, place) for name in partitions], timeout_s)
        for entry in found:
            if entry.error is not None:
                raise translated(entry.error, f"read beginning and end of {entry.topic}-{entry.partition}")
        return {name: entry.offset for name, entry in zip(partitions_of(found), found, strict=True)}

    def partition_counts(self, topics: Iterable[str], *, timeout_s: float) -> dict[str, int]:
        """The number of partitions of each topic; 0 where the brokers do not know it."""
        counts: dict[str, int] = {}
        for topic in topics:
            with kafka_call(f"look up {topic}"):
                counts[topic] = len(self.consumer.list_topics(topic, timeout_s).topics[topic].partitions)
        return counts

    def restart(self, partitions: Iterable[Partition]) -> None:
        """Restart stopped partitions at the offsets committed by now, under a new ownership number.

        The number changes because the known state of their next records is not valid any more. No open checkpoint may
        contain them.
        """
        again = [name for name in partitions if name in self.ownership.owned]
        with kafka_call("begin again at the committed offsets"):
            # Not by seek: the client refuses it for a partition that it has stopped.
            self.consumer.incremental_unassign(entries_of(again))
            self._take(self.consumer, entries_of(again))
        self._forget_stops(again)
        self.ownership.assigned(again)
        self.recorder.assigned(again, generation=self.generation())

    def seek(self, partition: Partition, offset: int) -> bool:
        """Continue reading at `offset`. Only for owned partitions that have been read from.

        Any other starts by itself at its committed offset. A seek there would bypass the wait for pending offsets,
        unless the caller has waited for them.

        False: the client refuses it. It has stopped there, or is still requesting the committed offset.
        """
        try:
            with kafka_call(f"go back in {partition}"):
                # With an epoch the client asks first whether the log still has the records read under it.
                epoch = self.epochs.of_seek(partition, offset)
                self.consumer.seek(TopicPartition(*partition, offset, leader_epoch=epoch))
        except FatalError as error:
            if error.code != KafkaError._STATE:  # noqa: SLF001 - librdkafka's public name begins so
                raise
            # Its report of a stop has not been polled yet.
            self._stopped.setdefault(partition, None)
            return False
        return True

    def hold(self, reason: Hold) -> None:
        """Pause all partitions, later assigned ones included, and stay a member."""
        if not self._holds:
            with kafka_call("pause the partitions"):
                self.consumer.pause(entries_of(self.ownership.owned))
        self._holds.add(reason)

    def release(self, reason: Hold) -> None:
        """Resume, if this was the last reason to pause."""
        if reason in self._holds:
            self._holds.remove(reason)
            if not self._holds:
                with kafka_call("resume the partitions"):
                    self.consumer.resume(entries_of(self.ownership.owned - self._held_back))

    def hold_back(self, partition: Partition) -> None:
        """Pause this partition, owned or about to be, independently of the others."""
        if partition not in self._held_back:
            self._held_back.add(partition)
            if partition in self.ownership.owned and not self._holds:
                with kafka_call(f"pause {partition}"):
                    self.consumer.pause(entries_of([partition]))

    def unhold(self, partition: Partition) -> None:
        """Resume this partition with the others."""
        if partition in self._held_back:
            self._held_back.remove(partition)
            if partition in self.ownership.owned and not self._holds:
                with kafka_call(f"resume {partition}"):
                    self.consumer.resume(entries_of([partition]))

    @property
    def is_held(self) -> bool:
        return bool(self._holds)

    def generation(self) -> int | None:
        """Generation (classic) or member epoch (KIP-848), as in the group metadata that the broker receives."""
        return generation_of(self.consumer.consumer_group_metadata())

    def on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        with self._keeping_trouble():
            self._begin(partitions_of(partitions))
        with self._keeping_trouble():
            self._take(consumer, partitions)
        self._forget_stops(partitions_of(partitions))
        self.ownership.assigned(partitions_of(partitions))
        with self._keeping_trouble():
            self.recorder.assigned(partitions_of(partitions), generation=self.generation())
            self._tell(EventKind.ASSIGNED, "assigned", partitions)

    def on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        with self._keeping_trouble():
            self._end_checkpoint(partitions_of(partitions))
        self.ownership.given_up(partitions_of(partitions))
        with self._keeping_trouble():
            self.source.given_up(partitions_of(partitions))
            self.recorder.given_up(partitions_of(partitions), PartitionLeaving.REVOKED)
            self._tell(EventKind.REVOKED, "revoked", partitions)

    def on_lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.ownership.given_up(partitions_of(partitions))
        with self._keeping_trouble():
            self._lose(partitions_of(partitions))
        with self._keeping_trouble():
            self.source.given_up(partitions_of(partitions))
            self.recorder.given_up(partitions_of(partitions), PartitionLeaving.LOST)
            self._tell(EventKind.LOST, "lost: the group continued without this member", partitions)

    def _take(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.source.assigned(partitions_of(partitions))
        consumer.incremental_assign(partitions)
        # The client keeps a pause across revoke and assign: a partition revoked while paused would stay paused.
        names = partitions_of(partitions)
        held = {name for name in names if self._holds or name in self._held_back}
        consumer.pause([entry for name, entry in zip(names, partitions, strict=True) if name in held])
        consumer.resume([entry for name, entry in zip(names, partitions, strict=True) if name not in held])

    def _forget_stops(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            self._stopped.pop(partition, None)
            self._truncated.pop(partition, None)

    @contextmanager
    def _keeping_trouble(self) -> Generator[None]:
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - not even a KeyboardInterrupt may leave a callback
            self.keep_trouble(error)

    def _tell(self, kind: EventKind, what: str, partitions: list[TopicPartition]) -> None:
        if partitions:
            names = tuple(f"{topic}-{number}" for topic, number in sorted(partitions_of(partitions)))
            self._announce(kind, f"{', '.join(names)} {what}", partitions=names, generation=self.generation())


def _name_of(partition: Partition | None) -> str:
    return "a source topic" if partition is None else f"{partition.topic}-{partition.partition}"


def generation_of(group_metadata: object) -> int | None:
    """The generation inside librdkafka's serialized group metadata; None if its form has changed."""
    prefix = b"CGMDv2:"
    if not isinstance(group_metadata, bytes) or not group_metadata.startswith(prefix):
        return None
    # Written in the machine's byte order: it never leaves the process.
    return int.from_bytes(group_metadata[len(prefix) : len(prefix) + 4], sys.byteorder, signed=True)
