"""Orphans on a real broker, in a real folder and on Postgres: found, collected, and told when that cannot be."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from app.core.access.command import CommandFilter
from app.core.access.service import command_log
from app.core.clusters.cluster import Cluster
from app.core.clusters.store import ClusterStore
from app.core.pipelines.pipeline import ByField, FileSink
from app.core.wire.file_references import FileReference
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.admin import KafkaBrokers
from app.kit.access import Verb
from app.kit.clock import SystemClock
from app.kit.errors import ConflictError
from app.products.files.loops.orphan_watch import OrphanWatch
from app.products.files.orphan_findings import OrphanFindings
from app.products.files.orphan_look import OrphanAct, OrphanLook, OrphanLookState
from app.products.files.orphan_ports import OrphanJob, OrphanOrder
from app.products.files.orphans import CLOCKS_MS
from app.products.files.service.collecting import FileOrphanCollectors
from tests.conftest import MakeTopic
from tests.products.files.reader.conftest import Sink
from tests.support.control_plane import ControlPlane
from tests.support.orphans import asked, begun, collecting, get
from tests.support.waiting import wait_for, wait_for_async

_DEADLINE_S = 60.0
_HOUR_MS = 3_600_000


class Lake:
    """A pipeline with files of every kind: its sink writes at `sink.now_ms`, which begins three hours ago."""

    def __init__(self, plane: ControlPlane, sink: Sink) -> None:
        self.plane = plane
        self.sink = sink
        self.watch = self.watch_with()

    def collectors(self, **options: Any) -> FileOrphanCollectors:
        chosen: dict[str, Any] = {
            "environment": {},
            "secrets_dir": None,
            "allowed_roots": (),
            "patience_s": 20.0,
            **options,
        }
        return FileOrphanCollectors(**chosen)

    def watch_with(self, **options: Any) -> OrphanWatch:
        return OrphanWatch(unit_of_work=self.plane.uow, collectors=self.collectors(**options), clock=SystemClock())

    def is_there(self, reference: FileReference) -> bool:
        return (self.sink.root / reference.path).exists()

    async def over(self, look: OrphanLook) -> OrphanLook:
        """Turns until it has ended."""

        async def turned() -> OrphanLook | None:
            await self.watch.turn()
            now = await get(self.plane, look.id)
            return now if now.has_ended else None

        found = await wait_for_async(turned, _DEADLINE_S, f"the end of the {look.act}")
        assert found is not None
        return found

    async def look(self) -> OrphanLook:
        return await self.over(await asked(self.plane))

    async def collect(self, look: OrphanLook) -> OrphanLook:
        return await self.over(await collecting(self.plane, look.id))

    async def commands(self) -> list[tuple[str, str, str]]:
        async with self.plane.uow() as uow:
            page = await command_log.list_commands(uow, CommandFilter(target="pipeline:flights"))
        return [(one.who, one.verb, one.outcome) for one in page.items]


def found_by(look: OrphanLook) -> OrphanFindings:
    assert look.reason is None
    assert look.findings is not None
    return look.findings


@pytest.fixture
async def lake(database: Any, kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path) -> AsyncGenerator[Lake]:
    now = datetime.now(UTC)
    plane = ControlPlane(database, now=now - timedelta(hours=4))
    topic = make_topic(partitions=2, prefix="files", retention_ms="-1")
    sink = Sink(kafka.bootstrap_servers, topic, tmp_path / "lake")
    sink.now_ms = int(now.timestamp() * 1000) - 3 * _HOUR_MS
    brokers = KafkaBrokers(environment={}, secrets_dir=None)
    cluster = await plane.registered(brokers, kafka.bootstrap_servers)
    await brokers.close()
    files = FileSink(root=f"file://{sink.root}", partition_by=(ByField(name="day", field="day"),))
    await plane.pipeline("flights", cluster=cluster.name, sink_topic=topic, files=files)
    plane.now = now
    made = Lake(plane, sink)
    yield made
    await made.watch.close()
    sink.close()


async def test_the_planted_orphan_is_found_and_collected_and_nothing_else(lake: Lake) -> None:
    sink = lake.sink
    first = sink.upload(1)
    sink.commit(first)
    sink.now_ms += _HOUR_MS
    # As old as the orphans, and beside them in the folder: what keeps it is its reference alone.
    kept = sink.upload(2)
    sink.commit(kept, partition=1)
    aborted = sink.upload(3)
    sink.abort(aborted)
    never = sink.upload(4, 5)
    stranger = sink.root / "flights" / "day=1" / "notes.txt"
    stranger.write_text("not ours")
    os.utime(stranger, (sink.now_ms / 1000, sink.now_ms / 1000))
    sink.now_ms = int(time.time() * 1000)
    young = sink.upload(6)

    look = await lake.look()

    found = found_by(look)
    assert {one.path for one in found.oldest} == {aborted.path, never.path}
    assert found.orphans.files == 2
    assert found.orphans.size_bytes == aborted.size_bytes + never.size_bytes
    assert (found.referenced.files, found.too_young.files, found.not_ours.files) == (2, 1, 1)
    assert (found.unknown.files, found.missing, found.open_uploads) == (0, 0, 0)
    assert all(lake.is_there(one) for one in (first, kept, aborted, never, young))

    collection = await lake.collect(look)

    assert collection.state is OrphanLookState.DONE
    assert collection.collected is not None
    assert collection.collected.deleted == found.orphans
    there = [lake.is_there(one) for one in (first, kept, aborted, never, young)]
    assert there == [True, True, False, False, True]
    assert stranger.exists()
    # What is left after it is known without another look.
    assert found_by(collection).orphans.files == 0
    with pytest.raises(ConflictError, match="nothing to collect"):
        await collecting(lake.plane, collection.id)
    told = await lake.commands()
    assert [(who, verb) for who, verb, _ in told] == [
        ("collector", Verb.COLLECT_ORPHANS),
        ("anna", Verb.COLLECT_ORPHANS),
        ("anna", Verb.LOOK_FOR_ORPHANS),
    ]
    assert "deleted 2 files" in told[0][2]
    assert found_by(await lake.look()).orphans.files == 0


async def test_without_its_reference_the_same_file_is_an_orphan(lake: Lake) -> None:
    """The control of the test above: its referenced file is spared by the reference, not by its age or its place."""
    lake.sink.commit(lake.sink.upload(1))
    lake.sink.now_ms += _HOUR_MS
    twin = lake.sink.upload(2)
    lake.sink.abort(twin, partition=1)
    assert [one.path for one in found_by(await lake.look()).oldest] == [twin.path]


async def test_what_was_too_young_for_the_look_is_not_collected(lake: Lake) -> None:
    """No more goes than somebody has seen, though it has become an orphan meanwhile."""
    sink = lake.sink
    sink.commit(sink.upload(1))
    sink.now_ms += _HOUR_MS
    seen = sink.upload(2)
    young = sink.upload(3)
    os.utime(sink.root / young.path)
    look = await lake.look()
    assert found_by(look).orphans.files == 1
    # Half an hour passes.
    margin_ms = found_by(look).roots[0].margin_ms
    ahead = {"now_ms": lambda: int(time.time() * 1000) + margin_ms + CLOCKS_MS}
    lake.watch = lake.watch_with(**ahead)
    collection = await lake.collect(look)
    assert collection.collected is not None
    assert collection.collected.deleted.files == 1
    assert not lake.is_there(seen)
    assert lake.is_there(young)
    assert [one.path for one in found_by(collection).oldest] == [young.path]


async def test_what_somebody_else_has_deleted_is_not_counted(lake: Lake) -> None:
    sink = lake.sink
    sink.commit(sink.upload(1))
    sink.now_ms += _HOUR_MS
    orphan = sink.upload(2)
    look = await lake.look()
    (sink.root / orphan.path).unlink()
    collection = await lake.collect(look)
    assert collection.state is OrphanLookState.DONE
    assert collection.collected is not None
    assert collection.collected.deleted.files == 0


async def test_a_reference_whose_file_is_gone_is_told(lake: Lake) -> None:
    gone = lake.sink.upload(1)
    lake.sink.commit(gone)
    (lake.sink.root / gone.path).unlink()
    found = found_by(await lake.look())
    assert found.missing == 1
    assert [(one.path, one.place) for one in found.dangling] == [(gone.path, f"{lake.sink.topic}-0@0")]


async def test_an_open_transaction_blocks_looking_and_collecting(lake: Lake) -> None:
    sink = lake.sink
    sink.commit(sink.upload(1))
    sink.now_ms += _HOUR_MS
    orphan = sink.upload(2)
    look = await lake.look()
    assert found_by(look).orphans.files == 1
    sink.producer.begin_transaction()
    sink.write(sink.upload(3))
    lake.watch = lake.watch_with(patience_s=0.5)

    blocked = await lake.look()
    assert blocked.state is OrphanLookState.DONE
    (one,) = found_by(blocked).blocked
    assert (one.topic, one.partition, one.offset) == (sink.topic, 0, 2)
    assert one.transactional_id == "fl.t.flights.0.0"
    assert one.since is not None
    refused = await lake.collect(look)
    assert refused.state is OrphanLookState.FAILED
    assert "is open in" in (refused.reason or "")
    assert lake.is_there(orphan)
    sink.end(commits=False)


async def test_a_store_that_is_away_is_a_reason(lake: Lake) -> None:
    lake.sink.commit(lake.sink.upload(1))
    shutil.rmtree(lake.sink.root)
    over = await lake.look()
    assert over.state is OrphanLookState.FAILED
    assert over.reason == f"the folder file://{lake.sink.root} does not exist on this host"


async def test_brokers_that_are_away_are_a_reason(lake: Lake) -> None:
    await lake.plane.cluster("away", kafka_cluster_id="another-one")
    await lake.plane.revise("flights", cluster="away")
    over = await lake.look()
    assert over.state is OrphanLookState.FAILED
    assert f"the references in {lake.sink.topic} cannot be read" in (over.reason or "")


async def test_another_cluster_at_the_address_is_a_reason(lake: Lake, kafka: KafkaCluster) -> None:
    """It may have a topic of this name, and names none of the files."""
    lake.sink.commit(lake.sink.upload(1))
    lake.sink.now_ms += _HOUR_MS
    orphan = lake.sink.upload(2)
    assert found_by(await lake.look()).orphans.files == 1
    moved = Cluster(
        name="moved",
        kafka_cluster_id="another-one",
        bootstrap_servers=kafka.bootstrap_servers,
        created_at=lake.plane.now,
        created_by="anna",
    )
    async with lake.plane.uow() as uow:
        await uow.of(ClusterStore).add(moved)
        await uow.commit()
    await lake.plane.revise("flights", cluster="moved")
    over = await lake.look()
    assert over.state is OrphanLookState.FAILED
    assert f"has the id {kafka.cluster_id}" in (over.reason or "")
    assert lake.is_there(orphan)


async def test_a_root_that_is_not_allowed_is_not_opened(lake: Lake) -> None:
    lake.watch = lake.watch_with(allowed_roots=("s3://lake/*",))
    over = await lake.look()
    assert over.state is OrphanLookState.FAILED
    assert "FENCELINE_ALLOWED_FILE_ROOTS" in (over.reason or "")


class _StopsAfter:
    """The port `OrphanCollectors`: as soon as so many files are deleted, the job is stopped."""

    def __init__(self, collectors: FileOrphanCollectors) -> None:
        self._collectors = collectors
        self.job: OrphanJob | None = None

    def begin(self, order: OrphanOrder) -> OrphanJob:
        self.job = self._collectors.begin(order)
        wait_for(lambda: self.job is not None and self.job.progress.deleted.files > 0, _DEADLINE_S, "a first file")
        self.job.stop()
        return self.job


async def test_a_stop_in_the_middle_of_deleting_tells_what_is_gone(lake: Lake) -> None:
    sink = lake.sink
    sink.commit(sink.upload(1))
    sink.now_ms += _HOUR_MS
    orphans = [sink.upload(number) for number in range(1_200)]
    look = await lake.look()
    stopping = _StopsAfter(lake.collectors())
    lake.watch = OrphanWatch(unit_of_work=lake.plane.uow, collectors=stopping, clock=SystemClock())
    collection = await lake.collect(look)
    gone = sum(not lake.is_there(one) for one in orphans)
    assert 0 < gone < len(orphans)
    assert collection.state is OrphanLookState.FAILED
    assert "before it was complete" in (collection.reason or "")
    assert collection.collected is not None
    assert collection.collected.deleted.files == gone
    assert collection.collected.aborted_uploads is None
    assert collection.findings is not None
    assert collection.findings.orphans.files == len(orphans) - gone
    # It can be asked again: the rest goes.
    lake.watch = lake.watch_with()
    rest = await lake.collect(collection)
    assert (rest.act, rest.state) == (OrphanAct.COLLECT, OrphanLookState.DONE)
    assert not any(lake.is_there(one) for one in orphans)


async def test_a_stopped_look_ends_its_thread(lake: Lake) -> None:
    lake.sink.producer.begin_transaction()
    lake.sink.write(lake.sink.upload(1))
    found = await begun(lake.plane, await asked(lake.plane))
    assert found is not None
    job = lake.collectors(patience_s=300.0).begin(found[1])
    wait_for(lambda: "waiting for open" in job.progress.told, _DEADLINE_S, "a look that waits for the transaction")
    job.stop()
    wait_for(lambda: job.result is not None, 20, "the end of its thread")
    lake.sink.end(commits=False)
