"""An instance as spark-submit starts it, without a server: specification, launcher, and outcome."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from app.edges.embedded.kafka import KafkaCluster
from app.edges.embedded.spark import SparkCluster
from tests.support.spark_instances import SparkInstances


@pytest.fixture
def spark_instances(
    kafka: KafkaCluster, spark_cluster: SparkCluster, tmp_path: Path, worker_cache: Path
) -> Generator[SparkInstances]:
    """Starts instances on the shared cluster, and kills what a test leaves running."""
    instances = SparkInstances(
        # A space and an umlaut: names that a JVM must be started for (app/kit/utf8_locale.py).
        state_dir=tmp_path / "Zustand ü" / "state",
        cache_dir=worker_cache,
        master=spark_cluster.master_url,
        bootstrap_servers=kafka.bootstrap_servers,
        master_web_urls={spark_cluster.master_url: spark_cluster.master_web_url},
    )
    yield instances
    instances.kill_all()
