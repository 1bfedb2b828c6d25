"""One pipeline of two instances under a real server on the shared broker and Spark cluster; every fault hits it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any

import pytest

from app.core.pipelines.pipeline import Identity, SparkSettings, Transform
from app.edges.embedded.kafka import KafkaCluster
from app.edges.embedded.spark import SparkCluster
from tests.support.databases import create_database, drop_database
from tests.support.feeder import Feeder
from tests.support.pipelines import TestPipeline, padded
from tests.support.running_pipeline import RunningPipeline
from tests.support.server_process import ServerProcess
from tests.support.topics import unique_name

HEARTBEAT_TIMEOUT_S = 4


@pytest.fixture(scope="module")
def more_settings() -> Mapping[str, str]:
    """Settings of the server that a module needs beside those below."""
    return {}


@pytest.fixture(scope="module")
def transform() -> Transform:
    """The transform of the pipeline."""
    return Identity()


@pytest.fixture(scope="module")
def more_fields() -> Mapping[str, Any]:
    """Fields of the definition that a module needs beside those below."""
    return {}


@pytest.fixture(scope="module")
def value_of() -> Callable[[str], bytes]:
    """The record that is fed for an id."""
    return padded


@pytest.fixture(scope="module")
def server(
    postgres_server_url: str,
    spark_cluster: SparkCluster,
    tmp_path_factory: pytest.TempPathFactory,
    more_settings: Mapping[str, str],
) -> Generator[ServerProcess]:
    """A server with a database of its own."""
    folder = tmp_path_factory.mktemp("server")
    url = create_database(postgres_server_url)
    server = ServerProcess(
        state_dir=folder / "state",
        cache_dir=folder / "cache",
        database_url=url,
        settings={
            "FENCELINE_SPARK_MASTER_WEB_URLS": f"{spark_cluster.master_url}={spark_cluster.master_web_url}",
            "FENCELINE_HEARTBEAT_TIMEOUT_S": str(HEARTBEAT_TIMEOUT_S),
            **more_settings,
        },
    )
    try:
        server.start()
        yield server
    finally:
        server.process.stop()
        server.end_drivers()
        drop_database(postgres_server_url, url)


@pytest.fixture(scope="module")
def running(
    server: ServerProcess,
    kafka: KafkaCluster,
    spark_cluster: SparkCluster,
    transform: Transform,
    more_fields: Mapping[str, Any],
    value_of: Callable[[str], bytes],
) -> Generator[RunningPipeline]:
    """Two instances of one task, four partitions, fed at a steady rate; both have committed before a test sees it."""
    pipeline = TestPipeline.create(
        kafka.bootstrap_servers,
        partitions=4,
        value_of=value_of,
        # The time of appending, so that the longest gap of a partition can be read off the sink.
        sink_config={"message.timestamp.type": "LogAppendTime"},
        cluster=server.registered_cluster(kafka.bootstrap_servers),
        instances=2,
        transform=transform,
        spark=SparkSettings(master=spark_cluster.master_url),
        **more_fields,
    )
    name = unique_name("faults")
    server.create_pipeline(name, pipeline.definition)
    run_id = str(server.post(f"/pipelines/{name}/runs")["id"])
    feeder = Feeder(pipeline, records_per_s=400)
    running = RunningPipeline(
        name=name, run_id=run_id, pipeline=pipeline, server=server, cluster=spark_cluster, feeder=feeder
    )
    feeder.start()
    try:
        server.wait_for_run(run_id, "running", 120)
        running.wait_until_all_have_committed(60)
        yield running
    finally:
        feeder.stop()
