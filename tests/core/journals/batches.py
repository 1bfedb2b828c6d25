"""Batches as a broker writes them, for cases without a recording."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from kafka.record.default_records import DefaultRecordBatchBuilder  # pyright: ignore[reportMissingTypeStubs]

from app.core.journals.record_batch import MarkerType, RecordBatch, split_batches

_Builder: Any = DefaultRecordBatchBuilder
_CONTROL = 0x20


def batch_of(
    records: Sequence[tuple[bytes | None, bytes | None]],
    *,
    base_offset: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
    is_transactional: bool = False,
    is_control: bool = False,
    timestamp_ms: int = 1_000,
) -> RecordBatch:
    builder = _Builder(
        magic=2,
        compression_type=0,
        is_transactional=is_transactional,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=-1 if producer_id < 0 or is_control else 0,
        batch_size=2**30,
    )
    for offset, (key, value) in enumerate(records):
        builder.append(offset, timestamp=timestamp_ms, key=key, value=value, headers=[])
    data = bytearray(builder.build())
    struct.pack_into(">q", data, 0, base_offset)
    if is_control:
        data[22] |= _CONTROL
    (batch,) = split_batches(bytes(data))
    assert isinstance(batch, RecordBatch)
    return batch


def marker(kind: MarkerType, *, base_offset: int, producer_id: int, producer_epoch: int = 0) -> RecordBatch:
    record = (struct.pack(">hh", 0, kind), struct.pack(">hi", 0, 3))
    return batch_of(
        [record],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )
