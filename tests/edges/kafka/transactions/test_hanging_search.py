"""The server finds hanging transactions by itself, reports each once, and records its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.core.blocked.facts import PartitionFacts
from app.core.clusters.cluster import Cluster
from app.core.clusters.partition import Partition
from app.core.clusters.store import ClusterStore
from app.core.fencing.fencing_event import Confidence, FencingCause
from app.core.fencing.record import FencingFilter, FencingRecord
from app.core.fencing.store import FencingStore
from app.core.hanging import service as hanging
from app.core.hanging.hanging_transaction import HangingEnding, HangingTransaction
from app.core.hanging.loops.searches import HangingSearch
from app.core.hanging.pending import PendingHold
from app.core.hanging.record import HangingRecord
from app.core.hanging.report import SearchReport
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import ReadingPhase
from app.edges.db.database import Database
from app.edges.kafka.transactions.looking import look_at_holders
from app.edges.kafka.transactions.searching import KafkaSearch, SearchClient
from app.kit.clock import SystemClock
from tests.edges.kafka.transactions.conftest import Scene
from tests.edges.kafka.transactions.test_explaining import TRANSACTIONS
from tests.support.hanging import make_hanging, make_offset_hang
from tests.support.kafka_clients import Writer
from tests.support.kafka_tools import run_tool
from tests.support.topics import unique_name
from tests.support.waiting import wait_for_async
from tests.support.watched import observer_of

pytestmark = pytest.mark.slow

SEARCH = KafkaSearch(environment={}, secrets_dir=None)
_WITHIN_S = 30.0


class Server:
    """A server's observer and search, as app/edges/main/server.py puts them together; the search in a hurry."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.database = database
        self.observations = Observations(is_on=True)
        clock = SystemClock()
        self.observer = observer_of(database, folder, self.observations)
        self.search = HangingSearch(
            unit_of_work=database.unit_of_work,
            brokers=SEARCH,
            observations=self.observations,
            clock=clock,
            where=str(folder),
            asks_per_s=10,
            sweep_every_s=0.1,
            unaccounted_ms=500,
        )

    @property
    def report(self) -> SearchReport:
        return self.observations.search_of("prod")

    async def until(self, what: str, *, by: str, is_found: int) -> tuple[HangingTransaction, ...]:
        """Turn until so many of this transactional id hang: other tests have left theirs on the broker."""

        def theirs() -> tuple[HangingTransaction, ...]:
            return tuple(one for one in self.report.hanging if one.transactional_id == by)

        async def is_so() -> bool:
            await self.search.turn()
            return len(theirs()) == is_found and not self.report.problem

        await wait_for_async(is_so, _WITHIN_S, lambda: f"{what}: {self.report}")
        return theirs()

    async def records(self, *, by: str) -> list[HangingRecord]:
        async with self.database.unit_of_work() as uow:
            listed = (await hanging.list_records(uow, cluster="prod")).items
        return [one for one in listed if one.transaction.transactional_id == by]

    async def fencing(self, *, of: str) -> list[FencingRecord]:
        async with self.database.unit_of_work() as uow:
            listed = (await uow.of(FencingStore).list(FencingFilter(), after=None, limit=100)).items
        return [one for one in listed if one.event.key.transactional_id == of]


@asynccontextmanager
async def serving(scene: Scene, database: Database, folder: Path) -> AsyncGenerator[Server]:
    with SEARCH.open_search(scene.connection, timeout_s=20) as connection:
        kafka_cluster_id = connection.kafka_cluster_id
    async with database.unit_of_work() as uow:
        if not await uow.of(ClusterStore).list_all():
            await uow.of(ClusterStore).add(
                Cluster(
                    name="prod",
                    kafka_cluster_id=kafka_cluster_id,
                    bootstrap_servers=scene.bootstrap_servers,
                    created_at=datetime.now(UTC),
                    created_by="ann",
                )
            )
            await uow.commit()
    server = Server(database, folder)
    try:
        await server.observer.turn()

        async def is_followed() -> bool:
            return server.observations.of("prod").transaction_journal.phase is ReadingPhase.LIVE

        await wait_for_async(is_followed, _WITHIN_S, "the journal to be followed")
        yield server
    finally:
        await server.search.close()
        await server.observer.close()


async def test_hanging_transactions_are_found_and_an_end_by_hand_is_an_event(
    scene: Scene, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Partition] = []

    def look(client: SearchClient, partitions: Collection[Partition]) -> list[PartitionFacts]:
        looked.extend(partitions)
        return look_at_holders(client, partitions)

    monkeypatch.setattr(SearchClient, "look", look)
    late, long_open = scene.topic(), scene.topic()
    at = Partition(late, 0)
    living, alive = scene.leave_open(long_open, timeout_ms=900_000)
    owner = unique_name("late")
    await asyncio.to_thread(make_hanging, scene.bootstrap_servers, at, owner)
    async with serving(scene, database, tmp_path / "one") as one, serving(scene, database, tmp_path / "two") as two:
        (found,) = await one.until("the hanging transaction", by=owner, is_found=1)
        assert (found.at, found.transactional_id, found.is_corroborated) == (at, owner, True)
        (same,) = await two.until("the same by the other server", by=owner, is_found=1)
        assert found.key == same.key
        # The control: it stands as long, and is open for good reason.
        assert one.report.held_back >= 2
        assert at in looked
        assert Partition(long_open, 0) not in looked
        (record,) = await one.records(by=owner)
        assert (record.transaction.key, record.ended_at) == (found.key, None)
        await asyncio.to_thread(
            run_tool,
            TRANSACTIONS,
            *("--bootstrap-server", scene.bootstrap_servers, "abort", "--topic", late, "--partition", "0"),
            *("--start-offset", str(found.key.start_offset)),
        )
        await one.until("the end of it", by=owner, is_found=0)
        await two.until("the same end", by=owner, is_found=0)
        (record,) = await two.records(by=owner)
        assert (record.ending, record.ended_at is not None) == (HangingEnding.ABORTED, True)
        (event,) = await one.fencing(of=owner)
        assert (event.event.verdict.cause, event.event.verdict.confidence) == (
            FencingCause.HANGING_ENDED,
            Confidence.CERTAIN,
        )
        assert event.event.verdict.sentence.startswith("An unknown client ended the hanging transaction")
        # Another transaction can be ended so, too: it is aborted there, while its coordinator continues it.
        assert await one.fencing(of=living) == []
        await asyncio.to_thread(
            run_tool,
            TRANSACTIONS,
            *("--bootstrap-server", scene.bootstrap_servers, "abort", "--topic", long_open, "--partition", "0"),
            *("--start-offset", "0"),
        )

        async def is_told() -> bool:
            await one.search.turn()
            return bool(await one.fencing(of=living))

        await wait_for_async(is_told, _WITHIN_S, lambda: f"the foreign marker: {one.report}")
        (event,) = await one.fencing(of=living)
        assert (event.event.verdict.cause, event.event.verdict.confidence) == (
            FencingCause.OPERATOR_ABORT,
            Confidence.LIKELY,
        )
        assert not any(found.at == (long_open, 0) for found in one.report.hanging)
    alive.abort_transaction(20)


async def test_hanging_pending_offset_is_found_and_its_group_named(
    scene: Scene, database: Database, tmp_path: Path
) -> None:
    at, group = Partition(scene.topic(), 0), unique_name("g")
    writer = Writer(scene.connection)
    writer.begin(at.topic, records=1)
    writer.send_offset(group, at, 0)
    writer.commit()
    owner = unique_name("late")
    await asyncio.to_thread(make_offset_hang, scene.bootstrap_servers, at, owner, group=group, offset=1)
    async with serving(scene, database, tmp_path) as server:
        (found,) = await server.until("the pending offset", by=owner, is_found=1)
        assert found.key.topic == "__consumer_offsets"
        told: list[PendingHold] = []

        async def is_told() -> bool:
            async with database.unit_of_work() as uow:
                look = await hanging.look(uow, server.observations, cluster="prod", now=datetime.now(UTC))
            told[:] = [one for one in look.pending if one.group == group]
            return bool(told)

        # The search is quicker than the reading of the group's journal may be.
        await wait_for_async(is_told, _WITHIN_S, lambda: f"the group's offset; seen {server.observations.of('prod')}")
        (pending,) = told
        assert ((pending.topic, pending.partition), pending.offset, pending.is_hanging) == (at, 1, True)
        assert pending.journal_partition == found.key.partition
        run_tool(
            TRANSACTIONS,
            *("--bootstrap-server", scene.bootstrap_servers, "abort", "--topic", found.key.topic),
            *("--partition", str(found.key.partition), "--start-offset", str(found.key.start_offset)),
        )
        await server.until("the end of it", by=owner, is_found=0)
