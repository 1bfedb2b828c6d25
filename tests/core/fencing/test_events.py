"""Fencing events in Postgres: one row for each loss, corrected in place, for any number of reports."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import msgspec
import pytest
import sqlalchemy as sa

from app.core.access.service import command_log
from app.core.fencing.evidence import CommandWord
from app.core.fencing.fencing_event import Case, Confidence, FencingCause, FencingKey, FencingKind
from app.core.fencing.record import KEPT_FOR, FencingFilter, FencingRecord, GroupLosses
from app.core.fencing.service import events as fencing_events
from app.core.fencing.store import FencingStore
from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.runs.service import retention
from app.kit.access import Principal, Role, Verb
from app.kit.errors import InvalidError, NotFoundError
from tests.core.fencing.coordinator import CLUSTER, ID, Client, Coordinator
from tests.support import fencing
from tests.support.control_plane import ControlPlane, task_heartbeat
from tests.support.fencing import RUN_ID, cases_from, coordinator_at

EVERYTHING = FencingFilter(with_what_is_none=True)


def cases(coordinator: Coordinator, *, cluster: str = CLUSTER) -> list[Case]:
    return cases_from(coordinator, cluster)


def refusal(producer: tuple[int, int], *, at: datetime, run_id: str = RUN_ID) -> Case:
    return fencing.refusal(CLUSTER, producer, at=at, run_id=run_id)


async def tell(plane: ControlPlane, *told: Case) -> int:
    async with plane.uow() as uow:
        changed = await fencing_events.record_cases(uow, told, now=plane.now)
        await uow.commit()
    return len(changed)


async def kept(plane: ControlPlane, wanted: FencingFilter = EVERYTHING) -> list[FencingRecord]:
    async with plane.uow() as uow:
        return list((await fencing_events.list_events(uow, wanted, limit=500)).items)


async def test_event_is_stored_with_its_evidence(plane: ControlPlane) -> None:
    coordinator = coordinator_at(plane.now)
    coordinator.begin()
    coordinator.init(after_ms=300)
    assert await tell(plane, *cases(coordinator)) == 1
    (record,) = await kept(plane)
    assert record.event.verdict.cause is FencingCause.TAKEOVER
    assert record.event.evidence == cases(coordinator)[0].evidence
    assert record.place.partitions == ("delayed-0", "delayed-1")
    assert record.corrections == ()
    async with plane.uow() as uow:
        assert await fencing_events.get_event(uow, record.id) == record


async def test_same_evidence_again_changes_nothing(plane: ControlPlane) -> None:
    coordinator = coordinator_at(plane.now)
    coordinator.begin()
    coordinator.init(after_ms=300)
    await tell(plane, *cases(coordinator))
    (before,) = await kept(plane)
    plane.pass_time(10)
    assert await tell(plane, *cases(coordinator)) == 0
    assert await kept(plane) == [before]


async def test_event_of_a_newer_release_is_shown_and_never_changed(plane: ControlPlane) -> None:
    """As while servers of two releases run: the newer one has new values."""
    coordinator = coordinator_at(plane.now)
    coordinator.begin()
    coordinator.init(after_ms=300)
    await tell(plane, *cases(coordinator))
    async with plane.uow() as uow:
        for statement in (
            "ALTER TABLE fencing_events DROP CONSTRAINT ck_fencing_events_cause",
            "ALTER TABLE fencing_counts DROP CONSTRAINT IF EXISTS ck_fencing_counts_cause",
            "UPDATE fencing_events SET cause = 'by_magic', verdict = verdict || '{\"cause\": \"by_magic\"}'",
            "UPDATE fencing_counts SET cause = 'by_magic'",
        ):
            await uow.connection.execute(sa.text(statement.replace(":", "\\:")))
        await uow.commit()
    (before,) = await kept(plane)
    assert before.is_foreign
    assert before.event.verdict.cause is FencingCause.UNEXPLAINED
    assert before.event.verdict.sentence.endswith("(a newer release of Fenceline has written this, as by_magic)")
    assert await tell(plane, *cases(coordinator), refusal((7, 0), at=plane.now)) == 0
    assert await kept(plane) == [before]
    async with plane.uow() as uow:
        assert await uow.of(FencingStore).count_by_cause(EVERYTHING) == {FencingCause.UNEXPLAINED: 1}
        assert await uow.of(FencingStore).told() == {(CLUSTER, FencingCause.UNEXPLAINED): 1}


async def test_clean_restart_becomes_a_refused_zombie_with_a_correction(plane: ControlPlane) -> None:
    coordinator = coordinator_at(plane.now)
    coordinator.init(after_ms=1_000)
    await tell(plane, *cases(coordinator))
    assert await kept(plane, FencingFilter()) == []
    plane.pass_time(30)
    await tell(plane, refusal((7, 0), at=plane.now))
    (record,) = await kept(plane, FencingFilter())
    assert record.event.verdict.cause is FencingCause.ZOMBIE_REFUSED
    assert [(one.verdict.cause, one.until) for one in record.corrections] == [(FencingCause.CLEAN_RESTART, plane.now)]
    assert (record.place.pipeline, record.place.task, record.place.attempt) == ("delayed-flights", 1, 2)
    assert record.place.partitions == ("flights-0",)


async def test_journal_explains_an_earlier_client_report(plane: ControlPlane) -> None:
    coordinator = coordinator_at(plane.now)
    coordinator.begin()
    coordinator.init(after_ms=300)
    coordinator.begin()
    await tell(plane, refusal((7, 0), at=plane.now))
    (record,) = await kept(plane)
    assert record.event.verdict.cause is FencingCause.UNEXPLAINED
    await tell(plane, *cases(coordinator))
    (record,) = await kept(plane)
    assert (record.event.verdict.cause, record.event.verdict.confidence) == (FencingCause.TAKEOVER, Confidence.CERTAIN)


async def test_several_servers_write_the_same_at_once(plane: ControlPlane) -> None:
    """Each has another part, in another order; no server gets an error, and no event is duplicated or lost."""
    coordinators = [coordinator_at(plane.now + timedelta(seconds=number)) for number in range(6)]
    whole: list[Case] = []
    parts: list[Case] = []
    for number, coordinator in enumerate(coordinators):
        cluster = f"cluster-{number}"
        coordinator.begin()
        coordinator.init(after_ms=300)
        parts += cases(coordinator, cluster=cluster)
        coordinator.begin()
        whole += cases(coordinator, cluster=cluster)
    together = [parts, whole, list(reversed(whole)), list(reversed(parts))] * 3
    await asyncio.gather(*(tell(plane, *told) for told in together))
    records = await kept(plane)
    assert len(records) == len(coordinators)
    assert {len(record.event.evidence) for record in records} == {5}
    async with plane.uow() as uow:
        assert set((await uow.of(FencingStore).told()).values()) == {1}, "an event was counted by two servers"


async def test_own_abort_of_a_kip_890_client_only_corrects(plane: ControlPlane) -> None:
    coordinator = coordinator_at(plane.now, Client.TV_2)
    coordinator.begin()
    coordinator.abort()
    assert await tell(plane, *cases(coordinator)) == 0
    coordinator.begin()
    coordinator.time_out()
    await tell(plane, *cases(coordinator))
    coordinator.begin()
    await tell(plane, *cases(coordinator))
    (record,) = await kept(plane)
    assert record.event.verdict.cause is FencingCause.OWN_ABORT
    assert [one.verdict.cause for one in record.corrections] == [FencingCause.TIMEOUT]


async def test_list_is_newest_first_filtered_and_paged(plane: ControlPlane) -> None:
    for number in range(5):
        coordinator = coordinator_at(plane.now + timedelta(minutes=number))
        coordinator.begin()
        if number % 2:
            coordinator.time_out()
        else:
            coordinator.init(after_ms=300)
        await tell(plane, *cases(coordinator, cluster=f"cluster-{number}"))
    await tell(plane, refusal((7, 0), at=plane.now))
    async with plane.uow() as uow:

        async def found(wanted: FencingFilter, *, limit: int = 500, after: str | None = None) -> list[str]:
            page = await fencing_events.list_events(uow, wanted, after=after, limit=limit)
            names = [record.event.key.kafka_cluster_id for record in page.items]
            if page.next_cursor is None:
                return names
            return [*names, *await found(wanted, limit=limit, after=page.next_cursor)]

        newest_first = ["cluster-4", "cluster-3", "cluster-2", "cluster-1", "cluster-0", CLUSTER]
        assert await found(FencingFilter(), limit=2) == newest_first
        assert await found(FencingFilter(cause=FencingCause.TIMEOUT)) == ["cluster-3", "cluster-1"]
        assert await found(FencingFilter(kafka_cluster_id="cluster-2")) == ["cluster-2"]
        assert await found(FencingFilter(pipeline="delayed-flights")) == [CLUSTER]
        since, until = plane.now + timedelta(minutes=1), plane.now + timedelta(minutes=3)
        assert await found(FencingFilter(since=since, until=until)) == ["cluster-2", "cluster-1"]
        with pytest.raises(InvalidError):
            await fencing_events.list_events(uow, FencingFilter(), after="nonsense")
        with pytest.raises(NotFoundError, match="the fencing event"):
            await fencing_events.get_event(uow, "8a6e0804-2bd0-4672-b79d-d97027f9071a")


async def test_old_events_are_removed_and_not_stored_again(plane: ControlPlane) -> None:
    coordinator = coordinator_at(plane.now)
    coordinator.begin()
    coordinator.init(after_ms=300)
    await tell(plane, *cases(coordinator))
    plane.pass_time(KEPT_FOR.total_seconds() + 60)
    async with plane.uow() as uow:
        removed = await retention.expire(uow, now=plane.now)
        await uow.commit()
    assert removed["fencing_events"] == 1
    assert await tell(plane, *cases(coordinator)) == 0
    assert await kept(plane) == []


def key_of(name: str) -> FencingKey:
    return FencingKey(
        kafka_cluster_id=CLUSTER, transactional_id=name, producer_id=7, producer_epoch=0, kind=FencingKind.EPOCH
    )


@pytest.mark.parametrize("name", ["nul \x00 and \N{SNOWMAN}", "long " + "ä" * 20_000, ""])
async def test_odd_ids_are_kept_and_found(plane: ControlPlane, name: str) -> None:
    case = Case(key_of(name), refusal((7, 0), at=plane.now).evidence)
    assert await tell(plane, case) == 1
    assert await tell(plane, case) == 0
    assert len(await kept(plane)) == 1
    assert len(await kept(plane, FencingFilter(transactional_id=name))) == 1
    of_group = GroupLosses(group_id="g", transactional_ids=(name,))
    assert len(await kept(plane, FencingFilter(of_group=of_group))) == 1


async def test_fence_of_a_crashed_server_is_found_in_the_command_log(plane: ControlPlane) -> None:
    await plane.cluster("c", kafka_cluster_id=CLUSTER)
    coordinator = coordinator_at(plane.now)
    coordinator.begin()
    async with plane.uow() as uow:
        command = await command_log.record(
            uow,
            by=Principal(name="olivia", role=Role.OPERATOR),
            verb=Verb.FENCE_TRANSACTION,
            target="cluster:c",
            why="its host is gone",
            now=plane.now,
            outcome="asked",
            details={"transactional_id": ID, "force": True},
        )
        await uow.commit()
    coordinator.init(after_ms=300)
    assert await tell(plane, *cases(coordinator)) == 1
    (record,) = await kept(plane)
    verdict = record.event.verdict
    assert (verdict.cause, verdict.confidence) == (FencingCause.OPERATOR_FENCE, Confidence.LIKELY)
    assert verdict.sentence.startswith(f"olivia fenced {ID} (producer 7 epoch 0), because: its host is gone.")
    assert command.id in [one.command_id for one in record.event.evidence if isinstance(one, CommandWord)]
    assert await tell(plane, *cases(coordinator)) == 0
    # A producer that writes then is not the operator's, who has none.
    coordinator.begin()
    await tell(plane, *cases(coordinator))
    (record,) = await kept(plane)
    assert record.event.verdict.cause is FencingCause.TAKEOVER


async def test_long_ids_stay_apart(plane: ControlPlane) -> None:
    evidence = refusal((7, 0), at=plane.now).evidence
    await tell(plane, *(Case(key_of("x" * 30_000 + end), evidence) for end in "ab"))
    assert len(await kept(plane)) == 2


async def test_loss_of_a_pipelines_id_names_pipeline_and_attempt(plane: ControlPlane) -> None:
    run = await plane.running()
    async with plane.uow() as uow:
        (owner, *_) = [one for one in await uow.of(TransactionalIdStore).of_pipeline(run.pipeline) if one.ordinal == 0]
    assert owner.task is not None
    beat = msgspec.structs.replace(
        task_heartbeat(run.id, task=owner.task or 0, attempt=3),
        transactional_id=owner.transactional_id,
        producer_id=7,
        producer_epoch=0,
    )
    await plane.beat(beat)
    coordinator = coordinator_at(plane.now)
    coordinator.begin()
    coordinator.time_out()
    (case,) = cases(coordinator, cluster=owner.kafka_cluster_id)
    key = FencingKey(
        kafka_cluster_id=owner.kafka_cluster_id,
        transactional_id=owner.transactional_id,
        producer_id=7,
        producer_epoch=0,
        kind=FencingKind.EPOCH,
    )
    await tell(plane, Case(key, case.evidence))
    (record,) = await kept(plane)
    assert (record.place.pipeline, record.place.run_id) == (run.pipeline, run.id)
    assert (record.place.ordinal, record.place.task, record.place.attempt) == (0, owner.task, 3)
