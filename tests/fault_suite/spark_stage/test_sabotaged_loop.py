"""A loop that skips records, in real Python workers under a real server: its pipeline is marked red."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from app.core.pipelines.pipeline import SparkSettings
from app.edges.embedded.kafka import KafkaCluster
from app.edges.embedded.spark import SparkCluster
from tests.fault_suite.copier import Copier
from tests.fault_suite.freeze_points import FreezePoints
from tests.fault_suite.spark_stage.control_plane import ControlPlane
from tests.mutations.switches import Switch, environment_of
from tests.support.feeder import Feeder
from tests.support.pipelines import TestPipeline
from tests.support.topics import unique_name
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow

_MARKED_S = 90.0
MARK = '<a class="pill bad" href="/pipelines/{name}/offsets">contradicted</a>'


@pytest.fixture
def plane(tmp_path: Path, seed: int, off: tuple[Switch, ...]) -> Generator[ControlPlane]:
    """Its tasks abort every third transaction; `off` are what they do without."""
    copier = Copier(records=200, aborted=1 / 3, seed=seed)
    changed = FreezePoints(tmp_path / "freeze").environment_of(
        {**os.environ, **copier.environment(), **environment_of(off)}
    )
    with (
        SparkCluster.start(workers=1, data_dir=tmp_path / "spark", environment=changed) as spark,
        ControlPlane(tmp_path, state_dir=tmp_path / "state", spark=spark) as plane,
    ):
        yield plane


@pytest.mark.parametrize("off", [(), (Switch.REWIND,)], ids=["as it is", "without going back"])
def test_a_loop_that_goes_on_after_an_abort_marks_its_pipeline_red(
    plane: ControlPlane, kafka: KafkaCluster, off: tuple[Switch, ...]
) -> None:
    pipeline = TestPipeline.create(
        kafka.bootstrap_servers,
        cluster=plane.server.registered_cluster(kafka.bootstrap_servers),
        instances=1,
        spark=SparkSettings(master=plane.spark.master_url),
    )
    plane.start_run(unique_name("marked"), pipeline.definition)
    feeder = Feeder(pipeline, records_per_s=400)
    feeder.start()
    try:
        log = checked_after_an_abort(plane, wants_findings=bool(off))
    finally:
        feeder.stop()
    mark = MARK.format(name=plane.name)
    if not off:
        assert log["last"]["standing"] != "contradicted", log["last"]
        assert log["findings"] == []
        assert mark not in plane.server.look("/pipelines")
        return
    # While it runs it finds more and more, and pages show some of them.
    plane.drain()
    gap = plane.server.get(f"/pipelines/{plane.name}/offset-log")["findings"][0]["finding"]
    assert (gap["kind"], gap["topic"]) == ("gap", pipeline.source)
    assert plane.server.get(f"/pipelines/{plane.name}/offset-log/check")["standing"] == "contradicted"
    assert mark in plane.server.look("/pipelines")
    assert "its offset events contradict each other" in plane.server.look(f"/pipelines/{plane.name}")
    assert gap["message"] in plane.server.look(f"/pipelines/{plane.name}/offsets")
    assert pipeline.audit().lost, "records were skipped in truth"


def checked_after_an_abort(plane: ControlPlane, *, wants_findings: bool) -> dict[str, Any]:
    """The findings of the live check once it has seen transactions after aborted ones."""

    def log() -> dict[str, Any]:
        return plane.server.get(f"/pipelines/{plane.name}/offset-log")

    def is_checked() -> bool:
        last = log()["last"]
        return last is not None and last["figures"]["aborted"] > 3 and last["figures"]["committed"] > 3

    wait_for(lambda: is_checked() and bool(log()["findings"]) >= wants_findings, _MARKED_S, lambda: str(log()))
    return log()
