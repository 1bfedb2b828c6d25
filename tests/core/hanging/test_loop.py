"""The search through failures: unreachable brokers, an outage of Postgres, and very many partitions."""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from datetime import UTC, datetime

import msgspec
import pytest

from app.core.blocked.facts import LogEnds, PartitionFacts
from app.core.clusters.cluster import Cluster
from app.core.clusters.partition import Partition
from app.core.clusters.store import ClusterStore
from app.core.fencing.cases import case_of_command
from app.core.fencing.evidence import CommandVerb, CommandWord, MarkerRecord
from app.core.fencing.fencing_event import FencingCause, FencingEvent
from app.core.fencing.record import FencingFilter
from app.core.fencing.service.events import record_cases
from app.core.fencing.store import FencingStore
from app.core.hanging.brokers import PARTITIONS_A_REQUEST, Ends
from app.core.hanging.hanging_transaction import HangingEnding
from app.core.hanging.loops.searches import HangingSearch
from app.core.hanging.report import SearchReport
from app.core.hanging.search import StableEnd
from app.core.hanging.store import HangingStore
from app.core.journals.record_batch import MarkerType
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import ReadingPhase
from app.edges.db.database import Database
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import BrokerUnreachableError, UnavailableError
from tests.core.blocked.answers import held, read_through
from tests.support.observing import cluster as live_cluster
from tests.support.observing import hear

CLUSTER = "kafka-1"
AT = Partition("orders", 0)


class Clock:
    """Ten seconds later at each reading."""

    def __init__(self) -> None:
        self.now_s = int(datetime.now(UTC).timestamp())

    def now(self) -> datetime:
        self.now_s += 10
        return datetime.fromtimestamp(self.now_s, UTC)


class Brokers:
    """A cluster with a hanging transaction in its first partition."""

    def __init__(self, clock: Clock, *, partitions: int = 1) -> None:
        self._clock = clock
        self.there = tuple(Partition("orders", number) for number in range(partitions))
        self.kafka_cluster_id = CLUSTER
        self.opened = 0
        self.asked: list[int] = []
        self.is_away = False
        self.is_ended = False
        self.replicas_are_late = False

    @contextmanager
    def open_search(self, connection: Mapping[str, str], *, timeout_s: float) -> Generator[Brokers]:
        del timeout_s
        self.opened += 1
        if self.is_away:
            raise BrokerUnreachableError(connection["bootstrap.servers"], "refused", 5.0)
        yield self

    def all_partitions(self) -> tuple[Partition, ...]:
        return self.there

    def stable_ends(self, partitions: Collection[Partition]) -> Ends:
        self.asked.append(len(partitions))
        if self.is_away:
            raise BrokerUnreachableError("localhost:9092", "refused", 5.0)
        waits = StableEnd(20, 20) if self.is_ended else StableEnd(10, 14)
        return Ends({at: waits if at == AT else StableEnd(7, 7) for at in partitions}, ("broker 2 does not answer",))

    def look(self, partitions: Collection[Partition]) -> list[PartitionFacts]:
        assert list(partitions) == [AT]
        facts = msgspec.structs.replace(held(None, is_corroborated=False), open_at_ms=self._clock.now_s * 1000)
        ended = msgspec.structs.replace(read_through(facts), ends=LogEnds(0, 20, 20))
        return [ended if self.is_ended else facts]

    def find_marker(
        self, at: Partition, *, producer_id: int, from_offset: int, until_offset: int | None = None
    ) -> MarkerRecord | None:
        del producer_id, from_offset, until_offset
        if self.replicas_are_late:
            self.replicas_are_late = False
            return None
        return MarkerRecord(
            topic=at.topic,
            partition=at.partition,
            offset=19,
            at_ms=self._clock.now_s * 1000,
            type=MarkerType.ABORT,
            coordinator_epoch=0,
        )


class Searched:
    """The loop on a registered cluster with a followed journal without ids."""

    def __init__(self, database: Database, brokers: Brokers, clock: Clock) -> None:
        self.database = database
        self.brokers = brokers
        self.is_postgres_away = False
        self.observations = Observations(is_on=True)
        live = live_cluster()
        hear(live, now_ms=(clock.now_s + 1_000_000) * 1000)
        live.enter(live.transactions.progress.topic, ReadingPhase.LIVE, now_ms=clock.now_s * 1000)
        self.observations.publish(live.snapshot(now_ms=clock.now_s * 1000))
        self.loop = HangingSearch(
            unit_of_work=self._unit_of_work,
            brokers=brokers,
            observations=self.observations,
            clock=clock,
            where="here",
            asks_per_s=10,
            sweep_every_s=0,
        )

    def _unit_of_work(self) -> AbstractAsyncContextManager[UnitOfWork]:
        if self.is_postgres_away:
            raise UnavailableError("Postgres does not answer")
        return self.database.unit_of_work()

    @property
    def report(self) -> SearchReport:
        return self.observations.search_of("c")

    async def endings(self) -> list[HangingEnding | None]:
        async with self.database.unit_of_work() as uow:
            return [one.ending for one in (await uow.of(HangingStore).list(CLUSTER, after=None, limit=10)).items]

    async def events(self) -> list[FencingEvent]:
        async with self.database.unit_of_work() as uow:
            page = await uow.of(FencingStore).list(FencingFilter(), after=None, limit=10)
        return [one.event for one in page.items]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def searched(database: Database, clock: Clock) -> Searched:
    async with database.unit_of_work() as uow:
        await uow.of(ClusterStore).add(
            Cluster(
                name="c",
                kafka_cluster_id=CLUSTER,
                bootstrap_servers="localhost:9092",
                created_at=datetime.now(UTC),
                created_by="ann",
            )
        )
        await uow.commit()
    return Searched(database, Brokers(clock), clock)


async def test_detection_and_end_are_stored_and_the_end_is_a_fencing_event(searched: Searched) -> None:
    for _ in range(3):
        await searched.loop.turn()
    (one,) = searched.report.hanging
    assert (one.is_corroborated, searched.report.silent) == (True, ("broker 2 does not answer",))
    assert await searched.endings() == [None]
    searched.brokers.is_ended = True
    for _ in range(2):
        await searched.loop.turn()
    assert searched.report.hanging == ()
    assert await searched.endings() == [HangingEnding.ABORTED]
    assert [event.verdict.cause for event in await searched.events()] == [FencingCause.HANGING_ENDED]


async def test_command_and_its_marker_are_one_event(searched: Searched, clock: Clock) -> None:
    for _ in range(2):
        await searched.loop.turn()
    (one,) = searched.report.hanging
    word = CommandWord(
        command_id=1, verb=CommandVerb.END, at_ms=clock.now_s * 1000, who="ann", partitions=("orders-0",)
    )
    case = case_of_command(
        word,
        kafka_cluster_id=CLUSTER,
        transactional_id="",
        producer_id=one.key.producer_id,
        producer_epoch=one.key.producer_epoch,
    )
    async with searched.database.unit_of_work() as uow:
        await record_cases(uow, [case], now=clock.now())
        await uow.commit()
    searched.brokers.is_ended = True
    for _ in range(2):
        await searched.loop.turn()
    (event,) = await searched.events()
    assert event.verdict.sentence.startswith("ann ended the hanging transaction")
    assert [type(one) for one in event.evidence] == [MarkerRecord, CommandWord]


async def test_search_for_a_marker_is_repeated_until_replicas_have_it(searched: Searched) -> None:
    for _ in range(2):
        await searched.loop.turn()
    searched.brokers.is_ended = searched.brokers.replicas_are_late = True
    for _ in range(2):
        await searched.loop.turn()
    assert await searched.endings() == [HangingEnding.ABORTED]


async def test_nothing_is_lost_while_postgres_is_away(searched: Searched) -> None:
    # It is found with the next turn.
    await searched.loop.turn()
    (search,) = searched.loop.searches
    searched.is_postgres_away = True
    with pytest.raises(UnavailableError, match="Postgres"):
        await search.turn()
    assert searched.report.hanging
    searched.is_postgres_away = False
    await searched.loop.turn()
    assert await searched.endings() == [None]


async def test_unreachable_brokers_are_reported_and_asked_again(searched: Searched) -> None:
    await searched.loop.turn()
    searched.brokers.is_away = True
    for _ in range(3):
        await searched.loop.turn()
    assert "localhost:9092" in searched.report.problem
    # The first question failed; another connection is not tried before its time.
    assert searched.brokers.opened == 1


async def test_another_cluster_at_the_address_is_not_searched(searched: Searched) -> None:
    searched.brokers.kafka_cluster_id = "kafka-2"
    await searched.loop.turn()
    assert "kafka-2" in searched.report.problem
    assert searched.brokers.asked == []


async def test_very_many_partitions_are_checked_in_parts(searched: Searched) -> None:
    searched.brokers.there = tuple(Partition("orders", number) for number in range(2 * PARTITIONS_A_REQUEST + 1))
    for _ in range(3):
        await searched.loop.turn()
    assert searched.brokers.asked == [PARTITIONS_A_REQUEST, PARTITIONS_A_REQUEST, 1]
    assert searched.report.partitions == 2 * PARTITIONS_A_REQUEST + 1


async def test_removed_cluster_is_no_longer_searched(searched: Searched, database: Database) -> None:
    await searched.loop.turn()
    assert searched.observations.searches()
    async with database.unit_of_work() as uow:
        await uow.of(ClusterStore).remove("c")
        await uow.commit()
    await searched.loop.turn()
    assert (searched.loop.searches, searched.observations.searches()) == ((), [])


async def test_server_that_comes_later_sees_the_end_of_what_another_found(
    searched: Searched, database: Database, clock: Clock
) -> None:
    for _ in range(3):
        await searched.loop.turn()
    later = Searched(database, searched.brokers, clock)
    searched.brokers.is_ended = True
    await later.loop.turn()
    assert await later.endings() == [HangingEnding.ABORTED]
