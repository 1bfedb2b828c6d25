"""Comparisons without Spark on a real broker, and outputs of two systems with planted differences."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from app.products.audits.comparison import Baseline, Comparison, TopicBaseline
from app.products.audits.result import AuditResult, FieldTally, FindingTally
from app.products.audits.specification import AuditSpecification, TimeWindow
from tests.support.audits import VERSIONS, a_specification
from workers.audit.brokers import ClusterBrokers
from workers.audit.collecting import SplitReport
from workers.audit.reading import committed_records, reader
from workers.audit.resolving import resolve
from workers.audit.splits import splits_of
from workers.comparison.collecting import BaselineCollector, TopicCollector
from workers.comparison.comparing import compare_sides
from workers.comparison.judging import judge_sides, rules_of

BEGIN_MS = int(time.time()) * 1_000 - 3_600_000
"""An hour ago: brokers delete older records than their retention."""
WINDOW = TimeWindow(start_ms=BEGIN_MS, end_ms=BEGIN_MS + 200_000)
Record = dict[str, Any]


def a_comparison(sink: str, baseline: Baseline, **changes: Any) -> AuditSpecification:
    """Of the planted records: by the field `id`, with the time in the field `at`, which is not compared."""
    rules = {"time_field": "at", "baseline_time_field": "at", "ignored_fields": ("at",)}
    comparison = Comparison(baseline=baseline, **(rules | changes.pop("rules", {})))
    source = (baseline.topic,) if isinstance(baseline, TopicBaseline) else ()
    defaults: dict[str, Any] = {"window": WINDOW, "padding_ms": 0, "source_topics": source, "comparison": comparison}
    return a_specification("", sink, **{**defaults, **changes})


def planted() -> tuple[list[Record], list[Record]]:
    """The records of the baseline and of the output, with each kind of difference."""
    there = records()
    here = [dict(record) for record in there if record["id"] not in (3, 4)]
    by_id = {record["id"]: record for record in here}
    here.append(dict(by_id[7]))
    here += [{**by_id[8], "id": 1_000}, {**by_id[9], "id": 1_001}]
    by_id[11]["n"] += 1
    by_id[12]["name"] = "other"
    by_id[13] |= {"n": -1, "name": "other"}
    there.append(dict(there[20]))
    return sorted(there, key=_time), sorted(here, key=_time)


def records() -> list[Record]:
    """One record a second from BEGIN_MS on, 200 of them in the window."""
    return [
        {"id": number, "n": number / 4, "name": _name(number), "at": BEGIN_MS + 1_000 * number} for number in range(300)
    ]


def _name(number: int) -> str:
    """Return a name; one has all that CSV quotes."""
    return 'a "b", \\ and\nc' if number == 30 else f"name {number}"


def _time(record: Record) -> int:
    return record["at"]


def assert_planted(result: AuditResult) -> None:
    """Every planted difference is found, and nothing else."""
    counts = result.counts
    assert counts.lost == FindingTally(ids=2, records=2)
    assert counts.duplicated == FindingTally(ids=1, records=1)
    assert counts.unexpected == FindingTally(ids=2, records=2)
    assert counts.different == FindingTally(ids=3, records=3)
    assert counts.duplicated_in_baseline == FindingTally(ids=1, records=1)
    assert counts.late == FindingTally()
    assert (counts.expected, counts.outputs) == (201, 201)
    assert (counts.unreadable_input, counts.unreadable_output) == (0, 0)
    assert set(result.fields) == {FieldTally(field="n", records=2), FieldTally(field="name", records=2)}


def compare_here(
    specification: AuditSpecification, bootstrap_servers: str, found: Iterable[Record] | None = None
) -> AuditResult:
    """found: the records of a baseline that is no topic."""
    config = {"bootstrap.servers": bootstrap_servers}
    plan = resolve(specification, ClusterBrokers(config, audit_id=specification.audit_id))
    buckets = 3
    pieces: defaultdict[int, list[bytes]] = defaultdict(list)
    reports: list[SplitReport] = []
    for split in splits_of(plan, offsets_per_task=specification.bounds.offsets_per_task):
        collector = TopicCollector(specification, split, buckets=buckets)
        with reader(config, audit_id=specification.audit_id) as consumer:
            batches = committed_records(consumer, split, stall_s=10, deleted=collector.deleted)
            for bucket, piece in collector.keyed(batches):
                pieces[bucket].append(piece)
        reports.append(collector.report)
    if found is not None:
        other = BaselineCollector(specification, buckets=buckets)
        for bucket, piece in other.keyed((record, None) for record in found):
            pieces[bucket].append(piece)
        reports.append(other.report)
    return judge_sides(
        specification,
        plan,
        reports,
        [compare_sides(several, rules_of(specification)) for several in pieces.values()],
        started_at_ms=0,
        duration_ms=lambda: 0,
        versions=VERSIONS,
    )
