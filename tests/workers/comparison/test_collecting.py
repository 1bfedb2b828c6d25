"""Records that cannot be compared are counted as unreadable and do not end the job."""

from __future__ import annotations

import msgspec
import pytest

from app.products.audits.comparison import FileFormat, FilesBaseline
from app.products.audits.specification import JsonField
from tests.support.comparisons import BEGIN_MS, a_comparison
from workers.comparison.collecting import BaselineCollector


@pytest.mark.parametrize("at", [float("nan"), float("inf"), float("-inf"), 1e30, 10**400, "NaN", "9" * 400])
def test_record_with_an_impossible_time_is_unreadable(at: object) -> None:
    baseline = FilesBaseline(format=FileFormat.AVRO, location="file:///old")
    collector = BaselineCollector(a_comparison("sink", baseline, id=JsonField(path="id")), buckets=1)
    assert list(collector.keyed([({"id": 1, "at": at}, None)])) == []
    assert (collector.report.window_records, collector.report.unreadable) == (1, 1)


def test_record_that_is_nested_too_deeply_is_unreadable() -> None:
    baseline = FilesBaseline(format=FileFormat.AVRO, location="file:///old")
    specification = a_comparison("sink", baseline, id=JsonField(path="id"))
    deep = msgspec.json.decode("[" * 600 + "]" * 600)
    records = [{"id": number, "at": BEGIN_MS, "n": deep if number == 1 else number} for number in range(3)]
    collector = BaselineCollector(specification, buckets=1)
    assert len(list(collector.keyed((record, None) for record in records))) == 1
    report = collector.report
    assert (report.records, report.window_records, report.unreadable) == (3, 3, 1)
