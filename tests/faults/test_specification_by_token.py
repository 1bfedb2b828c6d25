"""A driver without a file of its server: it fetches its specification with the run's token (no shared file system).

Started here as an external starter of drivers would do: the lease is written, the token is handed over once, the rest
is the driver's. Its folder only holds the token, so that the server knows the process for that lease's.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pyspark
import pytest

from app.core.pipelines.pipeline import SparkSettings
from app.core.pipelines.store import PipelineStore
from app.core.runs.service import instances
from app.core.runs.service.run_endings import begin_run
from app.edges.db.database import Database
from app.edges.embedded.java import find_java
from app.edges.embedded.kafka import KafkaCluster
from app.edges.embedded.spark import SparkCluster
from app.edges.main.products import PARTS
from app.edges.spark import conf, package
from app.edges.spark.instance_files import InstanceFiles
from tests.support.pipelines import TestPipeline
from tests.support.server_process import ServerProcess
from tests.support.topics import unique_name
from workers.spark.exit_codes import DriverExitCode

pytestmark = pytest.mark.slow


@pytest.fixture
def pipeline(server: ServerProcess, kafka: KafkaCluster, spark_cluster: SparkCluster) -> TestPipeline:
    return TestPipeline.create(
        kafka.bootstrap_servers,
        cluster=server.registered_cluster(kafka.bootstrap_servers),
        spark=SparkSettings(master=spark_cluster.master_url),
    )


class Launch:
    """One lease, and drivers that are started for it with nothing but the server's address and the run's token."""

    def __init__(self, server: ServerProcess, pipeline: TestPipeline) -> None:
        name = unique_name("elsewhere")
        server.create_pipeline(name, pipeline.definition)
        self.run_id, token = asyncio.run(_leased(server.database_url, name))
        self.files = InstanceFiles.of(server.state_dir, run_id=self.run_id, ordinal=0, lease=1)
        self.files.local_dir.mkdir(parents=True)
        self._token_file = self.files.folder / "token"
        self._token_file.touch(mode=0o600)
        self._token_file.write_text(token)
        self._server = server
        self._pipeline = pipeline
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        submission = conf.effective(
            self._pipeline.definition,
            application_name="a driver elsewhere",
            python=sys.executable,
            driver_python=sys.executable,
            local_dir=str(self.files.local_dir),
        )
        built = package.build(version="0.0.test", into=self._server.cache_dir / "elsewhere")
        argv = [
            str(Path(pyspark.__file__).parent / "bin" / "spark-submit"),
            *("--master", submission.master),
            *(word for key, value in submission.conf.items() for word in ("--conf", f"{key}={value}")),
            *("--py-files", str(built.archive), str(built.entry_points[package.DRIVER])),
            *("--server", self._server.workers_url, "--token-file", str(self._token_file)),
        ]
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("FENCELINE_")},
            "JAVA_HOME": str(find_java(may_fetch=False).home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": conf.LOOPBACK,
        }
        with self.files.log.open("ab") as log:
            process = subprocess.Popen(argv, stdout=log, stderr=log, env=environment, start_new_session=True)
        self.started.append(process)
        return process

    def log(self) -> str:
        return self.files.log.read_text(errors="replace")


async def _leased(database_url: str, pipeline: str) -> tuple[str, str]:
    """A run whose only instance is being submitted from its first moment on; with the token of its lease."""
    database = Database(database_url, parts=PARTS)
    try:
        async with database.unit_of_work() as uow:
            found = await uow.of(PipelineStore).get(pipeline, for_update=True)
            run = await begin_run(uow, found, started_by="an external starter", now=found.created_at)
            _, token = await instances.begin_submission(
                uow, run_id=run.id, ordinal=0, lease=1, host="elsewhere", now=found.created_at
            )
            await uow.commit()
            return run.id, token
    finally:
        await database.close()


@pytest.fixture
def launch(server: ServerProcess, pipeline: TestPipeline) -> Generator[Launch]:
    made = Launch(server, pipeline)
    yield made
    for process in made.started:
        process.kill()
        process.wait(20)


def test_a_driver_runs_its_fetched_specification_and_nothing_after_its_end(
    server: ServerProcess, pipeline: TestPipeline, launch: Launch
) -> None:
    pipeline.feed(200)
    driver = launch.start()
    server.wait_for_run(launch.run_id, "running", 90)
    assert not launch.files.specification.exists()
    pipeline.feed(200)
    server.post(f"/runs/{launch.run_id}/drain")
    run = server.wait_for_run(launch.run_id, "stopped", 60)
    assert run["instances"][0]["outcome"]["kind"] == "drained", launch.log()[-3000:]
    assert driver.wait(30) == DriverExitCode.DRAINED

    again = launch.start()
    assert again.wait(60) == DriverExitCode.NO_SPECIFICATION, launch.log()[-3000:]
    assert f"lease 1 of instance 0 of run {launch.run_id} has ended" in launch.log()
