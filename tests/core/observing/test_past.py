"""One id's history: epoch steps, fencing events and its owner's attempts; queried at most once a second."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from app.core.fencing.service import events as fencing_events
from app.core.fencing.steps import cases_of
from app.core.ids.store.transactional_ids import TransactionalIdStore
from app.core.journals.group_values.offsets import OffsetCommit
from app.core.journals.live_groups import CommittedOffset, LiveGroup
from app.core.mappings.mapping import IdKind, TransactionalIdOwner
from app.core.observing.service.past import IdPast, Storyteller
from app.core.pipelines.pipeline import ProcessingGuarantee
from app.core.runs.task import EventKind, PartitionProgress
from app.core.wire.heartbeat import TaskEvent
from app.edges.db.database import Database
from tests.core.fencing.coordinator import ID, Coordinator
from tests.support.control_plane import KAFKA_CLUSTER_ID, ControlPlane, task_heartbeat

OWNER = TransactionalIdOwner(
    kafka_cluster_id=KAFKA_CLUSTER_ID, transactional_id=ID, pipeline="flights", ordinal=0, task=1
)


class Told:
    """The history of `coordinator`'s id, and its current result."""

    def __init__(self, plane: ControlPlane, coordinator: Coordinator) -> None:
        self.plane = plane
        self.coordinator = coordinator
        self.groups: dict[str, LiveGroup] = {}
        self._storyteller = Storyteller()

    async def story(self, owner: TransactionalIdOwner | None = OWNER) -> IdPast:
        async with self.plane.uow() as uow:
            return await self._storyteller.story_of(
                uow,
                self.coordinator.live,
                owner,
                groups=self.groups,
                kafka_cluster_id=KAFKA_CLUSTER_ID,
                now=self.plane.now,
            )

    async def words(self, owner: TransactionalIdOwner | None = OWNER) -> list[str]:
        return [event.what for event in (await self.story(owner)).past]

    async def record_fencing(self) -> None:
        async with self.plane.uow() as uow:
            cases = cases_of(self.coordinator.live, kafka_cluster_id=KAFKA_CLUSTER_ID)
            await fencing_events.record_cases(uow, cases, now=self.plane.now)
            await uow.commit()


@pytest.fixture
def told(database: Database) -> Told:
    plane = ControlPlane(database)
    coordinator = Coordinator(now_ms=int(plane.now.timestamp() * 1000))
    coordinator.begin()
    return Told(plane, coordinator)


async def test_a_takeover_is_a_step_and_a_fencing_event(told: Told) -> None:
    told.coordinator.init(after_ms=300)
    await told.record_fencing()
    found = (await told.story(None)).past
    assert {event.what for event in found if event.is_step} >= {"aborted", "initialised"}
    assert [event.what for event in found if not event.is_step] == ["takeover"]
    assert [event.fencing_id is not None for event in found if not event.is_step] == [True]
    assert {event.fencing_id for event in found if event.is_step} == {None}
    assert [event.at for event in found] == sorted((event.at for event in found), reverse=True)
    assert (await told.story(None)).holder is None


async def test_only_the_owners_attempts_are_included(told: Told) -> None:
    run = await told.plane.running(tasks_per_instance=2)
    for task in (0, 1):
        event = TaskEvent(
            event_id=f"{task}", kind=EventKind.ASSIGNED, at_ms=1_767_225_600_000, message=f"for task {task}"
        )
        await told.plane.beat(task_heartbeat(run.id, task=task, attempt=3, events=[event]))
    story = await told.story()
    assert [(event.sentence, event.who) for event in story.past if event.what == "assigned"] == [
        ("for task 1", "flights 0.1 attempt 3")
    ]
    assert story.holder is not None
    assert (story.holder.task, story.holder.attempt) == (1, 3)


async def test_groups_with_offsets_of_its_producer_are_included(told: Told) -> None:
    mine = told.coordinator.live.state.producer_id
    stored = CommittedOffset(OffsetCommit(5), 0)
    told.groups = {
        "waits": LiveGroup("waits", pending={("orders", 0, mine): CommittedOffset(OffsetCommit(5), 0, mine, 0)}),
        "stores": LiveGroup("stores", offsets={("orders", 0): CommittedOffset(OffsetCommit(5), 0, mine, 0)}),
        "another": LiveGroup("another", offsets={("orders", 0): CommittedOffset(OffsetCommit(5), 0, mine + 1, 0)}),
        "none": LiveGroup("none", offsets={("orders", 0): stored}),
    }
    assert (await told.story()).groups == ("stores", "waits")


async def test_database_is_queried_after_a_second_or_a_step(told: Told) -> None:
    assert "takeover" not in await told.words()
    told.coordinator.init(after_ms=300)
    # A step is told at once.
    before = await told.words()
    assert "initialised" in before
    await told.record_fencing()
    assert await told.words() == before
    told.plane.pass_time(1)
    assert "takeover" in await told.words()


async def test_clock_that_was_set_back_does_not_stop_the_history(told: Told) -> None:
    await told.words()
    told.coordinator.init(after_ms=300)
    await told.words()
    await told.record_fencing()
    told.plane.now -= timedelta(hours=1)
    assert "takeover" in await told.words()


async def test_task_that_reads_under_an_imported_id_is_its_owner(told: Told) -> None:
    imported = TransactionalIdOwner(
        kafka_cluster_id=KAFKA_CLUSTER_ID, transactional_id=ID, pipeline="flights", kind=IdKind.IMPORTED
    )
    run = await told.plane.running(tasks_per_instance=2, processing_guarantee=ProcessingGuarantee.EXACTLY_ONCE)
    async with told.plane.uow() as uow:
        await uow.of(TransactionalIdStore).claim_for_partitions(
            pipeline="flights", kafka_cluster_id=KAFKA_CLUSTER_ID, ids=[ID], kind=IdKind.IMPORTED
        )
        await uow.commit()
    assert (await told.story(imported)).holder is None
    read = PartitionProgress(topic="in", partition=0, transactional_id=ID)
    beat = task_heartbeat(run.id, task=1)
    await told.plane.beat(msgspec.structs.replace(beat, transactional_id=None, partitions=(read,)))
    told.plane.pass_time(2)
    holder = (await told.story(imported)).holder
    assert holder is not None
    assert holder.task == 1
