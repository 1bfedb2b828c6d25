"""Compare entries with the output of `kafka-dump-log.sh` for the same segment."""

from __future__ import annotations

from collections.abc import Sequence

from app.core.journals.log_entries import EntryState, LogEntry
from tests.support.recordings import DumpedBatch


def assert_as_dumped(entries: Sequence[LogEntry], dump: Sequence[DumpedBatch]) -> None:
    """Every field that both have is the same, markers included; records are compared where the entries have them."""
    for entry, theirs in zip(entries, dump, strict=True):
        shown = {
            "baseOffset": entry.base_offset,
            "lastOffset": entry.last_offset,
            "count": entry.record_count,
            "baseSequence": _minus_one(entry.base_sequence),
            "producerId": _minus_one(entry.producer_id),
            "producerEpoch": _minus_one(entry.producer_epoch),
            "partitionLeaderEpoch": entry.leader_epoch,
            "isTransactional": str(entry.is_transactional).lower(),
            "isControl": str(entry.is_control).lower(),
            "CreateTime": entry.timestamp_ms,
            "size": entry.size_bytes,
            "compresscodec": entry.compression,
        }
        assert {name: str(value) for name, value in shown.items()} == {name: theirs.header[name] for name in shown}
        if theirs.is_control:
            assert entry.state is EntryState.MARKER
            assert (entry.marker, entry.coordinator_epoch) == theirs.records[0].marker
        for record, expected in zip(entry.records, theirs.records, strict=bool(entry.records)):
            key = f"key: {record.key.text} " if record.key else ""
            assert record.value is not None
            assert (record.offset, record.timestamp_ms, f"{key}payload: {record.value.text}") == (
                expected.offset,
                expected.timestamp_ms,
                expected.content,
            )


def _minus_one(number: int | None) -> int:
    """The tool's value for "none"."""
    return -1 if number is None else number
