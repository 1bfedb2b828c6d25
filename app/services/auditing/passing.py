"""Has the pipeline passed an audit's window? Asked of the brokers, which know the group's offsets."""

from __future__ import annotations

from app.domain.audits.passing import not_passed
from app.domain.audits.specification import Everything, OffsetWindow, TimeWindow, Window
from app.domain.partition_log.entries import EntryState, entries_of
from app.domain.pipelines.pipeline import PipelineDefinition
from app.ports.brokers import Brokers, Connection, TopicPartition

_BATCHES = 200
"""How much of a log is looked through for whether only markers are left of it."""


async def why_not_passed(
    brokers: Brokers, connection: Connection, definition: PipelineDefinition, window: Window
) -> str | None:
    """A clause on what the pipeline has still to process of the window; None: nothing, or the window has no end."""
    ends = await _ends(brokers, connection, definition, window)
    if not ends:
        return None
    committed = await brokers.committed_offsets(connection, definition.group_id)
    behind = [at for at, end in ends.items() if committed.get(at, -1) < end]
    passed = [
        at
        for at in behind
        if at in committed and await _holds_no_records(brokers, connection, at, committed[at], ends[at])
    ]
    return not_passed(
        {(at.topic, at.partition): offset for at, offset in committed.items()},
        {(at.topic, at.partition): ends[at] for at in behind if at not in passed},
    )


async def _ends(
    brokers: Brokers, connection: Connection, definition: PipelineDefinition, window: Window
) -> dict[TopicPartition, int]:
    """The first offset behind the window, of each source partition that holds anything before it."""
    match window:
        case Everything():
            return {}
        case OffsetWindow():
            return {TopicPartition(one.topic, one.partition): one.end for one in window.ranges}
        case TimeWindow():
            facts = await brokers.facts(connection, topics=definition.source_topics)
            partitions = [
                TopicPartition(topic, number)
                for topic in definition.source_topics
                if topic in facts.topics
                for number in range(facts.topics[topic].partitions)
            ]
            bounds = await brokers.offsets(connection, partitions)
            ends = await brokers.offsets_at(connection, partitions, timestamp_ms=window.end_ms)
            return {at: ends[at] for at in partitions if ends[at] > bounds[at].earliest}


async def _holds_no_records(brokers: Brokers, connection: Connection, at: TopicPartition, start: int, end: int) -> bool:
    """Whether a reader of committed data is given nothing of these offsets: no group commits past a last marker."""
    look = await brokers.read_partition_log(connection, at, start=start, limit=_BATCHES)
    if look.start > start or look.next_offset < end:
        return False
    return all(
        entry.is_control or entry.state is EntryState.ABORTED
        for entry in entries_of(look)
        if start <= entry.last_offset and entry.base_offset < end
    )
