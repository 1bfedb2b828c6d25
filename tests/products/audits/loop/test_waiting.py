"""An audit waits with a reason until its pipeline has passed the window; a pipeline has one at a time."""

from __future__ import annotations

import pytest

from app.core.journals.record_batch import MarkerType
from app.kit.errors import ConflictError
from app.products.audits.audit import AuditState
from app.products.audits.specification import OffsetRange, OffsetWindow
from tests.support.auditing import Audited


async def test_audit_waits_for_the_pipeline_with_a_reason(audited: Audited) -> None:
    asked = await audited.ask(tolerance_s=600)
    audited.brokers.log.plain(records=20)
    audited.brokers.committed = 7
    await audited.turn()
    waiting = await audited.look(asked.id)
    assert (waiting.state, waiting.reason) == (
        AuditState.PENDING,
        "the pipeline has not committed the whole window: in-0 (3 offsets) remain",
    )
    audited.plane.pass_time(60)
    audited.brokers.committed = 10
    await audited.turn()
    assert len(audited.spark.submitted) == 1


async def test_audit_does_not_wait_for_markers_and_aborted_records_at_the_end(audited: Audited) -> None:
    """A group never commits past a last marker, so an audit of transactional input would wait for ever."""
    await audited.ask()
    log = audited.brokers.log
    log.data(1, records=6)
    log.mark(1, MarkerType.COMMIT)
    log.data(2, records=2)
    log.mark(2, MarkerType.ABORT)
    audited.brokers.committed = 6
    await audited.turn()
    assert len(audited.spark.submitted) == 1


async def test_audit_is_skipped_if_the_pipeline_stays_behind(audited: Audited) -> None:
    asked = await audited.ask(tolerance_s=600)
    audited.brokers.committed = None
    await audited.turn()
    audited.plane.pass_time(600)
    await audited.turn()
    skipped = await audited.look(asked.id)
    assert skipped.state is AuditState.SKIPPED
    assert skipped.reason == "the pipeline has not committed the whole window: in-0 (no offset) remain"
    assert audited.spark.submitted == []


def of_offsets(end: int, *, partition: int = 0) -> OffsetWindow:
    return OffsetWindow(ranges=(OffsetRange(topic="in", partition=partition, start=0, end=end),))


@pytest.mark.parametrize(
    ("window", "reason"),
    [
        (of_offsets(21), "in-0 ends at offset 20, before the window (21): audit a smaller window"),
        (of_offsets(5, partition=1), "the pipeline does not read a partition in-1"),
    ],
    ids=["after the end", "no partition"],
)
async def test_audit_does_not_wait_for_offsets_after_the_end(
    audited: Audited, window: OffsetWindow, reason: str
) -> None:
    asked = await audited.ask(window, tolerance_s=600)
    await audited.turn()
    skipped = await audited.look(asked.id)
    assert (skipped.state, skipped.reason) == (AuditState.SKIPPED, reason)


async def test_audit_waits_for_offsets_up_to_the_end(audited: Audited) -> None:
    asked = await audited.ask(of_offsets(20))
    audited.brokers.log.plain(records=20)
    await audited.turn()
    assert (await audited.look(asked.id)).state is AuditState.PENDING
    audited.brokers.committed = 20
    await audited.turn()
    assert len(audited.spark.submitted) == 1


async def test_audit_waits_while_brokers_do_not_answer(audited: Audited) -> None:
    asked = await audited.ask()
    audited.brokers.is_away = True
    await audited.turn()
    waiting = await audited.look(asked.id)
    assert waiting.state is AuditState.PENDING
    assert "no Kafka broker answers at kafka:9092" in (waiting.reason or "")


async def test_pipeline_has_one_audit_at_a_time(audited: Audited) -> None:
    asked = await audited.ask()
    with pytest.raises(ConflictError, match=f"audit {asked.id} of flights, requested by anna, is pending"):
        await audited.ask()
