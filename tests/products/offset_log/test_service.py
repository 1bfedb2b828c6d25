"""Stored offset events, and the results of checks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from app.core.alerts.alert import AlertKind
from app.core.alerts.store.deliveries import DeliveryStore
from app.core.alerts.store.webhooks import WebhookStore
from app.core.alerts.webhook import Webhook
from app.core.pipelines.pipeline import ProcessingGuarantee
from app.core.runs.run import RunEnd
from app.core.runs.service import retention
from app.core.runs.store.runs import RunStore
from app.products.offset_log import service as offset_log
from app.products.offset_log.record import FINDINGS_KEPT_FOR, KEPT_FOR
from app.products.offset_log.store import OffsetLogStore
from app.products.offset_log.verdict import ContradictionKind, OffsetLogStanding
from tests.support.control_plane import CLUSTER, ControlPlane
from tests.support.offset_tellers import Tasks, assigned, at, committed, given_up, tasks_of


async def test_consecutive_tasks_are_consistent(plane: ControlPlane) -> None:
    tasks = await tasks_of(plane)
    assert (await tasks.verify()).standing is None, "no events, so no status"
    await tasks.handed_over(began=10)
    found = await tasks.verify()
    assert (found.standing, found.figures.records, found.figures.committed) == (OffsetLogStanding.CONSISTENT, 30, 2)
    (one,) = found.partitions
    assert (one.group, one.topic, one.partition, one.attempts) == ("flights-group", "in", 0, 2)


async def test_gap_is_found_with_both_sides(plane: ControlPlane) -> None:
    tasks = await tasks_of(plane)
    await tasks.handed_over(began=15)
    (finding,) = (await tasks.verify()).findings
    assert (finding.kind, finding.start, finding.end) == (ContradictionKind.GAP, 10, 15)
    assert {(side.task, side.event.index) for side in finding.sides} == {(0, 2), (1, 1), (1, 2)}
    assert {side.run_id for side in finding.sides} == {tasks.run.id}


async def test_gap_cannot_be_verified_until_the_other_attempt_reports(plane: ControlPlane) -> None:
    tasks = await tasks_of(plane)
    await tasks.tell(0, assigned(0, 1), at(1, 0), committed(2, 0, 10), given_up(3))
    await tasks.tell(1, assigned(0, 2), at(1, 15))
    tasks.see(0, 1)
    assert (await tasks.verify()).standing is OffsetLogStanding.CANNOT_TELL
    await tasks.tell(0, hears=False)
    assert (await tasks.verify()).standing is OffsetLogStanding.CANNOT_TELL, "recorded before its first answer"
    await tasks.tell(0)
    assert (await tasks.verify()).standing is OffsetLogStanding.CONTRADICTED


async def test_gap_cannot_be_verified_while_an_open_checkpoint_may_have_been_committed(plane: ControlPlane) -> None:
    tasks = await tasks_of(plane)
    await tasks.tell(0, assigned(0, 1), at(1, 0), committed(2, 0, 10))
    await tasks.tell(1, assigned(0, 2), at(1, 15))
    await tasks.tell(0, recorded=3, is_open=True)
    tasks.see(0, 1)
    assert (await tasks.verify()).standing is OffsetLogStanding.CANNOT_TELL
    await tasks.tell(0, recorded=3)
    assert (await tasks.verify()).standing is OffsetLogStanding.CONTRADICTED


@pytest.mark.parametrize(
    ("last_generation", "standing"), [(2, OffsetLogStanding.CANNOT_TELL), (3, OffsetLogStanding.CONTRADICTED)]
)
async def test_gap_cannot_be_verified_while_an_attempt_without_a_report_may_have_been_the_owner(
    plane: ControlPlane, last_generation: int, standing: OffsetLogStanding
) -> None:
    """It had another partition, and did not report again."""
    tasks = await tasks_of(plane)
    await tasks.tell(0, assigned(0, 1), at(1, 0), assigned(2, last_generation), partition=1)
    await tasks.tell(1, assigned(0, 1), at(1, 0), committed(2, 0, 10), given_up(3), assigned(4, 3), at(5, 15))
    tasks.see(0, 1)
    assert (await tasks.verify()).standing is standing
    assert (await tasks.verify(hours=1)).standing is standing
    await tasks.tell(0)
    assert (await tasks.verify()).standing is OffsetLogStanding.CONTRADICTED, "it has reported since"


async def test_attempt_that_died_before_its_first_event_may_have_filled_a_gap(plane: ControlPlane) -> None:
    tasks = await tasks_of(plane)
    await tasks.tell(0)
    await tasks.tell(1, assigned(0, 1), at(1, 0), committed(2, 0, 10), given_up(3), assigned(4, 3), at(5, 15))
    tasks.see(0, 1)
    assert (await tasks.verify()).standing is OffsetLogStanding.CANNOT_TELL


async def test_gap_cannot_be_verified_while_the_coordinators_are_not_read(plane: ControlPlane) -> None:
    tasks = await tasks_of(plane)
    await tasks.handed_over(began=15)
    tasks.observations.forget(CLUSTER)
    found = await tasks.verify()
    assert found.standing is OffsetLogStanding.CANNOT_TELL
    assert "not read" in found.doubts[0]


async def test_dropped_events_are_missing_and_no_contradiction(plane: ControlPlane) -> None:
    tasks = await tasks_of(plane)
    await tasks.tell(0, assigned(0, 1), at(1, 0), committed(2, 0, 10), given_up(4), recorded=5)
    await tasks.tell(1, assigned(0, 2), at(1, 15))
    await tasks.tell(0, is_over=True)
    tasks.see(0, 1)
    assert (await tasks.verify()).standing is OffsetLogStanding.CANNOT_TELL


async def test_grown_event_replaces_an_older_copy_and_not_the_reverse(plane: ControlPlane) -> None:
    tasks = await tasks_of(plane)
    await tasks.tell(0, assigned(0, 1), at(1, 0), committed(2, 0, 10), sequence=1)
    await tasks.tell(0, committed(2, 0, 50, checkpoints=5), recorded=3, sequence=3)
    await tasks.tell(0, committed(2, 0, 20, checkpoints=2), recorded=3, is_open=True, sequence=2)
    tasks.see(0)
    assert (await tasks.verify()).figures.records == 50
    async with plane.uow() as uow:
        (heard,) = await uow.of(OffsetLogStore).heard("flights", since=None)
    assert (len(heard.events), heard.is_open) == (3, False)


async def test_events_from_before_the_hour_fill_its_gap(plane: ControlPlane) -> None:
    """Task 0 had no connection, and reports late the checkpoints from before task 1 was the owner."""
    tasks = await tasks_of(plane)
    await tasks.tell(1, assigned(0, 2), at(1, 10), committed(2, 10, 20), given_up(3), is_over=True)
    plane.pass_time(2 * 3600)
    late = (assigned(0, 1), at(1, 0), committed(2, 0, 10), given_up(3))
    again = (replace(assigned(4, 3), number=3), replace(at(5, 20), number=3), replace(committed(6, 20, 30), number=3))
    await tasks.tell(0, *late, *again)
    await tasks.tell(0)
    tasks.see(0, 1)
    assert (await tasks.verify(hours=1)).standing is OffsetLogStanding.CONSISTENT
    async with plane.uow() as uow:
        assert len(await uow.of(OffsetLogStore).heard("flights", since=plane.now - timedelta(hours=1))) == 1


async def test_run_without_events_is_no_gap(plane: ControlPlane) -> None:
    """The offsets from 10 to 15 were committed by a run as at_least_once."""
    tasks = await tasks_of(plane)
    await tasks.tell(0, assigned(0, 1), at(1, 0), committed(2, 0, 10), given_up(3), is_over=True)
    await start_anew(tasks, processing_guarantee=ProcessingGuarantee.AT_LEAST_ONCE)
    await start_anew(tasks, processing_guarantee=ProcessingGuarantee.EXACTLY_ONCE_V2)
    await tasks.tell(0, assigned(0, 2), at(1, 15), committed(2, 15, 30))
    tasks.see(0)
    found = await tasks.verify()
    assert (found.standing, [one.attempts for one in found.partitions]) == (OffsetLogStanding.CONSISTENT, [2])


@pytest.mark.parametrize(
    ("began", "stands"), [(10, OffsetLogStanding.CONSISTENT), (15, OffsetLogStanding.CONTRADICTED)]
)
async def test_offsets_are_compared_within_one_cluster(
    plane: ControlPlane, began: int, stands: OffsetLogStanding
) -> None:
    """Offsets 100 to 120 are committed in another cluster in between. The first cluster keeps its offsets."""
    tasks = await tasks_of(plane)
    await plane.cluster("second", kafka_cluster_id="another")
    await tasks.tell(0, assigned(0, 1), at(1, 0), committed(2, 0, 10), given_up(3), is_over=True)
    await start_anew(tasks, cluster="second")
    await tasks.tell(0, assigned(0, 1), at(1, 100), committed(2, 100, 120), given_up(3), is_over=True)
    await start_anew(tasks, cluster=CLUSTER)
    await tasks.tell(0, assigned(0, 2), at(1, began), committed(2, began, 30))
    tasks.see(0)
    found = await tasks.verify()
    assert (found.standing, [one.attempts for one in found.partitions]) == (stands, [3])


async def start_anew(tasks: Tasks, **change: Any) -> None:
    """End the run, and start the pipeline with this changed."""
    plane = tasks.plane
    async with plane.uow() as uow:
        await uow.of(RunStore).end(tasks.run.id, end=RunEnd.STOPPED, reason="x", now=plane.now)
        await uow.commit()
    plane.pass_time(60)
    await plane.revise("flights", **change)
    tasks.run = await plane.run("flights")


async def test_contradiction_is_kept_and_reported_once(plane: ControlPlane) -> None:
    tasks = await tasks_of(plane)
    async with plane.uow() as uow:
        await uow.of(WebhookStore).add(
            Webhook(
                name="pager",
                url="https://hooks.example.com/x",
                secrets=("env:FENCELINE_SECRET_X",),
                kinds=(AlertKind.OFFSETS_CONTRADICTED,),
                created_at=plane.now,
                created_by="anna",
            )
        )
        await uow.commit()
    await tasks.handed_over(began=15)
    assert (await tasks.check(), await tasks.check()) == (1, 0)
    async with plane.uow() as uow:
        known = await offset_log.look(uow, pipeline="flights")
        (alert,) = (await uow.of(DeliveryStore).list("pager", after=None, limit=9)).items
        assert await uow.of(OffsetLogStore).contradicted(since=plane.now - timedelta(days=1)) == {"flights": 1}
    assert known.last is not None
    assert (known.last.standing, known.last.partitions) == (
        OffsetLogStanding.CONTRADICTED,
        {OffsetLogStanding.CONTRADICTED: 1},
    )
    assert [record.finding.message for record in known.findings] == [
        "offsets 10 to 14 were not committed, but later ones were"
    ]
    assert alert.type == "offsets_contradicted.happened"
    assert "in-0" in alert.sentence


async def test_old_and_excess_events_are_deleted_and_count_as_missing(plane: ControlPlane) -> None:
    tasks = await tasks_of(plane)
    await tasks.handed_over(began=15)
    await tasks.check()
    await tasks.tell(0, at(30_000, 10), partition=7)
    await tasks.tell(0, at(5, 10), recorded=30_001, partition=7)
    async with plane.uow() as uow:
        removed = await retention.expire(uow, now=plane.now)
        await uow.commit()
    assert removed["offset_events"] == 1, "the event far before the newest"
    async with plane.uow() as uow:
        removed = await retention.expire(uow, now=plane.now + KEPT_FOR + timedelta(minutes=1))
        assert (removed["offset_tellers"], removed["offset_contradictions"]) == (2, 0)
        assert await uow.of(OffsetLogStore).heard("flights", since=None) == []
        removed = await retention.expire(uow, now=plane.now + FINDINGS_KEPT_FOR + timedelta(minutes=1))
        assert removed["offset_contradictions"] == 1
