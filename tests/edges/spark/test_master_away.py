"""A standalone master that does not answer: the driver's outcome."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from app.edges.embedded.ports import free_ports
from tests.support.spark_instances import SparkInstances
from workers.spark.exit_codes import DriverExitCode

pytestmark = pytest.mark.slow


@pytest.fixture
def instances(tmp_path: Path, worker_cache: Path) -> Generator[SparkInstances]:
    (port,) = free_ports(1)
    made = SparkInstances(
        state_dir=tmp_path / "state",
        cache_dir=worker_cache,
        master=f"spark://127.0.0.1:{port}",
        bootstrap_servers="127.0.0.1:1",
    )
    yield made
    made.kill_all()


@pytest.mark.faults(keep=2, of="slow ends of Spark applications")
def test_a_master_that_is_away_is_named_in_the_outcome(instances: SparkInstances) -> None:
    started = instances.submit(instances.specification(instances.definition(source="in", sink="out")))
    # Spark itself knocks three times, 20 s apart.
    outcome = started.wait_until_gone(deadline_s=180).outcome
    assert outcome is not None, started.log()[-3000:]
    assert outcome.kind == "failed"
    assert outcome.message.startswith(f"the Spark master {instances.master} did not take the application: ")
    assert outcome.message.endswith(", or change the pipeline's master")
    assert "\n" not in outcome.message
    assert started.exit_code() == DriverExitCode.FAILED
