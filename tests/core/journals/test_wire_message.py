"""Messages by description: cases that no recorded journal has."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.journals.wire_format import INT8, INT32, INT64, MalformedError, read_unsigned_varint, unsigned_varint
from app.core.journals.wire_message import Field, Layout, Undecodable, message_of


class Sample(msgspec.Struct, frozen=True):
    first: int
    middle: int = -1
    last: int = 0
    tagged: int = 0


SAMPLE = message_of(
    Layout(
        Sample,
        (
            Field("first", INT8),
            Field("middle", INT32, since=1),
            Field("last", INT64),
            Field("tagged", INT32, since=2, tag=300),
        ),
    ),
    last_version=2,
    flexible_since=2,
)


def test_field_that_a_version_lacks_has_its_default_and_moves_no_other() -> None:
    sample = Sample(first=1, middle=2, last=3)
    assert SAMPLE.encode(sample, 0) == b"\0\0" + b"\1" + bytes(7) + b"\3"
    assert SAMPLE.decode(SAMPLE.encode(sample, 0)) == Sample(first=1, middle=-1, last=3)
    assert SAMPLE.decode(SAMPLE.encode(sample, 1)) == sample


def test_tag_beyond_one_byte_is_read() -> None:
    sample = Sample(first=1, middle=2, last=3, tagged=4)
    assert SAMPLE.decode(SAMPLE.encode(sample, 2)) == sample


def test_tag_with_a_wrong_length_is_malformed() -> None:
    data = SAMPLE.encode(Sample(first=1, tagged=4), 2)
    longer = data[:-5] + b"\5" + data[-4:] + b"x"
    assert isinstance(SAMPLE.decode(longer), Undecodable)


@given(st.integers(0, 2**35 - 1))
def test_every_varint_survives_writing_and_reading(value: int) -> None:
    written = unsigned_varint(value)
    assert read_unsigned_varint(written, 0) == (value, len(written))


def test_varint_without_an_end_is_malformed() -> None:
    with pytest.raises(MalformedError, match="varint"):
        read_unsigned_varint(b"\xff" * 9, 0)
