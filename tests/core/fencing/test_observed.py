"""From a broker's journal to a fencing event in Postgres."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.core.clusters.store import ClusterStore
from app.core.fencing.fencing_event import FencingCause
from app.core.fencing.loop import FencingRecorder
from app.core.fencing.record import FencingFilter, FencingRecord
from app.core.fencing.store import FencingStore
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import ReadingPhase
from app.edges.db.database import Database
from app.edges.embedded.kafka import KafkaCluster
from app.kit.clock import SystemClock
from tests.conftest import MakeTopic
from tests.edges.kafka.test_raw_fetch import produce
from tests.support.topics import unique_name
from tests.support.waiting import wait_for_async
from tests.support.watched import cluster_at, observer_of

_TIMEOUT_S = 30.0


@pytest.mark.slow
async def test_takeover_of_a_foreign_id_is_a_fencing_event_and_commits_are_none(
    kafka: KafkaCluster, make_topic: MakeTopic, database: Database, tmp_path: Path
) -> None:
    observations, clock = Observations(is_on=True), SystemClock()
    recorder = FencingRecorder(unit_of_work=database.unit_of_work, clock=clock, where="here")
    observer = observer_of(database, tmp_path, observations, on_steps=recorder.take)
    async with database.unit_of_work() as uow:
        await uow.of(ClusterStore).add(cluster_at(kafka.bootstrap_servers, kafka.cluster_id))
        await uow.commit()
    topic, taken, quiet = make_topic(), unique_name("taken"), unique_name("quiet")
    try:
        await observer.turn()

        async def is_followed() -> bool:
            return observations.of("c").transaction_journal.phase in (ReadingPhase.LIVE, ReadingPhase.ABSENT)

        await wait_for_async(is_followed, _TIMEOUT_S, lambda: f"the journal is followed: {observations.of('c')}")

        def play() -> None:
            produce(kafka.bootstrap_servers, topic, ["x"], transactional_id=quiet).commit_transaction(_TIMEOUT_S)
            produce(kafka.bootstrap_servers, topic, ["x"], transactional_id=taken)
            produce(kafka.bootstrap_servers, topic, ["x"], transactional_id=taken).commit_transaction(_TIMEOUT_S)

        await asyncio.to_thread(play)

        async def events() -> list[FencingRecord]:
            await recorder.turn()
            async with database.unit_of_work() as uow:
                found = (await uow.of(FencingStore).list(FencingFilter(), after=None, limit=500)).items
            return [one for one in found if one.event.key.transactional_id in (taken, quiet)]

        (event,) = await wait_for_async(events, _TIMEOUT_S, "the takeover as an event")
        assert event.event.key.transactional_id == taken
        assert event.event.verdict.cause is FencingCause.TAKEOVER
    finally:
        await observer.close()
