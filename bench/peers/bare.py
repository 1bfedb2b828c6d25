"""Tasks of Fenceline in processes of their own, without Spark."""

from __future__ import annotations

import multiprocessing
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import msgspec

from app.core.pipelines.pipeline import PipelineDefinition, ProcessingGuarantee
from app.core.wire.heartbeat import DesiredTaskState
from bench.identity_loop import SilentControl
from workers.loop.control import TaskSpecification
from workers.loop.task import run_task
from workers.transforms.build import build

_DRAINED_WITHIN_S = 60.0


class _Told(SilentControl):
    """Runs, or is paused, until it is drained."""

    def __init__(self, drains: Any, pauses: Any) -> None:
        self._drains = drains
        self._pauses = pauses

    def desired(self) -> DesiredTaskState:
        if self._drains.is_set():
            return DesiredTaskState.DRAIN
        return DesiredTaskState.PAUSE if self._pauses.is_set() else DesiredTaskState.RUN


def _run(encoded: bytes, drains: Any, pauses: Any) -> None:
    specification = msgspec.json.decode(encoded, type=TaskSpecification)
    definition = specification.definition
    transform = build(definition.transform, source=specification.transform_source, sink_topic=definition.sink_topic)
    run_task(specification, _Told(drains, pauses), transform=transform)


class BareTasks:
    """All tasks of one instance, from `start` to `drain` or `kill`."""

    def __init__(
        self, bootstrap_servers: str, chosen: PipelineDefinition, *, transform_source: str | None = None
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._drains, self._pauses = context.Event(), context.Event()
        has_id = chosen.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2
        specifications = (
            TaskSpecification(
                pipeline="bench",
                run_id="bench",
                ordinal=0,
                lease=1,
                task=task,
                attempt=0,
                definition=chosen,
                client_config={"bootstrap.servers": bootstrap_servers},
                transactional_id=f"fl.t.{chosen.group_id}.0.{task}" if has_id else None,
                transform_source=transform_source,
            )
            for task in range(chosen.tasks_per_instance)
        )
        self._processes = [
            context.Process(target=_run, args=(msgspec.json.encode(each), self._drains, self._pauses))
            for each in specifications
        ]

    @property
    def pids(self) -> list[int]:
        return [process.pid or 0 for process in self._processes]

    def start(self) -> None:
        for process in self._processes:
            process.start()

    def check(self) -> None:
        """Raises AssertionError when a task has ended by itself."""
        assert all(process.is_alive() for process in self._processes), "a task has ended"

    def pause(self) -> None:
        self._pauses.set()

    def resume(self) -> None:
        self._pauses.clear()

    def drain(self) -> None:
        self.check()
        self._drains.set()
        for process in self._processes:
            process.join(_DRAINED_WITHIN_S)
            assert process.exitcode == 0, f"a task did not drain: {process.exitcode}"

    def kill(self) -> None:
        for process in self._processes:
            if process.pid is not None:
                process.kill()
                process.join()


@contextmanager
def bare_tasks(
    bootstrap_servers: str, chosen: PipelineDefinition, *, transform_source: str | None = None
) -> Generator[BareTasks]:
    """Started, and drained at the end of the block."""
    tasks = BareTasks(bootstrap_servers, chosen, transform_source=transform_source)
    try:
        tasks.start()
        yield tasks
        tasks.drain()
    finally:
        tasks.kill()
