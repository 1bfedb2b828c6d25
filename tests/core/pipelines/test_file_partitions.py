"""Partition values of records, and the folders of them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.pipelines.file_partitions import (
    MAX_PART_LENGTH,
    NULL,
    FilePartitions,
    PartitionColumns,
    PartitionError,
    escape,
)
from app.core.pipelines.pipeline import ByDate, ByField, ByHour

USER = ByField(name="user", field="user.id")
DAY = ByDate(name="day")
HOUR = ByHour(name="hour")
JANUARY_MS = 1359590400000  # 2013-01-31T00:00:00Z


def values(
    columns: PartitionColumns, record: dict[str, Any], *, at: int | None = None, event_time: str | None = None
) -> Any:
    return FilePartitions(columns, event_time=event_time).values(record, at)


@pytest.mark.parametrize(
    ("value", "text"),
    [("eve", "eve"), ("", ""), (7, "7"), (-7, "-7"), (1.5, "1.5"), (1e300, "1e+300"), (True, "true"), (False, "false")],
)
def test_a_column_of_a_field_has_its_text(value: Any, text: str) -> None:
    assert values([USER], {"user": {"id": value}}) == (text,)


@pytest.mark.parametrize("record", [{}, {"user": None}, {"user": {"id": None}}, {"user": "text"}])
def test_a_field_that_is_null_or_missing_is_the_null_of_hive(record: dict[str, Any]) -> None:
    assert values([USER], record) == (NULL,)


@given(st.text() | st.from_regex(rf"\A_*{NULL}\Z"), st.text() | st.from_regex(rf"\A_*{NULL}\Z"))
def test_no_text_is_taken_for_null_or_for_another(a: str, b: str) -> None:
    one, other = values([USER], {"user": {"id": a}}), values([USER], {"user": {"id": b}})
    assert (NULL,) not in (one, other)
    assert (one == other) == (a == b)


@pytest.mark.parametrize(
    ("value", "part"),
    [
        ({"x": 1}, "`user.id` is an object; files are partitioned by"),
        ([1], "`user.id` is a list"),
        (1 << 63, "an integer beyond 64 bits"),
    ],
)
def test_value_without_a_text_is_a_bad_record(value: Any, part: str) -> None:
    with pytest.raises(PartitionError) as caught:
        values([USER], {"user": {"id": value}})
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("time", "day", "hour"),
    [
        (JANUARY_MS, "2013-01-31", "00"),
        (JANUARY_MS - 1, "2013-01-30", "23"),
        (0, "1970-01-01", "00"),
        (-1, "1969-12-31", "23"),
        ("2013-01-31T05:59:59.999Z", "2013-01-31", "05"),
        ("2013-01-31T05:00:00", "2013-01-31", "05"),
        ("2013-01-31 05:00", "2013-01-31", "05"),
        ("2013-01-31", "2013-01-31", "00"),
        ("2013-01-31T01:30:00+02:00", "2013-01-30", "23"),
        ("2013-01-31T23:30:00-05:00", "2013-02-01", "04"),
        ("0001-01-01T00:00:00Z", "0001-01-01", "00"),
        ("9999-12-31T23:59:59Z", "9999-12-31", "23"),
    ],
)
def test_day_and_hour_are_those_of_the_event_time_in_utc(time: Any, day: str, hour: str) -> None:
    assert values([DAY, HOUR], {"at": time}, at=12345678900000, event_time="at") == (day, hour)
    if type(time) is int:
        assert values([HOUR, DAY], {}, at=time) == (hour, day)


YEAR_2, YEAR_9998 = datetime(2, 1, 1), datetime(9998, 1, 1)  # noqa: DTZ001 - hypothesis adds the zones


@given(st.datetimes(YEAR_2, YEAR_9998, timezones=st.timezones() | st.just(UTC)))
def test_every_offset_is_taken_into_account(time: datetime) -> None:
    utc = time.astimezone(UTC)
    assert values([DAY, HOUR], {"at": time.isoformat()}, event_time="at") == (utc.date().isoformat(), f"{utc.hour:02}")


@pytest.mark.parametrize(
    ("record", "part"),
    [
        ({}, "the event time `at` is missing; it is milliseconds since 1970"),
        ({"at": None}, "the event time `at` is null"),
        ({"at": True}, "the event time `at` is true or false"),
        ({"at": 1.5}, "the event time `at` is a number (1.5)"),
        ({"at": {}}, "the event time `at` is an object"),
        ({"at": "yesterday"}, "the event time `at` is 'yesterday', which is no ISO 8601 time"),
        ({"at": "x" * 1000}, "xxx…', which is no ISO 8601 time"),
        ({"at": "0001-01-01T00:00:00+01:00"}, "which is no ISO 8601 time of the years 1 to 9999"),
        ({"at": "9999-12-31T23:00:00-05:00"}, "which is no ISO 8601 time of the years 1 to 9999"),
        ({"at": 1 << 62}, "is outside the years 1 to 9999"),
        ({"at": -(1 << 62)}, "is outside the years 1 to 9999"),
    ],
)
def test_an_event_time_that_is_none_says_why(record: dict[str, Any], part: str) -> None:
    with pytest.raises(PartitionError) as caught:
        values([DAY], record, at=0, event_time="at")
    assert part in str(caught.value)
    assert len(str(caught.value)) < 250


def test_a_record_without_a_timestamp_has_no_day() -> None:
    with pytest.raises(PartitionError, match="the record has no timestamp"):
        values([DAY], {})


def test_event_time_is_read_only_if_a_column_needs_it() -> None:
    assert values([USER], {"user": {"id": "eve"}}, event_time="at") == ("eve",)


def test_the_folder_is_one_that_hive_and_spark_read() -> None:
    partitions = FilePartitions([USER, DAY, HOUR], event_time=None)
    assert partitions.names == ("user", "day", "hour")
    assert (
        partitions.folder(("eve & co/../x", "2013-01-31", "05"))
        == "user=eve%20%26%20co%2F..%2Fx/day=2013-01-31/hour=05"
    )
    assert FilePartitions([], event_time=None).folder(()) == ""


long_texts = st.text(min_size=90, max_size=120) | st.text(alphabet="ab%/é😀", min_size=60, max_size=140)


@given(st.text() | long_texts, st.text() | long_texts)
def test_every_text_has_a_part_of_its_own_that_leads_nowhere_else(a: str, b: str) -> None:
    one, other = escape(a), escape(b)
    assert (one == other) == (a == b)
    assert len(one) <= MAX_PART_LENGTH
    assert re.fullmatch(r"([A-Za-z0-9._-]|%[0-9A-F]{2})*(~[0-9a-f]{32})?", one)


def test_long_values_that_begin_alike_have_parts_of_their_own() -> None:
    one, other = escape("x" * 200), escape("x" * 201)
    assert one != other
    assert one[:60] == other[:60] == "x" * 60
