"""The three growths, each on a server of its own whose size goes up step by step.

pipelines   0, 1, 5 … 50 pipelines, each with one instance of two tasks that report
tasks       0, 1, 10 … 200 tasks that report, of one pipeline; its twenty instances have a driver from the beginning
ids         10, 1,000 … 50,000 transactional ids, among which 200 transactions a second go round at every size, while
            ten tasks report and somebody has the list of ids open
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.wire.specification import InstanceSpecification
from bench.growth.ids import going_round, watched, written
from bench.growth.measuring import step
from bench.growth.server import CLUSTER, MeasuredServer, measured_server
from bench.growth.workers import PARTITIONS_PER_TASK, SimulatedWorkers
from tests.support.topics import create_topic

PIPELINES = (0, 1, 5, 10, 25, 50)
TASKS = (0, 1, 10, 50, 100, 200)
IDS = (10, 1_000, 10_000, 50_000)
TASKS_PER_PIPELINE = 2
INSTANCES = 20
TASKS_BESIDE_IDS = 10


class Growing:
    """A server, its simulated workers, and the seconds of each step."""

    def __init__(self, server: MeasuredServer, name: str, *, settle_s: float, measure_s: float) -> None:
        self.server = server
        self.workers = SimulatedWorkers(server)
        self._name = name
        self._settle_s = settle_s
        self._measure_s = measure_s

    def step(self, size: int) -> dict[str, object]:
        found = step(self.server, self.workers, size, settle_s=self._settle_s, measure_s=self._measure_s)
        said = ", ".join(f"{key} {value}" for key, value in found.items() if key not in ("size", "heaviest"))
        print(f"{self._name}: {size}: {said}", file=sys.stderr, flush=True)
        return found

    def begin_pipeline(self, name: str, *, instances: int, tasks: int) -> list[InstanceSpecification]:
        """Create and start it by REST; its instances are claimed, and their drivers report. No task does yet."""
        process = self.server.process
        source, sink = f"{name}-in", f"{name}-out"
        create_topic(self.server.bootstrap_servers, source, partitions=instances * tasks * PARTITIONS_PER_TASK)
        create_topic(self.server.bootstrap_servers, sink)
        definition = PipelineDefinition(
            cluster=CLUSTER,
            source_topics=(source,),
            group_id=name,
            sink_topic=sink,
            instances=instances,
            tasks_per_instance=tasks,
        )
        process.create_pipeline(name, definition)
        run_id = process.post(f"/pipelines/{name}/runs")["id"]
        return [self.workers.begin_instance(run_id, ordinal) for ordinal in range(instances)]


@contextmanager
def _growing(name: str, settle_s: float, measure_s: float) -> Generator[Growing]:
    print(f"{name}: broker, Postgres and server start", file=sys.stderr, flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="fenceline-bench-") as folder,
        measured_server(Path(folder)) as server,
    ):
        growing = Growing(server, name, settle_s=settle_s, measure_s=measure_s)
        try:
            yield growing
        finally:
            growing.workers.leave()


def pipelines(settle_s: float, measure_s: float) -> dict[str, object]:
    steps: list[dict[str, object]] = []
    with _growing("pipelines", settle_s, measure_s) as growing:
        there = 0
        for size in PIPELINES:
            for number in range(there, size):
                (specification,) = growing.begin_pipeline(f"growth-{number}", instances=1, tasks=TASKS_PER_PIPELINE)
                for task in range(TASKS_PER_PIPELINE):
                    growing.workers.begin_task(specification, task)
            there = size
            steps.append(growing.step(size))
    return {"tasks_of_each": TASKS_PER_PIPELINE, "steps": steps}


def tasks(settle_s: float, measure_s: float) -> dict[str, object]:
    steps: list[dict[str, object]] = []
    each = TASKS[-1] // INSTANCES
    with _growing("tasks", settle_s, measure_s) as growing:
        specifications = growing.begin_pipeline("growth", instances=INSTANCES, tasks=each)
        there = 0
        for size in TASKS:
            for number in range(there, size):
                growing.workers.begin_task(specifications[number % INSTANCES], number // INSTANCES)
            there = size
            steps.append(growing.step(size))
    return {"instances": INSTANCES, "partitions_of_each": PARTITIONS_PER_TASK, "steps": steps}


def ids(settle_s: float, measure_s: float) -> dict[str, object]:
    steps: list[dict[str, object]] = []
    with _growing("ids", settle_s, measure_s) as growing:
        (specification,) = growing.begin_pipeline("growth", instances=1, tasks=TASKS_BESIDE_IDS)
        for task in range(TASKS_BESIDE_IDS):
            growing.workers.begin_task(specification, task)
        there = 0
        for size in IDS:
            read_s = written(growing.server, there, size)
            there = size
            with going_round(growing.server.bootstrap_servers, size), watched(growing.server) as frames:
                found = growing.step(size)
            steps.append({**found, "seconds_until_read": read_s, "frames": frames.count})
    return {"tasks_beside": TASKS_BESIDE_IDS, "steps": steps}


GROWTHS: dict[str, Callable[[float, float], dict[str, object]]] = {"pipelines": pipelines, "tasks": tasks, "ids": ids}
