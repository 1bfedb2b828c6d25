"""The comparison of a bucket: what each side lacks, repeats or has with other fields, at the window's edges too."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from app.products.audits.comparison import Comparison, TopicBaseline
from app.products.audits.result import IdFinding
from workers.comparison.comparing import (
    MOST_FIELDS,
    OTHER_FIELDS,
    NoIdError,
    Rules,
    SidesReport,
    compare_sides,
    tallies,
)
from workers.comparison.fields import canonical, leaves_of
from workers.comparison.rows import BASELINE, NO_PARTITION, OUTPUT, PADDING, WINDOW, ComparedPieces

Rows = Sequence[tuple[int, dict[str, Any]]]
THERE, HERE = BASELINE | WINDOW, OUTPUT | WINDOW
PADDING_MS = 10
THERE_BESIDE, HERE_BESIDE = BASELINE | PADDING, OUTPUT | PADDING


def report_of(rows: Rows, *, tolerance: float = 0.0, **more: Any) -> SidesReport:
    leaves = leaves_of(Comparison(baseline=TopicBaseline(topic="old")), found=set())
    pieces = ComparedPieces(1)
    for offset, (flags, record) in enumerate(rows):
        number = 1 if flags & OUTPUT else 0
        at_ms = 0 if flags & WINDOW else PADDING_MS - 1
        pieces.add(str(record["id"]).encode(), flags, number, offset, canonical(leaves(record)), None, at_ms=at_ms)
    rules = Rules(tolerance=tolerance, padding_ms=PADDING_MS, examples=20, places=5, **more)
    return compare_sides((piece for _, piece in pieces.drain()), rules)


def found(rows: Rows, **more: Any) -> dict[str, int]:
    return report_of(rows, **more).findings.records


def test_equal_sides_have_no_finding() -> None:
    assert found([(THERE, {"id": 1, "n": 1}), (HERE, {"id": 1, "n": 1.0}), (THERE_BESIDE, {"id": 2})]) == {}


def test_each_finding_is_counted_in_records() -> None:
    rows = [
        (THERE, {"id": "lost"}),
        (HERE, {"id": "only here"}),
        (THERE, {"id": "twice", "n": 1}),
        (HERE, {"id": "twice", "n": 1}),
        (HERE, {"id": "twice", "n": 1}),
        (THERE, {"id": "other", "n": 1, "m": {"x": "a"}}),
        (HERE, {"id": "other", "n": 2, "m": {"x": "b"}}),
        (THERE, {"id": "twice there", "n": 1}),
        (THERE, {"id": "twice there", "n": 1}),
        (HERE, {"id": "twice there", "n": 1}),
    ]
    report = report_of(rows)
    assert report.findings.records == {
        IdFinding.LOST: 1,
        IdFinding.UNEXPECTED: 1,
        IdFinding.DUPLICATED: 1,
        IdFinding.DIFFERENT: 1,
        IdFinding.DUPLICATED_IN_BASELINE: 1,
    }
    assert report.fields == {"n": 1, "m.x": 1}
    (different,) = [one for one in report.examples if one.finding is IdFinding.DIFFERENT]
    assert [(one.field, one.baseline, one.output) for one in different.values] == [
        ("m.x", '"a"', '"b"'),
        ("n", "1", "2"),
    ]
    (lost,) = [one for one in report.examples if one.finding is IdFinding.LOST]
    assert [(one.field, one.baseline, one.output) for one in lost.values] == [("id", '"lost"', None)]


def test_records_of_one_id_are_compared_as_a_multiset() -> None:
    there = [(THERE, {"id": 1, "n": number}) for number in (1, 2, 3)]
    assert found([*there, *((HERE, {"id": 1, "n": number}) for number in (3, 1, 2))]) == {}
    assert found([*there, *((HERE, {"id": 1, "n": number}) for number in (3, 1))]) == {IdFinding.LOST: 1}
    wrong = report_of([*there, *((HERE, {"id": 1, "n": number}) for number in (3, 1, 4))])
    assert (wrong.findings.records, wrong.fields) == ({IdFinding.DIFFERENT: 1}, {"n": 1})
    (example,) = wrong.examples
    assert [(one.baseline, one.output) for one in example.values] == [("2", "4")], "the equal ones are paired first"


def test_counterpart_in_the_padding_is_late_and_not_lost() -> None:
    assert found([(THERE, {"id": 1}), (HERE_BESIDE, {"id": 1})]) == {IdFinding.LATE: 1}
    assert found([(THERE_BESIDE, {"id": 1}), (HERE, {"id": 1})]) == {}, "the window of the baseline reports it"
    assert found([(THERE_BESIDE, {"id": 1})]) == {}
    assert found([(HERE_BESIDE, {"id": 1})]) == {}


def test_neighbouring_windows_report_a_finding_at_their_edge_once() -> None:
    """A record before the edge is repeated behind it."""
    before = [(THERE, {"id": 1}), (HERE, {"id": 1}), (HERE_BESIDE, {"id": 1})]
    behind = [(THERE_BESIDE, {"id": 1}), (HERE_BESIDE, {"id": 1}), (HERE, {"id": 1})]
    assert found(before) == {IdFinding.DUPLICATED: 1}
    assert found(behind) == {}
    assert found([(THERE, {"id": 1, "n": 1}), (HERE_BESIDE, {"id": 1, "n": 2})]) == {
        IdFinding.DIFFERENT: 1,
        IdFinding.LATE: 1,
    }
    assert found([(THERE_BESIDE, {"id": 1, "n": 1}), (HERE, {"id": 1, "n": 2})]) == {}


def test_tolerance_makes_near_numbers_equal() -> None:
    rows = [(THERE, {"id": 1, "n": 1.0}), (HERE, {"id": 1, "n": 1.01})]
    assert found(rows, tolerance=0.1) == {}
    assert found(rows) == {IdFinding.DIFFERENT: 1}


def test_parts_of_a_bucket_have_the_same_findings() -> None:
    rows = [
        row
        for number in range(100)
        for row in ((THERE, {"id": number, "n": 1}), (HERE, {"id": number, "n": number % 3}))
    ]
    whole, parted = report_of(rows), report_of(rows, held_bytes=300)
    assert whole == parted
    assert whole.findings.records == {IdFinding.DIFFERENT: 67}
    assert len(whole.examples) == 20
    assert [one.order for one in whole.examples] == sorted(one.order for one in whole.examples)


@pytest.mark.parametrize("sides", [(OUTPUT,), (BASELINE,), (OUTPUT, BASELINE)])
def test_memory_is_bounded_whichever_side_has_the_records(
    sides: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table or folder has no offsets, so the number of buckets does not follow its size."""
    monkeypatch.setattr("workers.comparison.comparing._SPOOLED_BYTES", 1 << 15)
    records = 4_000

    def rows() -> Iterator[bytes]:
        pieces = ComparedPieces(1)
        for number in range(records):
            for side in sides:
                fields = canonical({"id": number, "side": side, "text": "a" * 200})
                pieces.add(str(number).encode(), side | WINDOW, 0, number, fields, None, at_ms=0)
            if number % 100 == 99:
                yield from (piece for _, piece in pieces.drain())

    def peak_of(**bounds: int) -> int:
        rules = Rules(tolerance=0, padding_ms=0, examples=20, places=5, keeps_last=False, **bounds)
        tracemalloc.start()
        report = compare_sides(rows(), rules)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert sum(report.findings.records.values()) == records
        return peak

    assert peak_of(held_ids=100, held_bytes=1 << 15) < 900_000
    assert peak_of() > 1_500_000, "the control, with bounds that are not reached"


def test_splits_have_the_same_findings() -> None:
    rows = [
        row
        for number in range(200)
        for row in ((THERE, {"id": number, "n": 1}), (HERE, {"id": number, "n": number % 3}))
    ]
    assert report_of(rows) == report_of(rows, held_ids=3)


def test_keys_that_never_repeat_are_counted_together() -> None:
    rows = [(flags, {"id": 1, **{f"f{number}": flags for number in range(300)}}) for flags in (THERE, HERE)]
    fields = report_of(rows).fields
    assert len(fields) == MOST_FIELDS + 1
    assert fields[OTHER_FIELDS] == 100


def test_field_that_is_no_id_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.comparison.comparing.MOST_OF_AN_ID", 3)
    with pytest.raises(NoIdError, match="compare by a field that identifies them"):
        found([(THERE, {"id": "same", "n": number}) for number in range(5)])
    with pytest.raises(NoIdError, match="records of more than 1 MB"):
        found([(THERE, {"id": "same", "text": "a" * 600_000})] * 2, held_bytes=1 << 20)


def test_records_of_files_have_no_place() -> None:
    pieces = ComparedPieces(1)
    pieces.add(b"1", THERE, NO_PARTITION, 0, b'{"id":1}', "file:/old/1.parquet", at_ms=0)
    rules = Rules(tolerance=0, padding_ms=0, examples=20, places=5)
    report = compare_sides((piece for _, piece in pieces.drain()), rules)
    (lost,) = report.examples
    assert (lost.inputs, lost.baseline_file) == ((), "file:/old/1.parquet")
    assert report.findings.partitions == {IdFinding.LOST: {}}


def test_long_keys_are_cut() -> None:
    report = report_of([(THERE, {"id": 1, "k" * 10_000: 1}), (HERE, {"id": 1})])
    assert {len(name) for name in report.fields} == {200}
    assert {len(value.field) for one in report.examples for value in one.values} == {200}


def test_fields_of_all_buckets_are_bounded() -> None:
    counted = tallies(Counter({OTHER_FIELDS: 5} | {f"f{number}": number for number in range(1, 300)}))
    assert len(counted) == MOST_FIELDS + 1
    assert (counted[0].field, counted[0].records) == ("f299", 299)
    assert (counted[-1].field, counted[-1].records) == (OTHER_FIELDS, 5 + sum(range(1, 100)))


def test_tolerance_holds_for_ids_with_many_records() -> None:
    """Not all pairs of such an id are tried."""
    rows = [
        row for number in range(150) for row in ((THERE, {"id": 1, "n": number}), (HERE, {"id": 1, "n": number + 0.01}))
    ]
    assert found(rows, tolerance=0.1) == {}
