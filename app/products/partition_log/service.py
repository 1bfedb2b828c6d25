"""Read a part of a partition's log, for page, REST and command line."""

from __future__ import annotations

import msgspec

from app.core.clusters.brokers import DEFAULT_TIMEOUT_S, AskIds, Brokers, Connection
from app.core.clusters.partition import Partition
from app.core.journals.log_entries import LogEntry, entries_of, named
from app.core.journals.log_look import LogBounds, LogStart
from app.kit.errors import UnavailableError
from app.kit.page import checked_limit


class PartitionLog(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a log. `next_offset` is the start of the next part; `is_at_end`: no batches are there yet.

    ids_note: why the transactional ids are unknown or incomplete.
    """

    topic: str
    partition: int
    bounds: LogBounds
    start: int
    next_offset: int
    is_at_end: bool
    entries: tuple[LogEntry, ...]
    ids_note: str | None = None


async def look_into_log(
    brokers: Brokers,
    connection: Connection,
    *,
    ask_ids: AskIds,
    topic: str,
    partition: int,
    start: LogStart,
    limit: int,
    keys: bool = False,
    values: bool = False,
    timeout_s: float = DEFAULT_TIMEOUT_S,
) -> PartitionLog:
    """Return at most `limit` batches from `start` on, with their outcomes and the ids of their producers.

    ask_ids: finds the ids of producer ids; unknown ones are named in the answer, not raised.

    Raises NotFoundError, InvalidError for an offset outside of the log, and the errors of app/core/clusters/brokers.py.
    """
    at = Partition(topic, partition)
    look = await brokers.read_partition_log(
        connection, at, start=start, limit=checked_limit(limit), timeout_s=timeout_s
    )
    entries = entries_of(look, limit=limit, keys=keys, values=values)
    producer_ids = {entry.producer_id for entry in entries if entry.is_transactional and entry.producer_id is not None}
    ids_note = None
    try:
        if producer_ids:
            ids, ids_note = await ask_ids(producer_ids)
            entries = named(entries, ids)
    except UnavailableError as error:
        ids_note = f"transactional ids are not known: {error.message}"
    next_offset = entries[-1].last_offset + 1 if entries else look.next_offset
    return PartitionLog(
        topic=topic,
        partition=partition,
        bounds=look.bounds,
        start=look.start,
        next_offset=next_offset,
        is_at_end=next_offset >= look.bounds.high_watermark,
        entries=entries,
        ids_note=ids_note,
    )
