"""The observer's fencing events are stored, also after an outage of Postgres."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime

import pytest

from app.core.clocks.broker_clocks import BrokerClocks
from app.core.clocks.clock_offset import ClockOffset
from app.core.clusters.cluster import Cluster
from app.core.fencing.evidence import MemberRecord
from app.core.fencing.fencing_event import FencingCause
from app.core.fencing.loop import FencingRecorder
from app.core.fencing.record import FencingFilter, FencingRecord
from app.core.fencing.store import FencingStore
from app.core.journals import group_records
from app.core.journals.group_values.offsets import OffsetCommit
from app.core.journals.live_groups import CommittedOffset, LiveGroup, MemberChange
from app.edges.db.database import Database
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import UnavailableError
from tests.core.fencing.coordinator import CLUSTER, Coordinator

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class StandingClock:
    def now(self) -> datetime:
        return NOW


def taken_over() -> Coordinator:
    coordinator = Coordinator(now_ms=int(NOW.timestamp() * 1000))
    coordinator.begin()
    coordinator.init(after_ms=300)
    return coordinator


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(
        name="prod",
        kafka_cluster_id=CLUSTER,
        bootstrap_servers="localhost:9092",
        client_config={},
        created_at=NOW,
        created_by="ann",
    )


async def kept(database: Database) -> list[FencingRecord]:
    async with database.unit_of_work() as uow:
        return list((await uow.of(FencingStore).list(FencingFilter(), after=None, limit=10)).items)


async def test_ids_with_a_step_are_stored(database: Database, cluster: Cluster) -> None:
    recorder = FencingRecorder(unit_of_work=database.unit_of_work, clock=StandingClock(), where="w1")
    coordinator = taken_over()
    recorder.take(cluster, [coordinator.live])
    coordinator.begin()
    recorder.take(cluster, [coordinator.live])
    assert recorder.waiting == 1
    await recorder.turn()
    assert recorder.waiting == 0
    (record,) = await kept(database)
    assert record.event.verdict.cause is FencingCause.TAKEOVER
    # The newest state only: the new producer has written, so nobody says that it might be an operator's fence.
    assert FencingCause.OPERATOR_FENCE not in record.event.verdict.alternatives
    assert record.corrections == ()


async def test_changes_of_the_groups_members_are_stored_with_it(database: Database, cluster: Cluster) -> None:
    coordinator = taken_over()
    coordinator.begin()
    ended_ms = coordinator.live.steps[1].at_ms
    left = MemberChange("m-1", "", "orders", "/10.0.0.1", ended_ms, 5, has_left=True, members=0)
    back = MemberChange("m-2", "", "orders", "/10.0.0.1", ended_ms, 6, has_left=False, members=1)
    offsets = {("orders", 0): CommittedOffset(OffsetCommit(3), 1, coordinator.producer_id, 0)}
    group = LiveGroup("g", offsets=offsets, changes=(left, back))
    asked: list[str] = []

    def groups(name: str) -> dict[str, LiveGroup]:
        asked.append(name)
        return {"g": group}

    recorder = FencingRecorder(unit_of_work=database.unit_of_work, clock=StandingClock(), where="w1", groups=groups)
    recorder.take(cluster, [coordinator.live])
    await recorder.turn()
    (record,) = await kept(database)
    assert record.event.verdict.cause is FencingCause.APPLICATION_RETURNED
    assert [one.member_id for one in record.event.evidence if isinstance(one, MemberRecord)] == ["m-1", "m-2"]
    assert asked == ["prod"]
    # The same again, and another server's view without the group, change nothing.
    recorder.take(cluster, [coordinator.live])
    await recorder.turn()
    other = FencingRecorder(unit_of_work=database.unit_of_work, clock=StandingClock(), where="w2")
    other.take(cluster, [coordinator.live])
    await other.turn()
    assert await kept(database) == [record]


@pytest.mark.parametrize(
    ("is_measured", "cause"), [(True, FencingCause.APPLICATION_RETURNED), (False, FencingCause.TAKEOVER)]
)
async def test_clock_skew_of_two_brokers_makes_one_event(
    database: Database, cluster: Cluster, is_measured: bool, cause: FencingCause
) -> None:
    """The group's coordinator is five minutes behind. The control: uncorrected times make another event."""
    coordinator = taken_over()
    coordinator.begin()
    ended_ms = coordinator.live.steps[1].at_ms
    left, back = (
        MemberChange(f"m-{at}", "", "orders", "/10.0.0.1", ended_ms - 300_000, at, has_left=at == 1, members=at - 1)
        for at in (1, 2)
    )
    offsets = {("orders", 0): CommittedOffset(OffsetCommit(3), 1, coordinator.producer_id, 0)}
    group = LiveGroup("g", offsets=offsets, changes=(left, back), partition=3)
    behind = ClockOffset(least_ms=299_990, most_ms=300_020, measured_ms=0)
    clocks = BrokerClocks({2: behind} if is_measured else {}, {(group_records.TOPIC, 3): 2})
    recorder = FencingRecorder(
        unit_of_work=database.unit_of_work,
        clock=StandingClock(),
        where="w1",
        groups=lambda _: {"g": group},
        clocks=lambda _: clocks,
    )
    recorder.take(cluster, [coordinator.live])
    await recorder.turn()
    (record,) = await kept(database)
    assert record.event.verdict.cause is cause


async def test_id_without_events_leaves_the_queue(database: Database, cluster: Cluster) -> None:
    recorder = FencingRecorder(unit_of_work=database.unit_of_work, clock=StandingClock(), where="w1")
    recorder.take(cluster, [Coordinator().live])
    assert recorder.waiting == 0


async def test_nothing_is_lost_while_postgres_is_away(database: Database, cluster: Cluster) -> None:
    is_away = True

    def unit_of_work() -> AbstractAsyncContextManager[UnitOfWork]:
        if is_away:
            raise UnavailableError("Postgres does not answer")
        return database.unit_of_work()

    recorder = FencingRecorder(unit_of_work=unit_of_work, clock=StandingClock(), where="w1")
    recorder.take(cluster, [taken_over().live])
    with pytest.raises(UnavailableError):
        await recorder.turn()
    recorder.interrupted()
    is_away = False
    await recorder.turn()
    assert len(await kept(database)) == 1
