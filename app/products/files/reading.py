"""The progress and the problems of reading the references in a pipeline's sink topic. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from app.products.files.totals import NOTHING, Total

STALE_AFTER = timedelta(seconds=30)
"""Time without a recorded read after which references count as unread. A reading server records several in it."""
MARKED_FOR = timedelta(days=7)
"""Time for which a pipeline is marked after its newest repeated reference."""
LEFT_AFTER = timedelta(days=1)
"""Time without a message after which a former sink topic is not read any more."""


class WatchedPipeline(NamedTuple):
    """A pipeline whose current revision has a file sink."""

    name: str
    cluster: str
    sink_topic: str


class TopicMessage(msgspec.Struct, frozen=True, gc=False):
    """A message for `read_committed` consumers.

    committed_ms: time of its transaction's commit marker in the partition; None: the marker was not in the same answer,
    or there is no transaction. unreadable: the reason why its value is not known; empty: it is.
    """

    offset: int
    timestamp_ms: int
    value: bytes | None
    committed_ms: int | None = None
    unreadable: str = ""


class Portion(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one read of a partition.

    start_offset: actual first offset, which differs from the requested one if that is not in the log.
    end_offset: the last stable offset; None if not reported.
    """

    partition: int
    start_offset: int
    next_offset: int
    end_offset: int | None
    messages: tuple[TopicMessage, ...] = ()


class TopicReading(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of reading one partition of a sink topic.

    begun_at, begun_offset: time and offset of the start; earlier offsets were deleted already.
    moved_at: time of the last progress. unread_offsets: offsets deleted since then before they were read.
    begun_again: the reason of a restart at begun_at, as a sentence; empty without one.
    """

    kafka_cluster_id: str
    topic: str
    partition: int
    topic_id: str
    next_offset: int
    end_offset: int | None
    begun_at: datetime
    begun_offset: int
    moved_at: datetime
    unread_offsets: int = 0
    begun_again: str = ""

    @property
    def behind(self) -> int | None:
        """Offsets from the position to the last stable offset, including markers; None: not known."""
        return None if self.end_offset is None else max(0, self.end_offset - self.next_offset)

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


class LogPlace(NamedTuple):
    """A log: a topic of a cluster, with its topic id."""

    kafka_cluster_id: str
    topic: str
    topic_id: str


class FileWatchState(msgspec.Struct, frozen=True, kw_only=True):
    """The result of reading a pipeline's references so far.

    since: time of the first attempt. looked_at: time of the last answer; None: none yet.
    problem: the reason why none, or not all, are read since `problem_at`; empty: no problem.
    total: totals of every reference ever counted.
    `strangers`: messages that are no references of this version, with a description of the newest.
    of_others: references of other pipelines.
    repeated: references to a file that an earlier one names. The newest is described, and was read at `repeated_at`.
    """

    since: datetime
    looked_at: datetime | None = None
    problem: str = ""
    problem_at: datetime | None = None
    total: Total = NOTHING
    strangers: int = 0
    stranger: str = ""
    of_others: int = 0
    repeated: int = 0
    repetition: str = ""
    repeated_at: datetime | None = None


class Reception(msgspec.Struct, frozen=True, kw_only=True):
    """The other messages of one portion, by kind, with descriptions of the newest."""

    strangers: int = 0
    stranger: str = ""
    of_others: int = 0
    repeated: int = 0
    repetition: str = ""


def asked_offset(known: TopicReading | None, topic_id: str) -> int:
    """Return the next offset to read; 0 if the topic is new or recreated."""
    return 0 if known is None or known.topic_id != topic_id else known.next_offset


def moved(known: TopicReading | None, portion: Portion, *, place: LogPlace, now: datetime) -> TopicReading:
    """Return the progress after the portion is stored."""
    if known is None:
        return _begun(portion, place, now, why="")
    if known.topic_id != place.topic_id:
        return _begun(portion, place, now, why=f"{place.topic} was recreated: reading restarted at its beginning")
    start = portion.start_offset
    if start < known.next_offset:
        why = f"{known.name} ends before the read offset {known.next_offset}: reading restarted at its beginning"
        return _begun(portion, place, now, why=why)
    return msgspec.structs.replace(
        known,
        next_offset=portion.next_offset,
        end_offset=known.end_offset if portion.end_offset is None else portion.end_offset,
        moved_at=now if portion.next_offset != known.next_offset else known.moved_at,
        unread_offsets=known.unread_offsets + start - known.next_offset,
    )


def _begun(portion: Portion, place: LogPlace, now: datetime, *, why: str) -> TopicReading:
    return TopicReading(
        kafka_cluster_id=place.kafka_cluster_id,
        topic=place.topic,
        partition=portion.partition,
        topic_id=place.topic_id,
        next_offset=portion.next_offset,
        end_offset=portion.end_offset,
        begun_at=now,
        begun_offset=portion.start_offset,
        moved_at=now,
        begun_again=why,
    )


def topics_to_read(
    sink_topic: str, kafka_cluster_id: str, readings: Sequence[TopicReading], *, now: datetime
) -> list[str]:
    """Return the sink topic, then former ones on this cluster with recent messages."""
    lately = {
        one.topic
        for one in readings
        if one.kafka_cluster_id == kafka_cluster_id and one.topic != sink_topic and now - one.moved_at < LEFT_AFTER
    }
    return [sink_topic, *sorted(lately)]


def read_now(
    readings: Sequence[TopicReading], sink_topic: str, kafka_cluster_id: str, *, now: datetime
) -> tuple[TopicReading, ...]:
    """Return the progress of the topics that are read now."""
    topics = topics_to_read(sink_topic, kafka_cluster_id, readings, now=now)
    return tuple(one for one in readings if one.kafka_cluster_id == kafka_cluster_id and one.topic in topics)


def behind_of(readings: Sequence[TopicReading]) -> int | None:
    """Return the unread offsets of all partitions; None if unknown for one."""
    counts = [one.behind for one in readings]
    known = [count for count in counts if count is not None]
    return sum(known) if counts and len(known) == len(counts) else None


def standing_sentence(watch: FileWatchState | None, readings: Sequence[TopicReading], *, now: datetime) -> str:
    """Describe the freshness of the list of files."""
    if watch is not None and watch.problem:
        return f"New references are not read: {watch.problem}"
    if watch is None or watch.looked_at is None:
        return "No server has read this pipeline’s references yet. One begins within seconds."
    if now - watch.looked_at > STALE_AFTER:
        return "No server reads this pipeline’s references now, so new ones are not shown."
    behind = behind_of(readings)
    if behind is None:
        return "The references are being read; the number of remaining ones is not known yet."
    if behind:
        return f"The references are being read: {behind:,} offsets remain."
    return "Every reference that is committed is read."


def is_whole(watch: FileWatchState | None, readings: Sequence[TopicReading], *, now: datetime) -> bool:
    """Return true if every committed reference was read within STALE_AFTER."""
    if watch is None or watch.problem or watch.looked_at is None:
        return False
    return now - watch.looked_at <= STALE_AFTER and behind_of(readings) == 0


def notes_of(readings: Sequence[TopicReading], watch: FileWatchState | None) -> list[str]:
    """Return the reasons why the list of files is not complete, as sentences."""
    notes = [one.begun_again + "." for one in readings if one.begun_again]
    notes += [
        f"{one.name} was read from offset {one.begun_offset:,} on: earlier offsets were deleted before."
        for one in readings
        if one.begun_offset > 0
    ]
    notes += [
        f"{one.unread_offsets:,} offsets of {one.name} were deleted before a server read them."
        for one in readings
        if one.unread_offsets
    ]
    if watch is None:
        return notes
    if watch.repeated:
        notes.append(f"References to a file that an earlier one names: {watch.repeated:,}. {watch.repetition}")
    if watch.strangers:
        notes.append(f"Messages that are no references: {watch.strangers:,}. The newest: {watch.stranger}")
    if watch.of_others:
        notes.append(f"References of other pipelines: {watch.of_others:,}.")
    return notes
