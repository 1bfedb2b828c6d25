"""The auditor with real brokers and Spark: an audit of a pipeline with files, from request to verdict."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import pytest

from app.core.clusters.partition import Partition
from app.core.pipelines.pipeline import FileSink
from app.core.wire.file_references import encode
from app.edges.db.database import Database
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.admin import KafkaBrokers
from app.kit.clock import SystemClock
from app.products.audits.audit import AuditState
from app.products.audits.result import AuditVerdict, FindingTally
from app.products.audits.service import asking
from app.products.audits.service.asking import Wish
from app.products.audits.specification import JsonField, OffsetRange, OffsetWindow
from tests.conftest import MakeTopic
from tests.products.audits.spark.test_auditor import Servers, audit_until_over
from tests.support.audited_files import write_ids
from tests.support.audits import Writer
from tests.support.control_plane import ANNA, ControlPlane


@pytest.fixture
def writer(kafka: KafkaCluster) -> Generator[Writer]:
    made = Writer(kafka.bootstrap_servers)
    yield made
    made.close()


@pytest.fixture
async def brokers() -> AsyncGenerator[KafkaBrokers]:
    made = KafkaBrokers(environment={}, secrets_dir=None)
    yield made
    await made.close()


@pytest.mark.slow
async def test_audit_of_files_has_their_roots_and_finds_the_missing_one(
    kafka: KafkaCluster,
    database: Database,
    brokers: KafkaBrokers,
    make_topic: MakeTopic,
    writer: Writer,
    tmp_path: Path,
    worker_cache: Path,
) -> None:
    source, sink, root = make_topic(partitions=1), make_topic(partitions=1), tmp_path / "files"
    ids = [f"id-{number}" for number in range(50)]
    writer.write(source, ids)
    files = [
        write_ids(root, number, ids[at : at + 10], pipeline="flights", inputs=[(source, 0, at, at + 9)])
        for number, at in enumerate(range(0, 50, 10))
    ]
    writer.write_values(sink, [(one.path.encode(), encode(one)) for one in files])
    (root / files[3].path).unlink()
    plane = ControlPlane(database)
    await plane.registered(brokers, kafka.bootstrap_servers, name="test")
    await plane.pipeline(
        "flights", source_topics=(source,), sink_topic=sink, group_id=source, files=FileSink(root=root.as_uri())
    )
    connection = {"bootstrap.servers": kafka.bootstrap_servers}
    await brokers.alter_offsets(connection, source, {Partition(source, 0): 50})
    servers = Servers(plane=plane, brokers=brokers, state_dir=tmp_path / "state", cache_dir=worker_cache)
    wish = Wish(
        window=OffsetWindow(ranges=(OffsetRange(topic=source, partition=0, start=0, end=50),)),
        id_place=JsonField(path="id"),
    )
    async with plane.uow() as uow:
        asked = await asking.ask_audit(uow, pipeline="flights", wish=wish, by=ANNA, why=None, now=SystemClock().now())
        await uow.commit()
    done = await audit_until_over(servers.auditor(), plane, asked.id)
    assert done.state is AuditState.DONE, done.reason
    assert done.result is not None
    assert done.verdict is AuditVerdict.BROKEN
    assert done.result.counts.dangling == FindingTally(ids=1, records=10)
    assert done.result.counts.lost == FindingTally(ids=10, records=10)
