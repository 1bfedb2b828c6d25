"""A Python file of an author, uploaded, on real executors: it runs there, and a killed worker changes nothing."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Mapping

import pytest

from app.core.pipelines.pipeline import PythonFunction, PythonScope, Transform
from tests.support import verifier
from tests.support.fault_figures import measured
from tests.support.running_pipeline import RunningPipeline
from tests.support.server_process import ServerProcess

pytestmark = [pytest.mark.faults, pytest.mark.slow]

SOURCE = """
import os

from workers.transforms.record import Record


def mark(record: Record) -> Record:
    identity, _, _ = (record.value or b"").partition(b" ")
    return record.replace(value=identity + b" seen by %d" % os.getpid())


def mark_all(records: list[Record]) -> list[list[Record]]:
    return [[mark(record)] for record in records]
"""


@pytest.fixture(scope="module")
def more_settings() -> Mapping[str, str]:
    return {"FENCELINE_PYTHON_TRANSFORMS": "true"}


@pytest.fixture(scope="module", params=[("mark", PythonScope.RECORD), ("mark_all", PythonScope.BATCH)], ids="-".join)
def transform(request: pytest.FixtureRequest, server: ServerProcess) -> Transform:
    server.upload(SOURCE)
    function, scope = request.param
    sha256 = hashlib.sha256(SOURCE.encode()).hexdigest()
    return PythonFunction(function=function, scope=scope, file_name="mark.py", sha256=sha256)


@pytest.mark.faults(keep=1)
def test_a_worker_that_dies_in_an_uploaded_function_loses_and_duplicates_nothing(running: RunningPipeline) -> None:
    before = running.tasks()
    with measured(running, "Python worker with a Python transform"):
        os.kill(before[0].pid, signal.SIGKILL)
        after = running.wait_until_another_attempt_committed(before[0], 60)
    assert (after.lease, after.attempt) == (before[0].lease, before[0].attempt + 1)
    running.feeder.stop()
    running.server.post(f"/runs/{running.run_id}/drain")
    running.server.wait_for_run(running.run_id, "stopped", 60)
    running.pipeline.assert_whole()
    found = verifier.read_all(running.pipeline.bootstrap_servers, running.pipeline.sink)
    marked_by = {int((record.value or b"").rpartition(b" seen by ")[2]) for record in found}
    assert {before[0].pid, before[1].pid, after.pid} <= marked_by, "each of the three workers ran the function"
