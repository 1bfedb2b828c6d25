"""From a window to offsets, in an order that keeps the compared ranges consistent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from app.core.clusters.partition import Partition
from app.products.audits.result import AuditSide, Gap, GapReason, RangeRead
from app.products.audits.specification import AuditSpecification, Everything
from workers.audit.bounds import WindowBounds, begins
from workers.audit.cluster import AuditBrokers, TopicSettings, UnresolvableError
from workers.audit.splits import SplitPlan

_LOOK_EVERY_S = 0.2
_USUAL = TopicSettings()


def resolve(
    specification: AuditSpecification,
    brokers: AuditBrokers,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> SplitPlan:
    """The offsets to read.

    1. the group's committed offsets  the outputs of these inputs, and no others, are in the log by now
    2. the sinks' ends                as high watermarks: the outputs of 1 lie below, committed or about to be
    3. wait for the sinks             until `read_committed` consumers get that far: another transaction, open since
                                      before, hides records committed behind it, and so would make them look lost
    4. the source's ends              last, so that every output found in a sink has its input in what is read

    Waiting is bounded; where consumers are still blocked then, the range ends at the last stable offset, with a gap.
    For files the references are resolved; their further offsets are known once they are read
    (workers/audit/listing.py).

    Raises:
        UnresolvableError: a topic does not exist, or the window names a partition that does not.
    """
    source = partitions_of(brokers, specification.source_topics)
    sink = partitions_of(brokers, specification.sink_topics)
    committed = None if specification.group_id is None else brokers.committed(specification.group_id, source)
    sink_ends, sink_gaps = settled(AuditSide.SINK, sink, brokers, specification, clock=clock, sleep=sleep)
    is_everything = isinstance(specification.window, Everything)
    if is_everything:
        # Open records of the source are not to be processed yet, and never were.
        source_ends, source_gaps = dict(brokers.last_stable(source)), []
    else:
        source_ends, source_gaps = settled(AuditSide.SOURCE, source, brokers, specification, clock=clock, sleep=sleep)
    settings = {topic: brokers.settings(topic) for topic in (*specification.source_topics, *specification.sink_topics)}
    referring = None if specification.files is None else specification.sink_topic
    is_comparison = specification.comparison is not None
    appended = frozenset(
        topic
        for topic in specification.sink_topics
        if topic != referring and not is_comparison and (settings[topic] or _USUAL).has_append_time
    )
    bounds = WindowBounds(brokers, specification, source, sink, source_ends, sink_ends, appended, referring)
    ranges, gaps = bounds.ranges()
    held_back = [gap for gap in (*source_gaps, *sink_gaps) if matters(gap, ranges)]
    return SplitPlan(
        ranges=tuple(ranges),
        gaps=(*gaps, *held_back, *_unlike(committed or {}, source_ends), *settings_gaps(specification, settings)),
        suspicions=() if is_everything or is_comparison else (*begins(ranges), *bounds.written_later(ranges)),
        # A partition without a committed offset: none of its records has been processed.
        committed={str(at): offset or 0 for at, offset in (committed or {}).items()},
        tells_pending=not is_everything and not is_comparison,
        files=bounds.files(ranges),
    )


def partitions_of(brokers: AuditBrokers, topics: Iterable[str]) -> list[Partition]:
    """Return all partitions of the topics. Raises UnresolvableError for a missing topic."""
    found: list[Partition] = []
    for topic in topics:
        partitions = brokers.partitions(topic)
        if not partitions:
            raise UnresolvableError(f"the topic {topic} does not exist on this cluster; create it, or audit without it")
        found += [Partition(topic, partition) for partition in sorted(partitions)]
    return found


def settled(
    side: AuditSide,
    partitions: Sequence[Partition],
    brokers: AuditBrokers,
    specification: AuditSpecification,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[dict[Partition, int], list[Gap]]:
    """The present ends, once `read_committed` consumers get there; where they do not: less, with gaps."""
    wanted = dict(brokers.high_watermarks(partitions))
    deadline = clock() + specification.bounds.settle_ms / 1000
    waiting = list(partitions)
    stable: dict[Partition, int] = {}
    while True:
        stable.update(brokers.last_stable(waiting))
        waiting = [at for at in waiting if stable[at] < wanted[at]]
        if not waiting or clock() >= deadline:
            break
        sleep(_LOOK_EVERY_S)
    gaps = [_open_gap(side, at, stable[at], wanted[at]) for at in waiting]
    return {at: min(stable[at], wanted[at]) for at in partitions}, gaps


def _open_gap(side: AuditSide, at: Partition, start: int, end: int) -> Gap:
    return Gap(
        side=side,
        topic=at.topic,
        partition=at.partition,
        reason=GapReason.OPEN_TRANSACTION,
        start=start,
        end=end,
        sentence=f"Consumers of {at} are blocked at offset {start} by an open transaction; "
        f"records from there to {end - 1} could not be read.",
    )


def matters(gap: Gap, ranges: Iterable[RangeRead]) -> bool:
    """True if the unread records are in the range: one that ends before has not missed them.

    In the source only the window counts: uncommitted records of its padding have no output either.
    """
    return any(
        (one.topic, one.partition) == (gap.topic, gap.partition)
        and (one.end if gap.side is AuditSide.SOURCE else one.read_end) >= (gap.start or 0)
        for one in ranges
    )


def _unlike(committed: Mapping[Partition, int | None], source_ends: Mapping[Partition, int]) -> list[Gap]:
    """If the group's offset lies behind the log's end, it is another log's, and shows nothing about this one."""
    return [
        Gap(
            side=AuditSide.SOURCE,
            topic=at.topic,
            partition=at.partition,
            reason=GapReason.MADE_ANEW,
            start=source_ends[at],
            end=offset,
            sentence=f"The group has committed {at} up to offset {offset}, and it ends at "
            f"{source_ends[at]}: the topic was recreated, or its log was cut, and its processed records cannot be "
            "determined.",
        )
        for at, offset in committed.items()
        if offset is not None and offset > source_ends[at]
    ]


def settings_gaps(specification: AuditSpecification, settings: Mapping[str, TopicSettings | None]) -> list[Gap]:
    gaps: list[Gap] = []
    for side, topics in ((AuditSide.SOURCE, specification.source_topics), (AuditSide.SINK, specification.sink_topics)):
        for topic in topics:
            found = settings[topic]
            if found is not None and not found.is_compacted:
                continue
            if specification.files is not None and side is AuditSide.SINK and topic == specification.sink_topic:
                # Each reference has a key of its own, so compaction removes none.
                continue
            reason, sentence = (
                (GapReason.NOT_ADMITTED, f"Permission to read the settings of {topic} is missing; it may be compacted.")
                if found is None
                else (GapReason.COMPACTED, f"{topic} is compacted: a later record with the same key removes a record.")
            )
            gaps.append(Gap(side=side, topic=topic, partition=None, reason=reason, sentence=sentence))
    return gaps
