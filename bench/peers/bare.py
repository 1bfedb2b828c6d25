"""Tasks of Fenceline in processes of their own, without Spark."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import msgspec

from app.domain.pipelines.pipeline import PipelineDefinition, ProcessingGuarantee
from app.wire.heartbeat import DesiredTaskState
from bench.identity_loop import SilentControl
from workers.transactional.control import TaskSpecification
from workers.transactional.task import run_task
from workers.transforms.build import build

_DRAINED_WITHIN_S = 60.0


class _Until(SilentControl):
    """Runs until it is told to drain."""

    def __init__(self, told: Any) -> None:
        self._told = told

    def desired(self) -> DesiredTaskState:
        return DesiredTaskState.DRAIN if self._told.is_set() else DesiredTaskState.RUN


def _run(encoded: bytes, told: Any) -> None:
    specification = msgspec.json.decode(encoded, type=TaskSpecification)
    transform = build(specification.definition.transform, source=specification.transform_source)
    run_task(specification, _Until(told), transform=transform)


@contextmanager
def bare_tasks(
    bootstrap_servers: str, chosen: PipelineDefinition, *, transform_source: str | None = None
) -> Generator[Callable[[], None]]:
    """All tasks of one instance, drained at the end of the block; what it gets raises when one has ended before."""
    context = multiprocessing.get_context("spawn")
    told = context.Event()
    has_id = chosen.processing_guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2
    processes = [
        context.Process(
            target=_run,
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
                        client_config={"bootstrap.servers": bootstrap_servers},
                        transactional_id=f"fl.t.{chosen.group_id}.0.{task}" if has_id else None,
                        transform_source=transform_source,
                    )
                ),
                told,
            ),
        )
        for task in range(chosen.tasks_per_instance)
    ]
    for process in processes:
        process.start()

    def check() -> None:
        assert all(process.is_alive() for process in processes), "a task has ended"

    try:
        yield check
        check()
        told.set()
        for process in processes:
            process.join(_DRAINED_WITHIN_S)
            assert process.exitcode == 0, f"a task did not drain: {process.exitcode}"
    finally:
        for process in processes:
            process.kill()
            process.join()
