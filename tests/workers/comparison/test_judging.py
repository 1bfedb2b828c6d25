"""The result of a comparison: a field that no record has is no equality."""

from __future__ import annotations

import pytest

from app.products.audits.comparison import FileFormat, FilesBaseline
from app.products.audits.result import AuditResult, AuditVerdict, GapReason, verdict
from app.products.audits.specification import JsonField
from tests.support.audits import VERSIONS
from tests.support.comparisons import BEGIN_MS, a_comparison
from workers.audit.splits import SplitPlan
from workers.comparison.collecting import BaselineCollector
from workers.comparison.judging import judge_sides


def judged(records: list[dict[str, object]], *fields: str) -> AuditResult:
    baseline = FilesBaseline(format=FileFormat.AVRO, location="file:///old")
    rules = {"fields": fields}
    specification = a_comparison("sink", baseline, id=JsonField(path="id"), rules=rules)
    collector = BaselineCollector(specification, buckets=1)
    for _ in collector.keyed((record, None) for record in records):
        pass
    return judge_sides(
        specification,
        SplitPlan(ranges=()),
        [collector.report],
        [],
        started_at_ms=0,
        duration_ms=lambda: 0,
        versions=VERSIONS,
    )


RECORD: dict[str, object] = {"id": 1, "at": BEGIN_MS, "order": {"total": 5, "note": None}}


@pytest.mark.parametrize("field", ["order", "order.total", "order.note", "id"])
def test_field_of_a_record_is_compared(field: str) -> None:
    assert verdict(judged([RECORD], field)) is AuditVerdict.CLEAN


@pytest.mark.parametrize("field", ["totl", "order.totl", "at"])
def test_field_that_no_record_has_shows_nothing(field: str) -> None:
    """Without it all records with the same id would be equal; `at` is ignored."""
    result = judged([RECORD], "order", field)
    assert verdict(result) is AuditVerdict.NOT_SHOWN
    assert [(gap.reason, field in gap.sentence) for gap in result.gaps] == [(GapReason.NO_FIELD, True)]
    assert verdict(judged([], field)) is AuditVerdict.EMPTY
