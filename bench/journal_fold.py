"""Decoding and folding of both journals, records per second of one core: recorded journals of 4.3.1, replayed.

`python -m bench.journal_fold` prints the figures and writes them to bench/results/journal_fold.json. Each replay is the
recording at later offsets, as if the same went on happening; so ids and groups stay as few as in the recording.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable
from pathlib import Path

from app.domain.journals.live_groups import LiveGroups
from app.domain.journals.live_transactions import LiveTransactions
from app.domain.journals.record_batch import RecordBatch, UnreadableBatch, split_batches
from tests.support.recordings import GROUPS, TRANSACTIONS, VERSION_NAMES, recorded_bytes

REPLAYS = 2_000
RESULTS = Path(__file__).parent / "results" / "journal_fold.json"
_OFFSET = struct.Struct(">q")


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


def main() -> None:
    transactions, groups = LiveTransactions(), LiveGroups()
    figures = {
        "transaction_records_per_second": round(measure(TRANSACTIONS, transactions.apply)),
        "group_records_per_second": round(measure(GROUPS, groups.apply)),
    }
    assert not transactions.reading.unreadable
    assert not groups.reading.unreadable
    print(json.dumps(figures))
    RESULTS.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
