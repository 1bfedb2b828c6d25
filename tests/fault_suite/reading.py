"""Brings the facts of a run: what source, sink and the group's journal hold, by clients that are not the loop's."""

from __future__ import annotations

import threading
import time
from collections import ChainMap, defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from confluent_kafka import Consumer, Message, TopicPartition

from app.core.journals import group_records, transaction_state
from app.core.journals.record_batch import RecordBatch, UnreadableBatch
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.raw_fetch import read_logs
from tests.fault_suite.consumed import GroupJournal
from tests.fault_suite.coordinated import CoordinatorJournal
from tests.fault_suite.decided import DecidedLog, UnreadableLogError
from tests.fault_suite.first_wrong import Cut, Topics, cut
from tests.fault_suite.judging import Judge, Verdict, Where, identity_of
from tests.fault_suite.rest import AtRest, Ends
from tests.fault_suite.standstill import Standstills
from tests.fault_suite.trail import Trail
from tests.support import verifier
from tests.support.aborted_index import AbortedIndex
from tests.support.quiet import QUIET

_BATCH = 5_000
_POLL_S = 0.2
_SILENCE_S = 60.0
_LOGS_S = 600.0


class Facts:
    """A pipeline's topics and group on one cluster. log_dirs: the brokers' own. deletions: see GroupJournal."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        source: str,
        sink: str,
        group: str,
        log_dirs: Collection[Path],
        deletions: int = 0,
    ) -> None:
        self._deletions = deletions
        self._log_dirs = log_dirs
        self._bootstrap_servers = bootstrap_servers
        self._source = source
        self._sink = sink
        self._group = group

    def source_ends(self) -> dict[int, int]:
        return verifier.end_offsets(self._bootstrap_servers, self._source, verifier.READ_COMMITTED)

    def sink_ends(self) -> dict[int, int]:
        return verifier.end_offsets(self._bootstrap_servers, self._sink, verifier.READ_COMMITTED)

    def consumed(self) -> dict[int, int]:
        """The group's offsets in the source."""
        found = verifier.committed_offsets(self._bootstrap_servers, self._group)
        return {partition: offset for (topic, partition), offset in found.items() if topic == self._source}

    def is_through(self) -> bool:
        """True if all of the source is consumed."""
        consumed = self.consumed()
        return all(consumed.get(partition, 0) >= end for partition, end in self.source_ends().items())

    def is_decided(self) -> bool:
        """True if no transaction is open in the sink or among the group's offsets."""
        return all(ends.stable == ends.high for ends in map(self._ends, (self._sink, group_records.TOPIC)))

    def judge(self, followed: Trail, *, batches_to: Path, is_through: bool = True) -> tuple[Verdict, list[str]]:
        """The verdict on records and transactions, and other errors at rest.

        Args:
            followed: the records that a consumer under read_committed got while the sink was written. A fresh one must
                get the same, apart from aborted records that brokers return: that depends on the leader.
            is_through: whether all should have come out. If not, no task may be at work any more.
            batches_to: the file for a line for each batch of the sink and of both journals.
        """
        judge = Judge()
        for message in _messages(self._bootstrap_servers, self._source, self.source_ends()):
            identity = identity_of(message.value())
            if identity is None:
                raise UnreadableLogError(f"the source has no id at offset {message.offset()}: {message.value()!r}")
            judge.input(identity, message.offset() or 0, message.value() or b"")
        with batches_to.open("w", encoding="utf-8") as told:
            logs: dict[int, DecidedLog] = {}
            for partition, batch in self._batches(self._sink):
                told.write(_line(self._sink, partition, batch))
                if partition not in logs:
                    replicas = AbortedIndex.of_replicas(self._log_dirs, self._sink, partition)
                    logs[partition] = DecidedLog(replicas)
                logs[partition].batch(batch)
            journals = defaultdict[int, GroupJournal](
                lambda: GroupJournal(self._group, self._source, deletions=self._deletions)
            )
            for partition, batch in self._batches(group_records.TOPIC):
                told.write(_line(group_records.TOPIC, partition, batch))
                journals[partition].batch(batch)
            # A group lies in one partition of the journal; in the others there is nothing of it.
            consumed = [one for journal in journals.values() for one in journal.consumed]
            coordinators = defaultdict[int, CoordinatorJournal](lambda: CoordinatorJournal(self._sink))
            # Where no transaction was ever committed there is no such topic.
            for partition, batch in self._batches(transaction_state.TOPIC) if consumed else ():
                told.write(_line(transaction_state.TOPIC, partition, batch))
                coordinators[partition].batch(batch)
        fresh = Trail()
        for message in _messages(self._bootstrap_servers, self._sink, self.sink_ends()):
            partition, offset, value = _told(message)
            fresh.saw(partition, offset, value)
            judge.output(partition, offset, value, logs[partition])
        difference = judge_follower(judge, fresh, followed, logs)
        at_rest = AtRest(
            source=self._ends(self._source),
            sink=self._ends(self._sink),
            committed=self.consumed(),
            open={
                **{f"partition {partition} of the sink": log.open for partition, log in logs.items()},
                **{f"the journal's partition {partition}": journal.open for partition, journal in journals.items()},
            },
            untransacted=[one for journal in journals.values() for one in journal.untransacted],
            lost=dict(ChainMap(*(journal.lost for journal in journals.values()))),
        )
        aborted = sum(journal.aborted for journal in journals.values())
        # An id, and with it its producers' ids, lies in one partition of the coordinators' journal.
        coordinated = dict(ChainMap(*(dict(journal.committed()) for journal in coordinators.values())))
        verdict = judge.verdict(
            consumed,
            coordinated,
            aborted=aborted,
            is_through=is_through,
            is_decided=not any(log.open for log in logs.values()),
        )
        return verdict, [*at_rest.contradictions(), *difference]

    def around(self, where: Where) -> Cut:
        """The records there, and other findings about it."""
        return cut(where, self._batches, Topics(self._source, self._sink, self._group))

    def _ends(self, topic: str) -> Ends:
        return Ends(
            verifier.end_offsets(self._bootstrap_servers, topic, verifier.READ_COMMITTED),
            verifier.end_offsets(self._bootstrap_servers, topic, verifier.READ_UNCOMMITTED),
        )

    def _batches(self, topic: str) -> Iterator[tuple[int, RecordBatch]]:
        attempt = ConnectionAttempt(self._bootstrap_servers, _LOGS_S)
        for partition, batch in read_logs({"bootstrap.servers": self._bootstrap_servers}, attempt, topic):
            if isinstance(batch, UnreadableBatch):
                raise UnreadableLogError(f"{topic}-{partition}: {batch.reason}")
            yield partition, batch


def judge_follower(judge: Judge, fresh: Trail, followed: Trail, logs: Mapping[int, DecidedLog]) -> list[str]:
    """Compare the records of the following consumer with those of the fresh one. Return a sentence if they differ by
    more than the aborted records that brokers are proven to return."""

    def is_hidden(partition: int, offset: int) -> bool:
        return partition in logs and logs[partition].is_aborted_and_hidden(offset)

    for partition, offset in followed.beyond(fresh):
        if is_hidden(partition, offset):
            judge.shown_to_another(partition, offset)
    difference = fresh.difference(followed, beside=is_hidden)
    return [] if difference is None else [f"the reader that followed was given something else: {difference}"]


class Follower:
    """Reads the sink under read_committed from its beginning while faults happen, in a thread. A fatal error of its
    client is the run's failure, and so is an end that it does not reach."""

    def __init__(self, bootstrap_servers: str, topic: str, standstills: Standstills) -> None:
        self.trail = Trail()
        self._standstills = standstills
        self._positions: dict[int, int] = {}
        self._ends: Mapping[int, int] | None = None
        self._failed: BaseException | None = None
        self._consumer = _consumer(bootstrap_servers)
        numbers = verifier.end_offsets(bootstrap_servers, topic, verifier.READ_UNCOMMITTED)
        self._consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
        self._topic = topic
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self, ends: Mapping[int, int], *, deadline_s: float) -> None:
        """Read on up to these ends, then close. Raises what went wrong, or TimeoutError."""
        self._ends = ends
        self._thread.join(deadline_s)
        if self._thread.is_alive():
            raise TimeoutError(f"the follower did not reach {dict(ends)} in {deadline_s:g} s: {self._positions}")
        if self._failed is not None:
            raise self._failed

    def _run(self) -> None:
        try:
            while not self._is_done():
                for message in self._consumer.consume(_BATCH, _POLL_S):
                    self._saw(message)
                found = self._consumer.position([TopicPartition(self._topic, number) for number in self._numbers()])
                self._positions = {entry.partition: entry.offset for entry in found}
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits for this one
            self._failed = error
        finally:
            self._consumer.close()

    def _numbers(self) -> list[int]:
        return [entry.partition for entry in self._consumer.assignment()]

    def _saw(self, message: Message) -> None:
        partition, offset, value = _told(message)
        self.trail.saw(partition, offset, value)
        identity = identity_of(value)
        if identity is not None:
            self._standstills.output(identity.partition, time.monotonic())

    def _is_done(self) -> bool:
        ends = self._ends
        return ends is not None and all(self._positions.get(number, 0) >= end for number, end in ends.items())


def _messages(bootstrap_servers: str, topic: str, ends: Mapping[int, int]) -> Iterator[Message]:
    """The records of a fresh consumer under read_committed up to these ends, each partition in order. TimeoutError."""
    consumer = _consumer(bootstrap_servers)
    try:
        left = {number: end for number, end in ends.items() if end > 0}
        consumer.assign([TopicPartition(topic, number, 0) for number in left])
        heard_at = time.monotonic()
        while left:
            messages = consumer.consume(_BATCH, _POLL_S)
            yield from messages
            found = consumer.position([TopicPartition(topic, number) for number in left])
            left = {entry.partition: left[entry.partition] for entry in found if entry.offset < left[entry.partition]}
            if messages:
                heard_at = time.monotonic()
            elif time.monotonic() - heard_at > _SILENCE_S:
                raise TimeoutError(f"{topic} was not read to its ends {left}: nothing came for {_SILENCE_S:g} s")
    finally:
        consumer.close()


def _consumer(bootstrap_servers: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            **QUIET,
            "group.id": "fault-suite-reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
            "check.crcs": True,
        }
    )


def _told(message: Message) -> tuple[int, int, bytes]:
    if message.error() is not None:
        raise UnreadableLogError(f"{message.topic()}-{message.partition()}: {message.error()}")
    return message.partition() or 0, message.offset() or 0, message.value() or b""


def _line(topic: str, partition: int, batch: RecordBatch) -> str:
    kind = "marker" if batch.is_control else "transactional" if batch.is_transactional else "plain"
    return (
        f"{topic}-{partition} {batch.base_offset}..{batch.last_offset} {kind} producer {batch.producer_id} epoch "
        f"{batch.producer_epoch} sequence {batch.base_sequence} at {batch.max_timestamp_ms}\n"
    )
