"""How far the references in a pipeline's sink topic were read, and what stood in the way. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from app.products.files.totals import NOTHING, Total

STALE_AFTER = timedelta(seconds=30)
"""A server that watches writes down that it has looked a few times in this time, also when nothing is new."""
MARKED_FOR = timedelta(days=7)
"""So long after the newest reference to a file that another one had named, the pipeline is marked with it."""
LEFT_AFTER = timedelta(days=1)
"""A topic that is no longer the pipeline's sink is read on until nothing has come for so long."""


class WatchedPipeline(NamedTuple):
    """A pipeline whose current revision has a file sink."""

    name: str
    cluster: str
    sink_topic: str


class TopicMessage(msgspec.Struct, frozen=True, gc=False):
    """A message that readers with `read_committed` get.

    committed_ms: when a broker wrote the commit of its transaction into the partition; None: the commit was not in the
    same answer, or there was no transaction. unreadable: why its value is not known; empty: it is.
    """

    offset: int
    timestamp_ms: int
    value: bytes | None
    committed_ms: int | None = None
    unreadable: str = ""


class Portion(msgspec.Struct, frozen=True, kw_only=True):
    """What was read of one partition at once.

    start_offset: where it really began, which is another one where the offset that was asked for is not in the log.
    end_offset: the last stable offset, as far as readers with `read_committed` get; None where it was not told.
    """

    partition: int
    start_offset: int
    next_offset: int
    end_offset: int | None
    messages: tuple[TopicMessage, ...] = ()


class TopicReading(msgspec.Struct, frozen=True, kw_only=True):
    """How far one partition of a sink topic was read.

    begun_at, begun_offset: since when, and from which offset on; what lay before it was deleted before a server looked.
    moved_at: when something was read last. unread_offsets: how many offsets were deleted before they were read, since.
    begun_again: why reading began anew at begun_at, in a sentence; empty: it is the first time.
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
        """Offsets between where reading stands and the last stable one, markers among them; None: not known."""
        return None if self.end_offset is None else max(0, self.end_offset - self.next_offset)

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


class Place(NamedTuple):
    """Which log is read: a topic of a cluster, and which one of that name it is (`topic_id`, as brokers tell it)."""

    kafka_cluster_id: str
    topic: str
    topic_id: str


class FileWatchState(msgspec.Struct, frozen=True, kw_only=True):
    """What reading a pipeline's references has come to.

    since: when a server first tried. looked_at: when one last got an answer; None: none yet. problem: why none, or not
    all, is got since `problem_at`; empty: nothing is wrong. total: of every reference that was ever counted. strangers:
    messages that are no references of this version, with a sentence about the newest. of_others: references of other
    pipelines. repeated: references to a file that another one had named before, with a sentence about the newest, which
    was read at `repeated_at`.
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
    """What one portion brought beside files: how many messages of which kind, with sentences about the newest."""

    strangers: int = 0
    stranger: str = ""
    of_others: int = 0
    repeated: int = 0
    repetition: str = ""


def asked_offset(known: TopicReading | None, topic_id: str) -> int:
    """Where to read on; 0, as the topic is new here or was made anew."""
    return 0 if known is None or known.topic_id != topic_id else known.next_offset


def moved(known: TopicReading | None, portion: Portion, *, place: Place, now: datetime) -> TopicReading:
    """How far the partition is read once the portion is kept."""
    if known is None:
        return _begun(portion, place, now, why="")
    if known.topic_id != place.topic_id:
        return _begun(portion, place, now, why=f"{place.topic} was deleted and made anew: reading began again")
    start = portion.start_offset
    if start < known.next_offset:
        why = f"{known.name} ends before offset {known.next_offset}, up to which it was read: reading began again"
        return _begun(portion, place, now, why=why)
    return msgspec.structs.replace(
        known,
        next_offset=portion.next_offset,
        end_offset=known.end_offset if portion.end_offset is None else portion.end_offset,
        moved_at=now if portion.next_offset != known.next_offset else known.moved_at,
        unread_offsets=known.unread_offsets + start - known.next_offset,
    )


def _begun(portion: Portion, place: Place, now: datetime, *, why: str) -> TopicReading:
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
    """The sink topic, then those that were it on this cluster and still bring something."""
    lately = {
        one.topic
        for one in readings
        if one.kafka_cluster_id == kafka_cluster_id and one.topic != sink_topic and now - one.moved_at < LEFT_AFTER
    }
    return [sink_topic, *sorted(lately)]


def read_now(
    readings: Sequence[TopicReading], sink_topic: str, kafka_cluster_id: str, *, now: datetime
) -> tuple[TopicReading, ...]:
    """Those of the topics that are read now."""
    topics = topics_to_read(sink_topic, kafka_cluster_id, readings, now=now)
    return tuple(one for one in readings if one.kafka_cluster_id == kafka_cluster_id and one.topic in topics)


def behind_of(readings: Sequence[TopicReading]) -> int | None:
    """Of all partitions together; None when it is not known of one."""
    counts = [one.behind for one in readings]
    known = [count for count in counts if count is not None]
    return sum(known) if counts and len(known) == len(counts) else None


def standing_sentence(watch: FileWatchState | None, readings: Sequence[TopicReading], *, now: datetime) -> str:
    """How far the list of files can be trusted to be whole, in one sentence."""
    if watch is not None and watch.problem:
        return f"What comes now is not seen: {watch.problem}"
    if watch is None or watch.looked_at is None:
        return "No server has read this pipeline’s references yet: one begins within seconds."
    if now - watch.looked_at > STALE_AFTER:
        return "No server reads this pipeline’s references now: what has come since is not seen."
    behind = behind_of(readings)
    if behind is None:
        return "The references are being read; how many are still to come is not known yet."
    if behind:
        return f"The references are being read: {behind:,} offsets are still to come."
    return "Every reference that is committed is read."


def is_whole(watch: FileWatchState | None, readings: Sequence[TopicReading], *, now: datetime) -> bool:
    """Whether every committed reference was read when a server last looked, a moment ago."""
    if watch is None or watch.problem or watch.looked_at is None:
        return False
    return now - watch.looked_at <= STALE_AFTER and behind_of(readings) == 0


def notes_of(readings: Sequence[TopicReading], watch: FileWatchState | None) -> list[str]:
    """What keeps the list of files from being all that there ever were, a sentence each; empty where nothing does."""
    notes = [one.begun_again + "." for one in readings if one.begun_again]
    notes += [
        f"{one.name} was read from offset {one.begun_offset:,} on: what lay before it was gone before a server came."
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
        notes.append(f"References to a file that another had named before: {watch.repeated:,}. {watch.repetition}")
    if watch.strangers:
        notes.append(f"Messages that are no references: {watch.strangers:,}. The newest: {watch.stranger}")
    if watch.of_others:
        notes.append(f"References of other pipelines: {watch.of_others:,}.")
    return notes
