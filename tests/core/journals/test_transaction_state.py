"""Decoding `__transaction_state`: a broker's own records, round trips, and invalid bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from app.core.journals.transaction_state import (
    IS_OPEN,
    TopicPartitions,
    TransactionState,
    TransactionStatus,
    Undecodable,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

i16, i32, i64 = (st.integers(-(2**bits), 2**bits - 1) for bits in (15, 31, 63))
names = st.text(st.characters(codec="utf-8"), max_size=20)
topics = st.tuples(names, st.lists(i32, max_size=4)).map(lambda pair: TopicPartitions(pair[0], tuple(pair[1])))
partitions = st.one_of(st.none(), st.lists(topics, max_size=3).map(tuple))
base = {
    "producer_id": i64,
    "producer_epoch": i16,
    "timeout_ms": i32,
    "status": st.sampled_from(TransactionStatus),
    "partitions": partitions,
    "last_update_ms": i64,
    "start_ms": i64,
}
version_0 = st.builds(TransactionState, version=st.just(0), **base)
version_1 = st.builds(
    TransactionState,
    version=st.just(1),
    **base,
    previous_producer_id=i64,
    next_producer_id=i64,
    client_transaction_version=i16,
    next_producer_epoch=i16,
    unknown_tags=st.dictionaries(st.integers(4, 1000), st.binary(max_size=8), max_size=2).map(
        lambda tags: tuple(sorted(tags.items()))
    ),
)


@given(st.one_of(version_0, version_1))
def test_every_state_survives_encoding_and_decoding(state: TransactionState) -> None:
    assert decode_value(encode_value(state)) == state


@given(names)
def test_every_id_survives_encoding_and_decoding(transactional_id: str) -> None:
    assert decode_key(encode_key(transactional_id)) == transactional_id


def test_null_value_is_a_tombstone() -> None:
    assert decode_value(None) is None


@given(i16.filter(lambda version: version not in (0, 1)), st.binary(max_size=40))
def test_unknown_versions_are_reported(version: int, rest: bytes) -> None:
    data = version.to_bytes(2, "big", signed=True) + rest
    decoded = decode_value(data)
    assert decoded == Undecodable(f"unknown value version {version}", data)
    key = decode_key(data)
    assert key == Undecodable(f"unknown key version {version}", data)


@given(st.binary(max_size=80))
def test_no_bytes_make_the_decoder_raise(data: bytes) -> None:
    assert isinstance(decode_value(data), TransactionState | Undecodable)
    assert isinstance(decode_key(data), str | Undecodable)


@given(version_1, st.data())
def test_truncated_value_is_malformed(state: TransactionState, data: st.DataObject) -> None:
    whole = encode_value(state)
    cut = whole[: data.draw(st.integers(2, len(whole) - 1))]
    assert isinstance(decode_value(cut), Undecodable)


def test_unknown_status_is_malformed() -> None:
    state = TransactionState(producer_id=1, producer_epoch=0, timeout_ms=1, status=TransactionStatus.EMPTY)
    data = bytearray(encode_value(state))
    data[16] = 99
    assert decode_value(bytes(data)) == Undecodable("malformed value: unknown transaction status 99", bytes(data))


def test_open_ones_are_found_by_their_number_too() -> None:
    assert [IS_OPEN[status] for status in TransactionStatus] == [status.is_open for status in TransactionStatus]
