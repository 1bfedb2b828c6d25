"""Real journals with damaged bytes: reading neither fails nor exceeds its memory."""

from __future__ import annotations

import struct
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.journals.compression import Compression, decompress
from app.core.journals.group_fold import LiveGroups
from app.core.journals.live_transactions import LiveTransactions
from app.core.journals.record_batch import RecordBatch, read_records, split_batches
from app.core.journals.wire_format import MalformedError
from app.core.journals.wire_message import Undecodable
from tests.support.journal_recording import RECORDED
from tests.support.recordings import GROUPS, TRANSACTIONS, VERSION_NAMES

_LOGS = {
    (version, topic): (RECORDED / version / f"{topic}.log").read_bytes()
    for version in VERSION_NAMES
    for topic in (GROUPS, TRANSACTIONS)
}
# Lengths, counts and varints that no honest broker writes.
_INTEGERS = [struct.pack(">i", number) for number in (-1, -(2**31), 2**31 - 1, 1 << 24)]
_DAMAGE = st.one_of(st.binary(min_size=1, max_size=16), st.sampled_from([*_INTEGERS, b"\xff" * 10, b"\x80" * 5]))


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(_LOGS)), st.data())
def test_damaged_journals_are_read(recorded: tuple[str, str], data: st.DataObject) -> None:
    log = bytearray(_LOGS[recorded])
    for _ in range(data.draw(st.integers(1, 20))):
        at = data.draw(st.integers(0, len(log) - 1))
        damage = data.draw(_DAMAGE)
        log[at : at + len(damage)] = damage
    groups, transactions = LiveGroups(), LiveTransactions()
    began = time.monotonic()
    for batch in split_batches(bytes(log)):
        groups.apply(0, batch, is_wanted=lambda _: True)
        transactions.apply(0, batch)
    # A tenth of a second when it is quiet.
    assert time.monotonic() - began < 10
    records = len(log) // 8
    assert len(groups.groups) <= records
    assert len(transactions.ids) <= records


def _batch(records: bytes, *, count: int, codec: Compression = Compression.NONE) -> RecordBatch:
    return RecordBatch(0, 0, 0, int(codec), 0, 0, -1, -1, -1, count, len(records), records)


@pytest.mark.parametrize("count", [-1, 2**31 - 1])
def test_wrong_record_count_ends_the_reading(count: int) -> None:
    found = read_records(_batch(b"", count=count))
    assert found == [] or isinstance(found, Undecodable)


@pytest.mark.parametrize("name", ["key", "header count", "record"])
def test_length_beyond_the_end_is_malformed(name: str) -> None:
    """A length of two gigabytes in five bytes."""
    huge = b"\xfe\xff\xff\xff\x0f"
    bodies = {"key": b"\0\0\0" + huge, "header count": b"\0\0\0\x01\x01" + huge, "record": b""}
    body = bodies[name]
    record = huge if name == "record" else bytes([2 * len(body)]) + body
    assert isinstance(read_records(_batch(record, count=1)), Undecodable)


@given(st.sampled_from([*Compression]), st.binary(max_size=300))
def test_decompression_bombs_and_noise_stay_within_the_bound(codec: Compression, data: bytes) -> None:
    with suppress(MalformedError):
        assert len(decompress(codec, data, max_bytes=1 << 16)) <= 1 << 16
