"""Several names for one Kafka cluster: it is read once, and shown under each."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from app.core.clusters.cluster import Cluster
from app.core.clusters.store import ClusterStore
from app.core.observing.loops.observer import Observer
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import ReadingPhase
from app.kit.clock import SystemClock
from tests.support.observing import state_of, transaction_batch
from tests.support.scripted_brokers import TRANSACTIONS, Script, Store
from tests.support.unit_of import UnitOf
from tests.support.waiting import wait_for_async

OLD = Cluster(
    name="old",
    kafka_cluster_id="kafka-1",
    bootstrap_servers="127.0.0.1:1",
    created_at=datetime(2026, 1, 31, tzinfo=UTC),
    created_by="somebody",
)
# The first by its name.
NEW = msgspec.structs.replace(OLD, name="another", created_at=OLD.created_at + timedelta(days=1))


class Registered:
    """The registered clusters, and nothing else of a unit of work."""

    def __init__(self) -> None:
        self.listed: list[Cluster] = []

    async def list_all(self) -> list[Cluster]:
        return self.listed

    def unit_of_work(self) -> UnitOf:
        return UnitOf({ClusterStore: self})


class Loop:
    def __init__(self) -> None:
        self.registered = Registered()
        self.script = Script()
        self.script.logs[TRANSACTIONS].append(transaction_batch("a", state_of(), at=0))
        self.observations = Observations(is_on=True)
        self.observer = Observer(
            unit_of_work=self.registered.unit_of_work,
            journals=self.script,
            store=Store(),
            observations=self.observations,
            clock=SystemClock(),
            where="here",
        )

    async def turn(self, *registered: Cluster) -> None:
        self.registered.listed = sorted(registered, key=lambda one: one.name)
        await self.observer.turn()

    async def until_shown(self, *names: str) -> None:
        await self.until(
            lambda: all(self.observations.of(name).transactions for name in names), f"the id under {names}"
        )

    async def until(self, condition: Callable[[], object], what: str) -> None:
        async def holds() -> object:
            return condition()

        await wait_for_async(holds, 30, lambda: f"{what}; there is {self.observations.all()}")


@pytest.fixture
async def loop() -> AsyncGenerator[Loop]:
    made = Loop()
    yield made
    await made.observer.close()


async def test_cluster_of_two_names_is_read_once_and_shown_under_both(loop: Loop) -> None:
    await loop.turn(OLD, NEW)
    await loop.until_shown("old", "another")
    assert loop.script.opened == 1
    old, new = loop.observations.of("old"), loop.observations.of("another")
    assert (old.cluster, old.note) == ("old", "")
    assert new.cluster == "another"
    assert "the same Kafka cluster as old" in new.note


async def test_second_name_does_not_change_the_reading(loop: Loop) -> None:
    await loop.turn(OLD)
    await loop.until_shown("old")
    await loop.turn(OLD, NEW)
    await loop.until_shown("another")
    await loop.turn(OLD)
    assert [one.cluster for one in loop.observations.all()] == ["old"]
    before = loop.observations.of("old").at_ms
    await loop.until(lambda: loop.observations.of("old").at_ms > before, "it is read on")
    assert [one.cluster for one in loop.observations.all()] == ["old"]
    assert loop.script.opened == 1


async def test_next_name_is_read_after_the_oldest_is_removed(loop: Loop) -> None:
    await loop.turn(OLD, NEW)
    await loop.until_shown("another")
    await loop.turn(NEW)
    await loop.until(
        lambda: loop.observations.of("another").transaction_journal.phase is ReadingPhase.LIVE,
        "the cluster under its new name",
    )
    assert [(one.cluster, one.note) for one in loop.observations.all()] == [("another", "")]
    assert loop.script.opened == 2


async def test_other_clusters_have_readers_of_their_own(loop: Loop) -> None:
    await loop.turn(OLD, msgspec.structs.replace(NEW, kafka_cluster_id="kafka-2"))
    await loop.until(lambda: loop.script.opened >= 2, "both are asked")
    await loop.until_shown("old")
    assert loop.observations.of("another").transactions == {}
