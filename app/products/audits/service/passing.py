"""Progress of a pipeline through an audit's window, from the group's committed offsets."""

from __future__ import annotations

from collections.abc import Mapping

from app.core.clusters.brokers import Brokers, Connection, PartitionOffsets
from app.core.clusters.partition import Partition
from app.core.journals.log_entries import EntryState, entries_of
from app.core.pipelines.pipeline import PipelineDefinition
from app.products.audits.passing import NotPassed, beyond, not_passed
from app.products.audits.specification import Everything, OffsetWindow, TimeWindow, Window

_BATCHES = 200
"""Most batches read to find out whether only markers are left in a range."""


async def why_not_passed(
    brokers: Brokers, connection: Connection, definition: PipelineDefinition, window: Window
) -> NotPassed | None:
    """Return the part of the window that is not committed; None: all is, or the window has no end."""
    match window:
        case Everything():
            return None
        case OffsetWindow():
            ends = {Partition(one.topic, one.partition): one.end for one in window.ranges}
            bounds = await _source_bounds(brokers, connection, definition)
            refused = beyond(ends, {at: one.high_watermark for at, one in bounds.items()})
            if refused is not None:
                return refused
        case TimeWindow():
            bounds = await _source_bounds(brokers, connection, definition)
            found = await brokers.offsets_at(connection, list(bounds), timestamp_ms=window.end_ms)
            # A partition without records before the window's end is not required.
            ends = {at: found[at] for at in bounds if found[at] > bounds[at].earliest}
    committed = await brokers.committed_offsets(connection, definition.group_id)
    behind = [at for at, end in ends.items() if committed.get(at, -1) < end]
    passed = [
        at
        for at in behind
        if at in committed and await _holds_no_records(brokers, connection, at, committed[at], ends[at])
    ]
    return not_passed(committed, {at: ends[at] for at in behind if at not in passed})


async def _source_bounds(
    brokers: Brokers, connection: Connection, definition: PipelineDefinition
) -> Mapping[Partition, PartitionOffsets]:
    facts = await brokers.facts(connection, topics=definition.source_topics)
    partitions = [
        Partition(topic, number)
        for topic in definition.source_topics
        if topic in facts.topics
        for number in range(facts.topics[topic].partitions)
    ]
    return await brokers.offsets(connection, partitions)


async def _holds_no_records(brokers: Brokers, connection: Connection, at: Partition, start: int, end: int) -> bool:
    """Return true if the range has no committed records, since no group commits past a last marker."""
    look = await brokers.read_partition_log(connection, at, start=start, limit=_BATCHES)
    if look.start > start or look.next_offset < end:
        return False
    return all(
        entry.is_control or entry.state is EntryState.ABORTED
        for entry in entries_of(look)
        if start <= entry.last_offset and entry.base_offset < end
    )
