"""A worker is believed about its own pipeline only; impossible numbers are dropped."""

from __future__ import annotations

import math
from typing import Any, Optional, get_args, get_type_hints

import msgspec
import pytest
import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy.dialects import postgresql

from app.core.fencing.record import FencingFilter
from app.core.fencing.store import FencingStore
from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.mappings.mapping import IdKind, OwnershipFilter
from app.core.mappings.store.mappings import MappingStore
from app.core.pipelines.pipeline import ProcessingGuarantee
from app.core.runs.number_bounds import LARGEST, Sieve, numbers_of
from app.core.runs.recorded_offset import RecordedOffset
from app.core.runs.service import heartbeats, retention
from app.core.runs.service.heartbeats import HeartbeatResult
from app.core.runs.service.worker_words import MOST_OF_UNKNOWN
from app.core.runs.store.recorded_offsets import RecordedOffsetStore
from app.core.runs.store.series import SeriesStore
from app.core.runs.store.tasks import TaskStore
from app.core.runs.tables.tasks import task_attempts
from app.core.runs.task import Counters, EventKind, PartitionProgress, TaskReport
from app.core.wire.heartbeat import DriverHeartbeat, GoneAttempt, GoneBy, TaskEvent, TaskHeartbeat
from app.core.wire.offset_events import Assigned
from app.core.wire.offset_report import Init, OffsetReport, ReportedPartition
from app.kit.errors import ForbiddenError, InvalidError
from tests.support.control_plane import KAFKA_CLUSTER_ID, ControlPlane, driver_heartbeat, task_heartbeat
from tests.support.run_samples import samples_of

STRANGER = "payments-1"
V1 = {"processing_guarantee": ProcessingGuarantee.EXACTLY_ONCE}
BY_FORMULA = "fl.p.flights-group.in.7"


HELD_AGAINST_BOUNDS = [TaskHeartbeat, TaskEvent, PartitionProgress, Counters, OffsetReport, DriverHeartbeat]


@pytest.mark.parametrize("struct", HELD_AGAINST_BOUNDS)
def test_each_number_that_a_worker_reports_has_a_bound(struct: type[msgspec.Struct]) -> None:
    names = {name for name, hint in get_type_hints(struct).items() if {int, float} & {hint, *get_args(hint)}}
    assert {number.field for number in numbers_of(struct)} == names


@pytest.mark.parametrize("hint", [int, int | None, float, float | None, Optional[int]])  # noqa: UP045
def test_heartbeat_with_a_number_without_a_bound_is_not_accepted(hint: Any) -> None:
    forgetful = msgspec.defstruct("Forgetful", [("retries", hint)], bases=(TaskHeartbeat,), kw_only=True)
    said = msgspec.structs.asdict(task_heartbeat("r"))
    with pytest.raises(TypeError, match=r"Forgetful.retries is a number without a Bound"):
        Sieve().bounded(forgetful(**said, retries=1))


async def receive(
    plane: ControlPlane, heartbeat: TaskHeartbeat, *, counts: dict[str, int] | None = None
) -> HeartbeatResult:
    scope = heartbeats.RunTokenScope(run_id=heartbeat.run_id, ordinal=heartbeat.ordinal, lease=heartbeat.lease)
    async with plane.uow() as uow:
        heard = await heartbeats.receive_heartbeat(
            uow, heartbeat, scope=scope, now=plane.now, counts=lambda _: counts or {}
        )
        await uow.commit()
    return heard


async def kept(plane: ControlPlane, run_id: str) -> TaskReport:
    async with plane.uow() as uow:
        (status,) = await uow.of(TaskStore).list_statuses([run_id])
    return status.last


def fenced(name: str | None) -> TaskEvent:
    return TaskEvent(
        event_id="e",
        kind=EventKind.FENCED,
        at_ms=1_767_225_600_000,
        message="as told",
        producer_id=7,
        producer_epoch=4,
        transactional_id=name,
    )


@pytest.mark.parametrize("name", [STRANGER, "fl.t.flights.0.1", "fl.t.flights.1.0", "fl.t.other.0.0", BY_FORMULA])
async def test_id_that_is_not_the_tasks_is_not_taken_and_the_heartbeat_is(plane: ControlPlane, name: str) -> None:
    run = await plane.running(tasks_per_instance=2)
    forged = replace(task_heartbeat(run.id), transactional_id=name, producer_id=7, producer_epoch=4)
    heard = await receive(plane, forged)
    last = await kept(plane, run.id)
    assert (last.transactional_id, last.producer_id, last.producer_epoch) == (None, None, None)
    assert heard.dropped == {"transactional_id": 1}
    assert heard.answer.is_current


async def test_nothing_of_an_honest_heartbeat_is_dropped(plane: ControlPlane) -> None:
    run = await plane.running()
    honest = replace(
        task_heartbeat(run.id, partitions=[("in", 0), ("in", 1)], events=[fenced(None)]),
        producer_id=7,
        producer_epoch=4,
        generation=-1,
        commit_latency_p99_ms=12.5,
        open_transaction_age_ms=40,
        commits_every_ms=100,
        offsets=OffsetReport(
            inits=(Init(7, 4, None),),
            partitions=(ReportedPartition(topic="in", partition=0, recorded=1, events=(Assigned(index=0, number=1),)),),
        ),
    )
    heard = await receive(plane, honest)
    assert (heard.taken, sum(heard.dropped.values())) == (honest, 0)
    assert heard.beyond == {"in"}, "how many partitions there are is asked"


@pytest.mark.parametrize("name", [STRANGER, "fl.t.other.0.0"])
async def test_fencing_of_a_foreign_producer_is_not_recorded(plane: ControlPlane, name: str) -> None:
    run = await plane.running()
    await plane.beat(task_heartbeat(run.id, events=[fenced(name)]))
    async with plane.uow() as uow:
        assert (await uow.of(FencingStore).list(FencingFilter(), after=None, limit=10)).items == ()
        page = await uow.of(TaskStore).list_events(run.id, after=None, limit=10)
    assert len(page.items) == 1, "that something happened to the task is kept"
    await plane.beat(task_heartbeat(run.id, sequence=2, events=[replace(fenced(None), event_id="own")]))
    async with plane.uow() as uow:
        (own,) = (await uow.of(FencingStore).list(FencingFilter(), after=None, limit=10)).items
    assert own.event.key.transactional_id == "fl.t.flights.0.0"


def progress(name: str | None, partition: int = 7) -> PartitionProgress:
    return PartitionProgress(
        topic="in", partition=partition, transactional_id=name, producer_id=3, producer_epoch=1, offsets_generation=-1
    )


async def test_partition_that_appeared_meanwhile_is_taken_by_its_formula(plane: ControlPlane) -> None:
    run = await plane.running(**V1)
    heard = await receive(
        plane, replace(task_heartbeat(run.id), transactional_id=None, partitions=(progress(BY_FORMULA),))
    )
    assert sum(heard.dropped.values()) == 0
    async with plane.uow() as uow:
        (mapping,) = await uow.of(MappingStore).of_group(kafka_cluster_id=KAFKA_CLUSTER_ID, group="flights-group")
    assert (mapping.assigned_id, mapping.transactional_id) == (BY_FORMULA, BY_FORMULA)


@pytest.mark.parametrize(
    "name", [STRANGER, "fl.p.flights-group.in.8", "fl.p.flights-group.other.7", "fl.t.flights.0.0"]
)
async def test_partitions_id_that_is_neither_owned_nor_its_formula_is_not_taken(plane: ControlPlane, name: str) -> None:
    run = await plane.running(**V1)
    told = replace(task_heartbeat(run.id), transactional_id=None, partitions=(progress(name),))
    heard = await receive(plane, told)
    assert heard.dropped == {"partitions.transactional_id": 1}
    async with plane.uow() as uow:
        (mapping,) = await uow.of(MappingStore).of_group(kafka_cluster_id=KAFKA_CLUSTER_ID, group="flights-group")
        owners = await uow.of(TransactionalIdStore).owners(kafka_cluster_id=KAFKA_CLUSTER_ID, ids=[name])
        incarnations = await uow.of(MappingStore).incarnations(kafka_cluster_id=KAFKA_CLUSTER_ID)
    assert (mapping.transactional_id, mapping.assigned_id, mapping.producer_id) == (None, None, None)
    assert (owners, incarnations) == ([], [])
    assert mapping.owner is not None, "who reads the partition is known all the same"


async def test_imported_id_is_its_pipelines_and_a_formula_that_another_owns_is_not(plane: ControlPlane) -> None:
    run = await plane.running(**V1)
    await plane.pipeline("other", **V1)
    async with plane.uow() as uow:
        for pipeline, name in (("flights", "imported-1"), ("other", BY_FORMULA)):
            await uow.of(TransactionalIdStore).claim_for_partitions(
                pipeline=pipeline, kafka_cluster_id=KAFKA_CLUSTER_ID, ids=[name], kind=IdKind.IMPORTED
            )
        await uow.commit()
    told = (progress("imported-1", 6), progress(BY_FORMULA, 7))
    heard = await receive(plane, replace(task_heartbeat(run.id), transactional_id=None, partitions=told))
    assert [one.transactional_id for one in heard.taken.partitions] == ["imported-1", None]
    again = await receive(plane, replace(task_heartbeat(run.id, sequence=2), transactional_id=None, partitions=told))
    assert [one.transactional_id for one in again.taken.partitions] == ["imported-1", None]


async def test_partitions_of_other_topics_and_ones_that_there_are_not_are_nobodys(plane: ControlPlane) -> None:
    run = await plane.running()
    forged = [("in", 0), ("in", 0), ("out", 0), ("in", -1), ("in", 2), ("in", 2**40)]
    heard = await receive(plane, task_heartbeat(run.id, partitions=forged), counts={"in": 2})
    assert [(one.topic, one.partition) for one in heard.taken.partitions] == [("in", 0)]
    assert (heard.dropped["partitions"], heard.beyond) == (5, {"in"})
    async with plane.uow() as uow:
        history = await uow.of(MappingStore).history(
            OwnershipFilter(), kafka_cluster_id=KAFKA_CLUSTER_ID, after=None, limit=10
        )
    assert [(one.topic, one.partition) for one in history.items] == [("in", 0)]


async def test_thousands_of_forged_partitions_are_cut_until_brokers_tell_how_many_there_are(
    plane: ControlPlane,
) -> None:
    run = await plane.running()
    many = task_heartbeat(run.id, partitions=[("in", number) for number in range(MOST_OF_UNKNOWN + 500)])
    assert len((await receive(plane, many)).taken.partitions) == MOST_OF_UNKNOWN
    known = await receive(plane, replace(many, sequence=2), counts={"in": 3})
    assert len(known.taken.partitions) == 3
    assert len((await kept(plane, run.id)).partitions) == 3


@pytest.mark.parametrize("counts", [{"in": 3}, {}], ids=["known", "unknown"])
async def test_forged_confirmed_offsets_are_kept_of_no_more_partitions_than_there_are(
    plane: ControlPlane, counts: dict[str, int]
) -> None:
    """Each heartbeat may name others, so that a bound of each would let the table grow."""
    run = await plane.running()
    most = counts.get("in", MOST_OF_UNKNOWN)
    for sequence, first in enumerate((0, 10**6, 2 * 10**6), start=1):
        numbers = [*range(first, first + MOST_OF_UNKNOWN), first]
        told = tuple(RecordedOffset(topic="in", partition=number, offset=5) for number in numbers)
        heard = await receive(plane, replace(task_heartbeat(run.id, sequence=sequence), confirmed=told), counts=counts)
        assert heard.dropped["confirmed"] == len(told) - (most if first == 0 else 0)
        assert heard.beyond == ({"in"} if first or not counts or most < MOST_OF_UNKNOWN else set())
    async with plane.uow() as uow:
        kept_of = await uow.of(RecordedOffsetStore).of_group(kafka_cluster_id=KAFKA_CLUSTER_ID, group="flights-group")
    assert {one.partition for one in kept_of} == set(range(most))


async def test_a_partition_that_no_topic_of_an_unknown_size_has_at_first_is_asked_for(plane: ControlPlane) -> None:
    run = await plane.running()
    heard = await receive(plane, task_heartbeat(run.id, partitions=[("in", 2**30)]))
    assert (heard.taken.partitions, heard.beyond) == ((), {"in"})


HUGE = 10**30


@pytest.mark.parametrize("number", [-5, LARGEST, HUGE])
async def test_impossible_duration_is_dropped_and_counted(plane: ControlPlane, number: int) -> None:
    run = await plane.running()
    heard = await receive(
        plane, replace(task_heartbeat(run.id), open_transaction_age_ms=number, not_progressing_ms=number)
    )
    assert (heard.taken.open_transaction_age_ms, heard.taken.not_progressing_ms) == (None, None)
    assert set(heard.dropped) >= {"open_transaction_age_ms", "not_progressing_ms"}
    last = await kept(plane, run.id)
    assert (last.open_transaction_age_ms, last.not_progressing_ms) == (None, None)


@pytest.mark.parametrize("number", [-5, -HUGE, LARGEST, HUGE])
async def test_no_number_of_a_heartbeat_keeps_the_run_from_being_counted_and_expired(
    plane: ControlPlane, number: int
) -> None:
    run = await plane.running()
    at = PartitionProgress(topic="in", partition=0, position=number, committed=-number, end=number)
    for attempt in range(3):
        for sequence in (1, 2):
            beat = task_heartbeat(run.id, attempt=attempt, sequence=sequence, sent_at_ms=number * sequence)
            forged = replace(
                beat,
                pid=number,
                generation=number,
                producer_id=number,
                producer_epoch=number,
                partitions=(at,),
                counters=Counters(**dict.fromkeys(Counters.__struct_fields__, number)),
                open_transaction_age_ms=number,
                commits_every_ms=1001 if sequence == 1 else number,
                uploads_within_ms=-2002,
                commit_latency_p50_ms=1e308,
                commit_latency_p99_ms=-1.0,
                events=(replace(fenced(None), at_ms=number, generation=number, producer_id=number),),
            )
            plane.pass_time(1)
            assert (await plane.beat(forged)).is_current
    async with plane.uow() as uow:
        totals = (await uow.of(TaskStore).totals([run.id]))[run.id]
        series = await samples_of(uow, run.id)
        await retention.expire(uow, now=plane.now.replace(year=2027))
        after = (await uow.of(TaskStore).totals([run.id]))[run.id]
        events = (await uow.of(TaskStore).list_events(run.id, after=None, limit=10)).items
    assert 0 <= totals.records_in <= LARGEST
    assert after == totals
    assert events == ()
    assert all(math.isfinite(sample.records_in_per_s) and sample.records_in_per_s >= 0 for sample in series)


async def test_counters_that_were_stored_before_are_read_and_expire_with_any_value(plane: ControlPlane) -> None:
    run = await plane.running()
    for attempt in range(3):
        await plane.beat(task_heartbeat(run.id, attempt=attempt, partitions=[("in", 0)]))
    async with plane.uow() as uow:
        for attempt, number in enumerate((-5, HUGE, LARGEST)):
            stored = sa.func.jsonb_set(
                sa.func.jsonb_set(
                    task_attempts.c.report,
                    ["counters", "records_in"],
                    sa.cast(str(number), postgresql.JSONB),
                ),
                ["partitions", "0", "end"],
                sa.cast(str(number), postgresql.JSONB),
            )
            await uow.connection.execute(
                sa.update(task_attempts).where(task_attempts.c.attempt == attempt).values(report=stored)
            )
        await uow.commit()
    async with plane.uow() as uow:
        assert (await uow.of(TaskStore).totals([run.id]))[run.id].records_in == LARGEST
        assert await uow.of(SeriesStore).sample(run.id, now=plane.pass_time(1), fresh_for=heartbeats.FRESH_FOR)
        await retention.expire(uow, now=plane.now.replace(year=2027))
        assert (await uow.of(TaskStore).totals([run.id]))[run.id].records_in == LARGEST


async def test_counters_of_an_attempt_never_fall(plane: ControlPlane) -> None:
    run = await plane.running()
    await plane.beat(task_heartbeat(run.id, sequence=1, records_in=10, records_out=4))
    heard = await receive(plane, task_heartbeat(run.id, sequence=2, records_in=3, records_out=5))
    assert (heard.taken.counters.records_in, heard.taken.counters.records_out) == (10, 5)
    assert sum(heard.dropped.values()) == 0, "of two threads that tell, the later may have looked first"


@pytest.mark.parametrize("task", [1, -1, 2**31 - 1])
async def test_task_that_the_instance_does_not_have_is_refused(plane: ControlPlane, task: int) -> None:
    run = await plane.running()
    with pytest.raises((ForbiddenError, InvalidError)):
        await plane.beat(task_heartbeat(run.id, task=task))


@pytest.mark.parametrize("number", [-1, 2**31, HUGE])
@pytest.mark.parametrize("field", ["task", "attempt"])
async def test_number_that_no_attempt_can_have_is_refused(plane: ControlPlane, field: str, number: int) -> None:
    run = await plane.running()
    fields: dict[str, Any] = {field: number}
    with pytest.raises(InvalidError, match=f"{field} is"):
        await plane.beat(task_heartbeat(run.id, **fields))


async def test_driver_reports_its_own_tasks_and_one_attempt_of_each(plane: ControlPlane) -> None:
    run = await plane.running(tasks_per_instance=2)
    gone = tuple(
        GoneAttempt(task=task, attempt=attempt, by=GoneBy.WORKER)
        for task, attempt in [(0, 3), (0, 2), (1, 0), (2, 0), (-1, 0), (1, HUGE), *((0, n) for n in range(1000))]
    )
    told = driver_heartbeat(run.id, gone=gone, executors=-1, tasks_running=HUGE, tasks_waiting=2**31)
    async with plane.uow() as uow:
        scope = heartbeats.RunTokenScope(run_id=run.id, ordinal=0, lease=1)
        heard = await heartbeats.receive_driver_heartbeat(uow, told, scope=scope, now=plane.now)
        await uow.commit()
    assert [(one.task, one.attempt) for one in heard.taken.gone] == [(0, 3), (1, 0)]
    assert (heard.taken.executors, heard.taken.tasks_running) == (0, 2**31 - 1)


async def test_offsets_and_inits_of_others_are_not_taken(plane: ControlPlane) -> None:
    run = await plane.running()
    own = ReportedPartition(topic="in", partition=0, recorded=1, events=(Assigned(index=0, number=1),))
    told = OffsetReport(
        heard_ms=-HUGE,
        inits=(Init(7, 4, None), Init(7, 4, STRANGER), Init(-HUGE, 4, None), Init(7, 2**15, None)),
        partitions=(
            own,
            replace(own, topic="payments"),
            replace(own, partition=-1),
            replace(own, recorded=HUGE),
            replace(own, events=(Assigned(index=0, number=1, generation=HUGE),)),
        ),
    )
    heard = await receive(plane, replace(task_heartbeat(run.id), offsets=told))
    assert heard.taken.offsets == OffsetReport(inits=(Init(7, 4, None),), partitions=(own,))
    assert heard.dropped["offsets"] == 7
