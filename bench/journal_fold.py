"""Decoding and folding of both journals: records per second of one core, and the memory of many ids.

`python -m bench.journal_fold` prints the figures and writes them to bench/results/journal_fold.json. What is replayed
is the recording of 4.3.1 at later offsets, as if the same went on happening: ids and groups stay as few as it has.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable

import psutil

from app.core.journals.group_fold import LiveGroups
from app.core.journals.live_transactions import LiveTransactions
from app.core.journals.record_batch import RecordBatch, UnreadableBatch, split_batches
from app.core.journals.transaction_state import (
    TopicPartitions,
    TransactionState,
    TransactionStatus,
    encode_key,
    encode_value,
)
from bench.machine import keep, machine
from tests.core.journals.batches import batch_of
from tests.support.recordings import GROUPS, TRANSACTIONS, VERSION_NAMES, recorded_bytes

REPLAYS = 2_000
IDS = 50_000
_OFFSET = struct.Struct(">q")
TAKEOVER = (
    (TransactionStatus.EMPTY, 0),
    (TransactionStatus.ONGOING, 0),
    (TransactionStatus.PREPARE_ABORT, 1),
    (TransactionStatus.COMPLETE_ABORT, 1),
    (TransactionStatus.EMPTY, 2),
    (TransactionStatus.ONGOING, 2),
)


def later(data: bytes, by: int) -> bytes:
    """The same batches at later offsets."""
    moved = bytearray(data)
    at = 0
    for batch in split_batches(data):
        assert isinstance(batch, RecordBatch)
        _OFFSET.pack_into(moved, at, batch.base_offset + by)
        at += batch.size_bytes
    return bytes(moved)


def measure(topic: str, apply: Callable[[int, RecordBatch | UnreadableBatch], object]) -> float:
    """Records per second of CPU, markers included."""
    data = recorded_bytes(VERSION_NAMES[0], topic)
    batches = list(split_batches(data))
    length = batches[-1].last_offset + 1
    records = REPLAYS * sum(batch.record_count for batch in batches if isinstance(batch, RecordBatch))
    answers = [later(data, number * length) for number in range(REPLAYS)]
    started = time.process_time()
    for answer in answers:
        for batch in split_batches(answer):
            apply(0, batch)
    return records / (time.process_time() - started)


def memory_of_ids() -> float:
    """Megabytes for IDS ids, each with the past of a takeover."""
    before = psutil.Process().memory_info().rss
    live = LiveTransactions()
    for number in range(IDS):
        key = encode_key(f"fl.t.pipeline-{number % 500}.{number // 500}.{number % 7}")
        past = [(key, encode_value(state_of(number, status, epoch))) for status, epoch in TAKEOVER]
        live.apply(0, batch_of(past, base_offset=number * len(past)))
    assert len(live.ids) == IDS
    return (psutil.Process().memory_info().rss - before) / 1e6


def state_of(number: int, status: TransactionStatus, epoch: int) -> TransactionState:
    partitions = (
        TopicPartitions("orders.copied", (number % 12,)),
        TopicPartitions("__consumer_offsets", (number % 50,)),
    )
    at_ms = 1_800_000_000_000 + number
    return TransactionState(number, epoch, 60_000, status, partitions, at_ms, at_ms)


def main() -> None:
    on = machine()
    transactions, groups = LiveTransactions(), LiveGroups()
    memory_mb = memory_of_ids()
    figures: dict[str, object] = {
        "transaction_records_per_second": round(measure(TRANSACTIONS, transactions.apply)),
        "group_records_per_second": round(measure(GROUPS, groups.apply)),
        "ids": IDS,
        "memory_of_ids_mb": round(memory_mb),
    }
    assert not transactions.reading.unreadable
    assert not groups.reading.unreadable
    keep("journal_fold", on, figures)


if __name__ == "__main__":
    main()
