"""Audits, plans and results that are a line to make."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from app.products.audits.audit import Audit, AuditState
from app.products.audits.comparison import Comparison, TopicBaseline
from app.products.audits.plan import AuditPlan, time_window
from app.products.audits.result import (
    AuditCounts,
    AuditResult,
    AuditSide,
    AuditVersions,
    Example,
    FieldTally,
    FieldValues,
    FindingTally,
    IdFinding,
    PartitionTally,
    RangeRead,
    RecordPlace,
)
from app.products.audits.specification import JsonField

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
BY_ID = JsonField(path="order.id")


def audit(state: AuditState = AuditState.PENDING, **fields: Any) -> Audit:
    """An audit of the hour before noon, that entered its state at noon."""
    defaults: dict[str, Any] = {
        "id": "11111111-1111-1111-1111-111111111111",
        "pipeline": "flights",
        "cluster": "test",
        "revision": 1,
        "since": NOON,
        "asked_at": NOON,
        "asked_by": "anna",
        "is_scheduled": False,
        "window": time_window(NOON - HOUR, NOON),
        "id_place": BY_ID,
        "source_id_place": None,
        "padding_s": 300,
        "wait_until": NOON + HOUR,
    }
    return Audit(state=state, **{**defaults, **fields})


def plan(**fields: Any) -> AuditPlan:
    """An hourly plan that has decided everything until noon."""
    defaults: dict[str, Any] = {
        "pipeline": "flights",
        "id_place": BY_ID,
        "every_s": 3600,
        "decided_until": NOON,
        "changed_at": NOON,
        "changed_by": "anna",
    }
    return AuditPlan(**{**defaults, **fields})


def result(audit_id: str = "11111111-1111-1111-1111-111111111111", **fields: Any) -> AuditResult:
    """The result of an audit; without `counts`, every output exists once."""
    defaults: dict[str, Any] = {
        "counts": AuditCounts(inputs=10, expected=8, outputs=8, dropped=2),
        "started_at_ms": 1_000,
        "duration_ms": 12_345,
        "versions": AuditVersions(fenceline="1", python="3.11", spark="4.2.0", confluent_kafka="2.16.1"),
    }
    return AuditResult(audit_id=audit_id, **{**defaults, **fields})


def broken_result(audit_id: str = "11111111-1111-1111-1111-111111111111") -> AuditResult:
    """Two outputs of one id lost, another one there twice."""
    lost = Example(
        finding=IdFinding.LOST,
        id="order-7",
        topic="out",
        expected=2,
        found=0,
        inputs=(RecordPlace(topic="in", partition=1, offset=41, timestamp_ms=1_000),),
    )
    twice = Example(
        finding=IdFinding.DUPLICATED,
        id="order-9",
        topic="out",
        expected=1,
        found=2,
        inputs=(RecordPlace(topic="in", partition=0, offset=5),),
        outputs=(RecordPlace(topic="out", partition=2, offset=17), RecordPlace(topic="out", partition=2, offset=30)),
    )
    return result(
        audit_id,
        counts=AuditCounts(
            inputs=10,
            dropped=2,
            expected=9,
            outputs=8,
            lost=FindingTally(ids=1, records=2),
            duplicated=FindingTally(ids=1, records=1),
            late=FindingTally(ids=1, records=1),
        ),
        examples=(lost, twice),
        partitions=(
            PartitionTally(side=AuditSide.SOURCE, topic="in", partition=1, finding=IdFinding.LOST, records=2),
            PartitionTally(side=AuditSide.SINK, topic="out", partition=2, finding=IdFinding.DUPLICATED, records=1),
            PartitionTally(side=AuditSide.SINK, topic="out", partition=0, finding=IdFinding.LATE, records=1),
        ),
        ranges=(
            RangeRead(
                side=AuditSide.SOURCE, topic="in", partition=1, read_start=0, start=10, end=60, read_end=70, records=50
            ),
        ),
    )


COMPARED = Comparison(baseline=TopicBaseline(topic="old-payments"), ignored_fields=("written_at",))


def compared_result(audit_id: str = "11111111-1111-1111-1111-111111111111") -> AuditResult:
    """One output lost, one different in two fields, and a record that the baseline repeats."""

    def at(topic: str, offset: int) -> tuple[RecordPlace, ...]:
        return (RecordPlace(topic=topic, partition=0, offset=offset),)

    lost = Example(
        finding=IdFinding.LOST,
        id="order-7",
        topic="out",
        expected=1,
        found=0,
        inputs=at("old-payments", 41),
        values=(FieldValues(field="total", baseline="12.5", output=None),),
    )
    different = Example(
        finding=IdFinding.DIFFERENT,
        id="order-9",
        topic="out",
        expected=1,
        found=1,
        inputs=at("old-payments", 52),
        outputs=at("out", 17),
        values=(
            FieldValues(field="customer.name", baseline='"Ada"', output='"Ada Lovelace"'),
            FieldValues(field="total", baseline="12.5", output="12.50001"),
        ),
    )
    return result(
        audit_id,
        counts=AuditCounts(
            inputs=10,
            expected=10,
            outputs=8,
            lost=FindingTally(ids=1, records=1),
            different=FindingTally(ids=1, records=1),
            duplicated_in_baseline=FindingTally(ids=1, records=1),
        ),
        examples=(lost, different),
        partitions=(
            PartitionTally(side=AuditSide.SOURCE, topic="old-payments", partition=0, finding=IdFinding.LOST, records=1),
        ),
        baseline="the topic old-payments",
        fields=(FieldTally(field="total", records=1), FieldTally(field="customer.name", records=1)),
    )


def dangling_result(audit_id: str = "11111111-1111-1111-1111-111111111111") -> AuditResult:
    """The result for files: 4 records are in two of them, and a missing one has the other 4."""
    reference = RecordPlace(
        topic="out", partition=0, offset=12, timestamp_ms=1_000, file="flights/carrier=UA/00ff.avro"
    )
    return result(
        audit_id,
        counts=AuditCounts(
            inputs=8,
            expected=8,
            outputs=4,
            files=2,
            lost=FindingTally(ids=4, records=4),
            dangling=FindingTally(ids=1, records=4),
        ),
        examples=(
            Example(
                finding=IdFinding.LOST,
                id="order-7",
                topic="out",
                expected=1,
                found=0,
                inputs=(RecordPlace(topic="in", partition=1, offset=41, timestamp_ms=1_000),),
            ),
            Example(
                finding=IdFinding.DANGLING,
                id=None,
                topic="out",
                expected=4,
                found=0,
                outputs=(reference,),
                why="is not there",
            ),
        ),
        partitions=(
            PartitionTally(side=AuditSide.SOURCE, topic="in", partition=1, finding=IdFinding.LOST, records=4),
            PartitionTally(side=AuditSide.SINK, topic="out", partition=0, finding=IdFinding.DANGLING, records=4),
        ),
        ranges=(RangeRead(side=AuditSide.SINK, topic="out", partition=0, read_start=0, start=10, end=13, read_end=14),),
    )
