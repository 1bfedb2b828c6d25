"""Audits in every state and with every verdict, as rows: the address of the page that shows each."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from msgspec.structs import replace

from app.products.audits.audit import Audit, AuditProgress, AuditState
from app.products.audits.comparison import Comparison, FileFormat, FilesBaseline, Recomputation, baseline_words
from app.products.audits.plan import time_window
from app.products.audits.result import (
    AuditCounts,
    AuditResult,
    AuditSide,
    EventTimes,
    Example,
    FieldTally,
    FieldValues,
    FindingTally,
    Gap,
    GapReason,
    IdFinding,
    PartitionTally,
    RangeRead,
    RecordPlace,
)
from app.products.audits.specification import JsonField, RecordKey
from app.products.audits.store import AuditPlanStore, AuditStore
from tests.support.audit_samples import COMPARED, HOUR, NOON, audit, broken_result, compared_result, plan, result
from tests.support.control_plane import CLUSTER, ControlPlane
from tests.support.longest_names import LONG_ID, LONG_TOKEN_NAME, LONG_TOPIC, long_pipeline

WITH_HISTORY = "audited"
COMPARED_ONE = "compared"
LONGEST = long_pipeline("audited-")


async def add_audits(plane: ControlPlane) -> Mapping[str, str]:
    """A pipeline without an audit, one for each state of a living audit, and one with a plan and a history."""
    await plane.pipeline("unaudited")
    found = {"no audit yet": "/pipelines/unaudited/audits"}
    for living in _living():
        await plane.pipeline(living.pipeline)
        address = await _add(plane, living)
        found[f"{living.state} audit" + ("" if living.progress is None else " with progress")] = address
        found[f"audits, one {living.state}"] = f"/pipelines/{living.pipeline}/audits"
    await plane.pipeline(WITH_HISTORY)
    for hours, (what, ended) in enumerate(_ended().items()):
        begin = NOON - (hours + 1) * HOUR
        made = replace(ended, window=time_window(begin, begin + HOUR), asked_at=begin + HOUR, ended_at=begin + HOUR)
        found[what] = await _add(plane, made)
    found["audit, broken, with ids"] = found["audit, broken"] + "?ids=true"
    await plane.pipeline(COMPARED_ONE)
    for hours, (what, ended) in enumerate(_compared().items()):
        begin = NOON - (hours + 1) * HOUR
        made = replace(ended, window=time_window(begin, begin + HOUR), asked_at=begin + HOUR, ended_at=begin + HOUR)
        found[what] = await _add(plane, made)
    for what in ("comparison, broken", "recomputation, broken"):
        found[f"{what}, with values"] = found[what] + "?ids=true"
    found |= {
        "comparisons with a plan": f"/pipelines/{COMPARED_ONE}/audits",
        "form of a comparison": f"/pipelines/{COMPARED_ONE}/audits/compare",
        "form of a first comparison": "/pipelines/unaudited/audits/compare",
    }
    async with plane.uow() as uow:
        await uow.of(AuditPlanStore).save(plan(pipeline=WITH_HISTORY, shown_until=NOON - HOUR))
        await uow.of(AuditPlanStore).save(plan(pipeline=COMPARED_ONE, comparison=COMPARED, shown_until=NOON - HOUR))
        await uow.commit()
    found["audits with a plan and a chart"] = f"/pipelines/{WITH_HISTORY}/audits"
    await plane.pipeline(LONGEST, source_topics=(LONG_TOPIC,))
    longest = await _add(plane, _longest())
    found |= {"audit, long names": f"{longest}?ids=true", "audits, long names": f"/pipelines/{LONGEST}/audits"}
    return found


async def _add(plane: ControlPlane, made: Audit) -> str:
    async with plane.uow() as uow:
        added = await uow.of(AuditStore).add(made)
        if made.progress is not None:
            await uow.of(AuditStore).save_progress(added.id, made.progress)
        await uow.commit()
    return f"/audits/{added.id}"


def _living() -> list[Audit]:
    reason = "flights has committed up to 11:42 of the window in in-1, which ends at 12:00"
    progress = AuditProgress(stage="reading", tasks_done=3, tasks=8, offsets=1_234_567, heard_at=NOON)
    return [
        audit(AuditState.PENDING, pipeline="audit-waits", reason=reason),
        audit(AuditState.SUBMITTING, pipeline="audit-begins"),
        audit(AuditState.RUNNING, pipeline="audit-runs", progress=progress),
        audit(AuditState.STOPPING, pipeline="audit-stops", reason="anna stopped it: enough"),
    ]


def _ended() -> dict[str, Audit]:
    gap = Gap(
        side=AuditSide.SOURCE,
        topic="in",
        partition=0,
        reason=GapReason.DELETED,
        start=0,
        end=9,
        sentence="in-0 begins at offset 9: what the window had before it was deleted.",
    )
    behind = Gap(
        side=AuditSide.SINK,
        topic="out",
        partition=1,
        reason=GapReason.OPEN_TRANSACTION,
        sentence="out-1 ends for readers at offset 41, before a transaction that is open since 10:58.",
    )
    unproven = AuditCounts(
        inputs=9_812,
        expected=9_812,
        outputs=9_798,
        missing=FindingTally(ids=14, records=14),
        unexplained=FindingTally(ids=2, records=2),
    )
    failed = "the job's driver ended with exit code 1: OutOfMemoryError: Java heap space"

    def of(state: AuditState, **fields: object) -> Audit:
        return audit(state, pipeline=WITH_HISTORY, is_scheduled=True, asked_by="auditor", **fields)

    return {
        "audit, clean": of(AuditState.DONE, result=_clean()),
        "audit, broken": of(AuditState.DONE, result=broken_result()),
        "audit, not shown": of(AuditState.DONE, result=result(counts=unproven, gaps=(gap, behind))),
        "audit, empty": of(AuditState.DONE, result=result(counts=AuditCounts())),
        "audit, failed": of(AuditState.FAILED, reason=failed),
        "audit, stopped": of(AuditState.STOPPED, reason="anna stopped it: enough"),
        "audit, skipped": of(AuditState.SKIPPED, reason="audited had not passed the window by 11:35"),
    }


def _compared() -> dict[str, Audit]:
    def of(found: AuditResult, comparison: Comparison = COMPARED) -> Audit:
        return audit(AuditState.DONE, pipeline=COMPARED_ONE, comparison=comparison, result=found)

    files = FilesBaseline(format=FileFormat.PARQUET, location="s3://warehouse/payments/hourly")
    of_file = Example(
        finding=IdFinding.LOST,
        id="order-7",
        topic="out",
        expected=1,
        found=0,
        values=(FieldValues(field="total", baseline="12.5", output=None),),
        baseline_file="s3a://warehouse/payments/hourly/day=2026-11-21/hour=11/part-00000-of-00004.parquet",
    )
    lost = AuditCounts(inputs=9_812, expected=9_812, outputs=9_811, lost=FindingTally(ids=1, records=1))
    clean = AuditCounts(inputs=9_812, expected=9_812, outputs=9_812, late=FindingTally(ids=3, records=3))
    return {
        "comparison, broken": of(compared_result()),
        "comparison with files, broken": of(
            result(counts=lost, examples=(of_file,), baseline=baseline_words(files)),
            Comparison(baseline=files, baseline_time_field="at"),
        ),
        "comparison, clean": of(result(counts=clean, baseline="the topic old-payments")),
        "recomputation, broken": _recomputed(),
    }


def _recomputed() -> Audit:
    def values(n: str | None, other: str | None) -> tuple[FieldValues, ...]:
        return (FieldValues(field="flights", baseline=n, output=other),)

    place = RecordPlace(topic="delay-per-carrier", partition=0, offset=4_711)
    examples = (
        Example(finding=IdFinding.LOST, id="AA", topic="out", expected=3, found=2, values=values("12", None)),
        Example(
            finding=IdFinding.DIFFERENT,
            id="DL",
            topic="out",
            expected=3,
            found=3,
            outputs=(place,),
            values=values("31", "30"),
        ),
    )
    one = FindingTally(ids=1, records=1)
    counts = AuditCounts(inputs=486, expected=486, outputs=485, lost=one, different=one, not_comparable=48)
    recomputation = Comparison(baseline=Recomputation(), time_field="hour")
    found = result(
        counts=counts,
        examples=examples,
        fields=(FieldTally(field="flights", records=1),),
        baseline=baseline_words(recomputation.baseline),
        compared=EventTimes(start_ms=1_357_041_600_001, end_ms=1_357_102_800_001),
    )
    return audit(AuditState.DONE, pipeline=COMPARED_ONE, comparison=recomputation, id_place=RecordKey(), result=found)


def _clean() -> AuditResult:
    ranges = tuple(
        RangeRead(
            side=side, topic=topic, partition=one, read_start=1_000, start=1_204, end=98_211, read_end=99_002, records=9
        )
        for side, topic in ((AuditSide.SOURCE, "in"), (AuditSide.SINK, "out"))
        for one in range(3)
    )
    counts = AuditCounts(inputs=291_021, expected=280_400, outputs=280_400, dropped=10_621)
    return result(counts=counts, ranges=ranges)


def _longest() -> Audit:
    def place(offset: int) -> RecordPlace:
        return RecordPlace(topic=LONG_TOPIC, partition=11, offset=offset)

    places = tuple(place(9_000_000_000 + offset) for offset in range(5))
    found = result(
        counts=AuditCounts(
            inputs=12_345_678_901,
            expected=12_345_678_901,
            outputs=12_345_678_999,
            duplicated=FindingTally(ids=98_765_432, records=98_765_432),
            unexpected=FindingTally(ids=1, records=1),
        ),
        examples=(
            Example(
                finding=IdFinding.DUPLICATED,
                id=LONG_ID,
                topic=LONG_TOPIC,
                expected=1,
                found=5,
                inputs=places[:1],
                outputs=places,
            ),
            Example(finding=IdFinding.UNEXPECTED, id=None, topic=LONG_TOPIC, expected=0, found=1, outputs=places[:1]),
        ),
        partitions=(
            PartitionTally(
                side=AuditSide.SINK, topic=LONG_TOPIC, partition=11, finding=IdFinding.DUPLICATED, records=98_765_432
            ),
        ),
        ranges=(
            RangeRead(
                side=AuditSide.SOURCE,
                topic=LONG_TOPIC,
                partition=11,
                read_start=9_000_000_000,
                start=9_000_000_001,
                end=9_100_000_000,
                read_end=9_100_000_100,
                records=100_000_000,
            ),
        ),
    )
    return audit(
        AuditState.DONE,
        pipeline=LONGEST,
        cluster=CLUSTER,
        asked_by=LONG_TOKEN_NAME,
        id_place=JsonField(path=".".join(["envelope", "payload", "order", "line", "identifier"] * 3)),
        source_id_place=JsonField(path="id"),
        result=found,
        ended_at=NOON + timedelta(minutes=12),
    )
