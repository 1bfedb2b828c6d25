"""A comparison of a server, with real brokers and Spark: from the request to the stored result."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import msgspec
import pytest

from app.core.allow_lists.options import AllowedOptions
from app.core.clusters.partition import Partition
from app.edges.db.database import Database
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.admin import KafkaBrokers
from app.kit.clock import SystemClock
from app.products.audits.audit import AuditState
from app.products.audits.comparison import Comparison, FilesBaseline
from app.products.audits.service import asking
from app.products.audits.service.asking import Wish
from app.products.audits.specification import JsonField
from tests.conftest import MakeTopic
from tests.products.audits.spark.test_auditor import Servers, audit_until_over
from tests.products.audits.spark.test_comparison_job import as_parquet
from tests.support.audits import Writer
from tests.support.comparisons import WINDOW, assert_planted, planted
from tests.support.control_plane import ANNA, ControlPlane


@pytest.fixture
def writer(kafka: KafkaCluster) -> Generator[Writer]:
    made = Writer(kafka.bootstrap_servers)
    yield made
    made.close()


@pytest.fixture
async def brokers() -> AsyncGenerator[KafkaBrokers]:
    made = KafkaBrokers(environment=os.environ, secrets_dir=None)
    yield made
    await made.close()


@pytest.mark.slow
async def test_pipeline_is_compared_with_the_files_of_another_system(
    kafka: KafkaCluster,
    database: Database,
    brokers: KafkaBrokers,
    make_topic: MakeTopic,
    writer: Writer,
    tmp_path: Path,
    worker_cache: Path,
) -> None:
    source, sink = make_topic(partitions=1), make_topic(partitions=1)
    there, here = planted()
    values = [(None, msgspec.json.encode(record)) for record in here]
    writer.write_values(source, values, at_ms=WINDOW.start_ms)
    writer.write_values(sink, values, at_ms=lambda index: here[index]["at"])
    files = FilesBaseline(format=as_parquet(tmp_path / "old", there), location=(tmp_path / "old").as_uri())
    plane = ControlPlane(database)
    await plane.registered(brokers, kafka.bootstrap_servers, name="test")
    await plane.pipeline("flights", source_topics=(source,), sink_topic=sink, group_id=source)
    connection = {"bootstrap.servers": kafka.bootstrap_servers}
    end = (await brokers.offsets(connection, [Partition(source, 0)]))[Partition(source, 0)].high_watermark
    await brokers.alter_offsets(connection, source, {Partition(source, 0): end})
    wish = Wish(
        window=WINDOW,
        is_comparison=True,
        comparison=Comparison(
            baseline=files, time_field="at", baseline_time_field="at", ignored_fields=("at", "hour", "added")
        ),
        id_place=JsonField(path="id"),
        padding_s=0,
    )
    allowed = AllowedOptions(baseline_roots=frozenset({files.location}))
    async with plane.uow() as uow:
        asked = await asking.ask_audit(
            uow, pipeline="flights", wish=wish, by=ANNA, why=None, now=SystemClock().now(), allowed=allowed
        )
        await uow.commit()
    servers = Servers(plane=plane, brokers=brokers, state_dir=tmp_path / "state", cache_dir=worker_cache)
    done = await audit_until_over(servers.auditor(), plane, asked.id)
    assert done.state is AuditState.DONE, done.reason
    assert done.result is not None
    assert_planted(done.result)
    assert done.result.baseline == f"the Parquet files in {files.location}"
