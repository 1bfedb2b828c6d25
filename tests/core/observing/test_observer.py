"""The clusters that are read: the registered ones, also during an outage of Postgres."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import UTC, datetime

import pytest

from app.core.clusters.cluster import Cluster
from app.core.clusters.store import ClusterStore
from app.core.journals.live_transactions import LiveTransaction
from app.core.observing.loops.cluster_observer import ClusterObserver
from app.core.observing.loops.observer import Observer
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import ReadingPhase
from app.edges.db.database import Database
from app.kit.clock import SystemClock
from tests.support.observing import state_of, transaction_batch
from tests.support.scripted_brokers import TRANSACTIONS, Script, Store
from tests.support.waiting import wait_for_async


class Loop:
    """The loop with its environment; its brokers are scripted."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.script = Script()
        self.store = Store()
        self.observations = Observations(is_on=True)
        self.stepped: list[tuple[str, str]] = []
        self.observer = Observer(
            unit_of_work=database.unit_of_work,
            journals=self.script,
            store=self.store,
            observations=self.observations,
            clock=SystemClock(),
            where="here",
            on_steps=self._on_steps,
        )

    def _on_steps(self, cluster: Cluster, stepped: Sequence[LiveTransaction]) -> None:
        self.stepped += [(cluster.name, one.transactional_id) for one in stepped]

    async def register(self, name: str, *, address: str = "127.0.0.1:1") -> None:
        async with self.database.unit_of_work() as uow:
            await uow.of(ClusterStore).add(
                Cluster(
                    name=name,
                    kafka_cluster_id="kafka-1",
                    bootstrap_servers=address,
                    created_at=datetime.now(UTC),
                    created_by="somebody",
                )
            )
            await uow.commit()

    async def remove(self, name: str) -> None:
        async with self.database.unit_of_work() as uow:
            await uow.of(ClusterStore).remove(name)
            await uow.commit()

    async def until(self, condition: Callable[[], object], what: str) -> None:
        async def holds() -> object:
            return condition()

        await wait_for_async(holds, 30, what)

    def phase(self, name: str) -> ReadingPhase:
        return self.observations.of(name).transaction_journal.phase


@pytest.fixture
async def loop(database: Database) -> AsyncGenerator[Loop]:
    made = Loop(database)
    yield made
    await made.observer.close()


async def test_cluster_is_read_from_its_registration_to_its_removal(loop: Loop) -> None:
    await loop.observer.turn()
    assert loop.observations.all() == []
    await loop.register("c")
    loop.script.logs[TRANSACTIONS].append(transaction_batch("a", state_of(), at=0))
    await loop.observer.turn()
    await loop.observer.turn()
    await loop.until(lambda: loop.observations.of("c").transactions, "the id of the cluster")
    assert loop.script.opened == 1
    await loop.remove("c")
    await loop.observer.turn()
    assert loop.observations.all() == []


async def test_abandoned_reader_is_ignored(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen broker blocks its thread; the cluster may be removed before the thaw."""
    left: list[ClusterObserver] = []

    def is_left(reader: ClusterObserver) -> bool:
        left.append(reader)
        return False

    await loop.register("c")
    await loop.observer.turn()
    await loop.until(lambda: loop.phase("c") is ReadingPhase.LIVE, "the journal is read")
    with monkeypatch.context() as patched:
        patched.setattr(ClusterObserver, "stop", is_left)
        await loop.remove("c")
        await loop.observer.turn()
    loop.script.logs[TRANSACTIONS].append(transaction_batch("a", state_of(), at=0))
    await loop.until(lambda: loop.stepped, "what it reads then")
    assert loop.observations.all() == []
    assert await asyncio.to_thread(left[0].stop)


async def test_steps_reach_the_event_loop_with_their_cluster(loop: Loop) -> None:
    await loop.register("c")
    loop.script.logs[TRANSACTIONS].append(transaction_batch("a", state_of(), at=0))
    await loop.observer.turn()
    await loop.until(lambda: loop.stepped, "a step")
    assert loop.stepped == [("c", "a")]


async def test_reading_continues_while_postgres_is_away(loop: Loop) -> None:
    await loop.register("c")
    await loop.observer.turn()
    await loop.until(lambda: loop.phase("c") is ReadingPhase.LIVE, "the journal is read")
    # What the supervisor does when the lock is lost, as it is with Postgres.
    loop.observer.interrupted()
    loop.script.logs[TRANSACTIONS].append(transaction_batch("a", state_of(), at=0))
    await loop.until(lambda: loop.observations.of("c").transactions, "what was written meanwhile")


async def test_end_saves_the_state(loop: Loop) -> None:
    await loop.register("c")
    loop.script.logs[TRANSACTIONS].append(transaction_batch("a", state_of(), at=0))
    await loop.observer.turn()
    await loop.until(lambda: loop.observations.of("c").transactions, "the id")
    await loop.observer.close()
    assert loop.store.saved is not None
    assert set(loop.store.saved.transactions.ids) == {"a"}
