"""The tasks of `bench.guarantees`, in processes of their own, and what can be seen of these from outside."""

from __future__ import annotations

import ctypes
import multiprocessing
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psutil

from app.core.ids import transactional_id
from app.core.pipelines.pipeline import PipelineDefinition, ProcessingGuarantee, SparkSettings
from app.core.wire.heartbeat import DesiredTaskState
from app.core.wire.specification import MappedPartition
from bench.guarantee_scene import DEADLINE_S, Scene
from bench.identity_loop import SilentControl
from workers.loop.control import TaskSnapshot, TaskSpecification
from workers.loop.task import run_task
from workers.transforms.identity import IdentityTransform

TASKS = 2


class Shared(NamedTuple):
    """The messages from and to a task's process."""

    goes: Any
    partitions: Any
    p50_ms: Any
    p99_ms: Any

    @classmethod
    def new(cls) -> Shared:
        context = multiprocessing.get_context("spawn")
        return cls(context.Event(), *(context.Value(kind) for kind in (ctypes.c_int, ctypes.c_double, ctypes.c_double)))


class TellingControl(SilentControl):
    """Paused until it may go; says how many partitions it has and what its commits take."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    def desired(self) -> DesiredTaskState:
        return DesiredTaskState.RUN if self._shared.goes.is_set() else DesiredTaskState.PAUSE

    def publish(self, snapshot: TaskSnapshot) -> None:
        self._shared.partitions.value = len(snapshot.partitions)
        self._shared.p50_ms.value = snapshot.commit_latency_p50_ms or 0.0
        self._shared.p99_ms.value = snapshot.commit_latency_p99_ms or 0.0


def _task(encoded: bytes, shared: Shared) -> None:
    specification = msgspec.json.decode(encoded, type=TaskSpecification)
    run_task(specification, TellingControl(shared), transform=IdentityTransform())


def definition(guarantee: ProcessingGuarantee, source: str, sink: str) -> PipelineDefinition:
    return PipelineDefinition(
        cluster="bench",
        source_topics=(source,),
        group_id=f"bench-{uuid.uuid4().hex[:8]}",
        sink_topic=sink,
        processing_guarantee=guarantee,
        tasks_per_instance=TASKS,
        spark=SparkSettings(master="local"),
    )


@contextmanager
def tasks(scene: Scene, chosen: PipelineDefinition, partitions: int) -> Generator[tuple[list[int], list[Shared]]]:
    """Two tasks, each with its half of the partitions, and paused."""
    (source,) = chosen.source_topics
    is_one_each = chosen.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE
    mappings = tuple(
        MappedPartition(
            topic=source,
            partition=number,
            transactional_id=transactional_id.for_partition(
                prefix="fl", group=chosen.group_id, topic=source, partition=number
            ),
        )
        for number in range(partitions)
    )
    shared = [Shared.new() for _ in range(TASKS)]
    processes = [
        multiprocessing.get_context("spawn").Process(
            target=_task,
            args=(
                msgspec.json.encode(
                    TaskSpecification(
                        pipeline="bench",
                        run_id="bench",
                        ordinal=0,
                        lease=1,
                        task=task,
                        attempt=0,
                        definition=chosen,
                        client_config={"bootstrap.servers": scene.bootstrap_servers},
                        transactional_id=None if is_one_each else f"fl.t.{chosen.group_id}.0.{task}",
                        mappings=mappings if is_one_each else (),
                        start_paused=True,
                    )
                ),
                shared[task],
            ),
        )
        for task in range(TASKS)
    ]
    for process in processes:
        process.start()
    try:
        deadline = time.monotonic() + DEADLINE_S
        while [one.partitions.value for one in shared] != [partitions // TASKS] * TASKS:
            assert time.monotonic() < deadline, f"partitions of the tasks: {[one.partitions.value for one in shared]}"
            assert all(process.is_alive() for process in processes), "a task has ended"
            time.sleep(0.1)
        yield [process.pid for process in processes if process.pid is not None], shared
    finally:
        for process in processes:
            process.kill()
            process.join()


def cpu_s(pid: int) -> float:
    """Processor time of a process with all its threads, since it began."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def clients(pid: int) -> int:
    """How many Kafka clients a process has: main threads of librdkafka."""
    found = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        # Threads that make one call end meanwhile; no client does.
        with suppress(FileNotFoundError, ProcessLookupError):
            found += (task / "comm").read_text().strip() == "rdk:main"
    return found
