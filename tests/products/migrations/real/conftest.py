"""A pipeline that migrates on the shared broker, with processes for its instances."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from app.edges.db.database import Database
from app.edges.embedded.kafka import KafkaCluster
from tests.support.migrating_tasks import MigratingTasks
from tests.support.pipelines import TestPipeline
from tests.support.topics import delete_topics


@pytest.fixture
async def migrating(kafka: KafkaCluster, database: Database, tmp_path: Path) -> AsyncGenerator[MigratingTasks]:
    pipeline = TestPipeline.create(
        kafka.bootstrap_servers, partitions=6, commit_interval_ms=1_000, transaction_timeout_ms=30_000
    )
    one = MigratingTasks.of(database, pipeline, tmp_path)
    yield one
    await one.close()
    delete_topics(kafka.bootstrap_servers, [pipeline.source, pipeline.sink])
