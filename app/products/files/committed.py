"""The messages of a log's batches for `read_committed` consumers, each with the time of its commit. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from app.core.journals.log_look import AbortedTransaction
from app.core.journals.record_batch import Marker, MarkerType, RecordBatch, UnreadableBatch, read_marker, read_records
from app.core.journals.wire_message import Undecodable
from app.products.files.reading import TopicMessage


def committed_messages(
    batches: Iterable[RecordBatch | UnreadableBatch],
    aborted: Iterable[AbortedTransaction],
    *,
    position: int,
    most: int,
) -> tuple[tuple[TopicMessage, ...], int]:
    """Return the messages from `position` on without aborted ones, about `most`, and the next offset.

    The rule is that of Kafka's consumer (CompletedFetch.java). A producer's records are aborted from the first offset
    of an aborted transaction to its next marker. Batches are taken whole, so there may be more than `most`.

    Args:
        batches, aborted: of one answer with `read_committed`, which ends at the last stable offset.
    """
    to_come = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
    aborting: set[int] = set()
    messages: list[TopicMessage] = []
    undecided: defaultdict[int, list[int]] = defaultdict(list)
    next_offset = position
    for batch in batches:
        while to_come and to_come[-1].first_offset <= batch.last_offset:
            aborting.add(to_come.pop().producer_id)
        if isinstance(batch, RecordBatch) and batch.is_control:
            marker = read_marker(batch)
            if isinstance(marker, Marker):
                decided = undecided.pop(batch.producer_id, [])
                if marker.type is MarkerType.ABORT:
                    aborting.discard(batch.producer_id)
                else:
                    _note_commit(messages, decided, batch.max_timestamp_ms)
        elif len(messages) >= most:
            # Markers after the last message are still read, for the time of its commit.
            break
        elif isinstance(batch, UnreadableBatch):
            messages.append(TopicMessage(batch.last_offset, 0, None, unreadable=batch.reason))
        elif not (batch.is_transactional and batch.producer_id in aborting):
            begin = len(messages)
            messages += (one for one in _messages(batch) if one.offset >= position)
            if batch.is_transactional:
                undecided[batch.producer_id] += range(begin, len(messages))
        next_offset = batch.last_offset + 1
    return tuple(messages), max(position, next_offset)


def _messages(batch: RecordBatch) -> list[TopicMessage]:
    records = read_records(batch)
    if isinstance(records, Undecodable):
        return [TopicMessage(batch.last_offset, batch.max_timestamp_ms, None, unreadable=records.reason)]
    return [TopicMessage(record.offset, record.timestamp_ms, record.value) for record in records]


def _note_commit(messages: list[TopicMessage], decided: list[int], at_ms: int) -> None:
    for index in decided:
        messages[index] = msgspec.structs.replace(messages[index], committed_ms=at_ms)
