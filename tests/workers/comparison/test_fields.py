"""Equality of fields: numbers by value, null and missing, texts of CSV, lists, times."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from app.products.audits.comparison import Baseline, Comparison, FileFormat, FilesBaseline, TopicBaseline
from workers.comparison.fields import canonical, differing, leaves_of, same, time_ms_of

TOPIC = TopicBaseline(topic="old")
PARQUET = FilesBaseline(format=FileFormat.PARQUET, location="file:///old")
CSV = FilesBaseline(format=FileFormat.CSV, location="file:///old")


def different(one: dict[str, Any], other: dict[str, Any], of: Baseline = TOPIC, **rules: Any) -> list[str]:
    comparison = Comparison(baseline=of, **rules)
    leaves = leaves_of(comparison, found=set())
    return differing(leaves(one), leaves(other), tolerance=comparison.tolerance)


def test_fields_are_compared_by_path() -> None:
    one = {"id": 1, "order": {"total": 5, "lines": [1, 2]}, "a.b": 1}
    assert different(one, {"a.b": 1, "order": {"lines": [1, 2], "total": 5}, "id": 1}) == []
    other = {"id": 1, "order": {"total": 6, "lines": [2, 1]}, "a.b": 2}
    assert different(one, other) == ["a\\.b", "order.lines", "order.total"]
    assert different(one, other, fields=("order",)) == ["order.lines", "order.total"]
    assert different(one, other, ignored_fields=("order.lines", "a\\.b")) == ["order.total"]
    assert different(one, other, fields=("order",), ignored_fields=("order",)) == []


def test_numbers_are_equal_by_value_and_true_is_no_number() -> None:
    assert different({"n": 1}, {"n": 1.0}) == []
    assert different({"n": [1]}, {"n": [1.0]}) == []
    assert different({"n": 1}, {"n": True}) == ["n"]
    assert different({"n": 1}, {"n": "1"}) == ["n"]
    assert different({"n": 2**53 + 1}, {"n": 2**53}) == ["n"], "large numbers are exact"
    assert different({"n": Decimal("1.50")}, {"n": 1.5}) == []
    assert different({"n": Decimal(f"{10**35}.5")}, {"n": 1e35}) == []
    assert different({"n": Decimal(10**35 + 1)}, {"n": 10**35}) == ["n"]


@pytest.mark.parametrize(("tolerance", "found"), [(0.0, ["n"]), (0.009, ["n"]), (0.011, [])])
def test_tolerance_is_absolute_and_for_numbers_alone(tolerance: float, found: list[str]) -> None:
    assert different({"n": 1.0, "t": "a"}, {"n": 1.01, "t": "a"}, tolerance=tolerance) == found
    assert different({"n": [{"m": 1.0}]}, {"n": [{"m": 1.01}]}, tolerance=tolerance) == found


def test_null_is_a_missing_field_unless_both_sides_are_topics() -> None:
    assert different({"a": None}, {}) == ["a"]
    assert different({"a": None}, {}, PARQUET) == []
    assert different({"a": {"b": None}}, {"a": None}, PARQUET) == []
    assert different({"a": [{"b": None}]}, {"a": [{}]}, PARQUET) == []
    assert different({"a": None}, {"a": 0}, PARQUET) == ["a"]


def test_texts_of_csv_are_the_values_that_they_mean() -> None:
    typed = {"n": 5, "x": 0.5, "yes": True, "nothing": None, "code": "007", "text": "a"}
    texts = {"n": "5", "x": "0.50", "yes": "true", "nothing": "", "code": "007", "text": "a"}
    assert different(texts, typed, CSV) == []
    assert different(texts, typed, PARQUET) == ["n", "nothing", "x", "yes"], "of typed files a text stays a text"
    assert different({"code": "7"}, {"code": "007"}, CSV) == ["code"]


def test_equal_fields_have_equal_bytes() -> None:
    leaves = leaves_of(Comparison(baseline=TOPIC), found=set())
    assert canonical(leaves({"b": 1.0, "a": {"c": [2.0]}})) == canonical(leaves({"a": {"c": [2]}, "b": 1}))
    assert canonical(leaves({"a": None})) != canonical(leaves({}))
    assert canonical(leaves({"a": float("nan")})) == b'{"a":"nan"}'


def test_huge_numbers_have_a_distance() -> None:
    assert not same(10**400, 1.5, tolerance=0.1)


@pytest.mark.parametrize(
    "value",
    [1_764_000_000_000, 1_764_000_000_000.0, "1764000000000", "2025-11-24T16:00:00Z", "2025-11-24 16:00:00",
     "2025-11-24T17:00:00+01:00", datetime(2025, 11, 24, 16, tzinfo=UTC)],
)  # fmt: skip
def test_time_is_milliseconds_or_iso(value: object) -> None:
    assert time_ms_of(value) == 1_764_000_000_000


@pytest.mark.parametrize(
    "value",
    [None, True, "yesterday", [1], float("inf"), "1e999", float("-inf"), float("nan"), "nan", "NaN", "infinity", 1e30,
     10**400, 253_402_300_800_000, -62_135_596_800_001, "9" * 5_000, "1764000000000000", "0000-01-01", "10000-01-01"],
)  # fmt: skip
def test_other_values_are_no_time(value: object) -> None:
    assert time_ms_of(value) is None


def test_first_and_last_time_are_times() -> None:
    for text in ("0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00-14:00", "9999-12-31T23:59:59.999-14:00"):
        assert time_ms_of(text) is not None
    assert time_ms_of(253_402_300_799_999) == time_ms_of("9999-12-31T23:59:59.999") == 253_402_300_799_999


def test_integers_of_csv_are_exact() -> None:
    assert different({"n": "123456789012345678"}, {"n": 123456789012345678}, CSV) == []
    assert different({"n": "9007199254740993"}, {"n": 9007199254740992}, CSV) == ["n"]
    assert different({"n": "9" * 5_000}, {"n": "9" * 5_000}, CSV) == []


@pytest.mark.parametrize("of", [TOPIC, PARQUET, CSV])
def test_fields_that_are_nested_too_deeply_are_refused(of: Baseline) -> None:
    """Python's recursion limit would end the whole job for one record."""
    leaves = leaves_of(Comparison(baseline=of), found=set())
    for opened, closed in (('{"a":', "}"), ("[", "]")):
        for levels in (150, 600):
            record = msgspec.json.decode('{"a":' + opened * levels + "1" + closed * levels + "}")
            with pytest.raises(ValueError, match="nested too deeply"):
                leaves(record)
        record = msgspec.json.decode('{"a":' + opened * 90 + "1" + closed * 90 + "}")
        assert different(record, record, of) == []
