"""Simulated workers: drivers and tasks that speak to a server as the real ones do, about work that nobody does.

What speaks is the product's: claims and drivers' heartbeats (workers/spark/driver_reporting.py), tasks' heartbeats
(workers/reporting.py), what is told of offsets (OffsetRecorder), the HTTP client; all at their own intervals. What is
simulated is the loop: twice a second a task's partitions move on by as many records, under one committed checkpoint.
There is no Spark, no consumer and no producer; the threads of all workers share one process.
"""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import msgspec

from app.core.clusters.partition import Partition
from app.core.wire.heartbeat import Claim, EventKind, HeartbeatAnswer, PartitionProgress, TaskState
from app.core.wire.offset_events import CheckpointOutcome, StartReason
from app.core.wire.offset_report import Init
from app.core.wire.specification import InstanceSpecification
from app.edges.spark import driver_processes
from app.edges.spark.instance_files import InstanceFiles
from bench.growth.server import MeasuredServer
from tests.support.waiting import wait_for
from workers import versions
from workers.loop.control import TaskSnapshot
from workers.loop.group.ownership import Ownership
from workers.loop.telling.offset_recorder import OffsetRecorder
from workers.loop.telling.progress import INTERVAL_S
from workers.loop.telling.tally import Work, WorkTally
from workers.reporting import HEARTBEAT_PATH, HeartbeatReporter, TaskPlace
from workers.server_client import ServerClient
from workers.spark import handover
from workers.spark.application import Slots
from workers.spark.driver_reporting import DriverPlace, DriverReporter

PARTITIONS_PER_TASK = 4
_RECORDS = 250
"""For each partition each time; records of 100 bytes."""
_RECORD_BYTES = 100
_SLICES = 10
_SUBMITTED_WITHIN_S = 150.0
_CLAIM_WITHIN_S = 30.0
_Answer = TypeVar("_Answer")


class Answered(NamedTuple):
    """One heartbeat of a task. is_kept: the server took it as that of a current
    attempt; False: it did not, refused it, or gave no answer in time."""

    at_s: float
    took_ms: float
    is_kept: bool


class TimedClient(ServerClient):
    """Notes what became of each heartbeat, as the worker sees it: from before it is encoded to the decoded answer."""

    def __init__(self, urls: Sequence[str], token: str, answers: list[Answered]) -> None:
        super().__init__(urls, token)
        self.is_heard = False
        self._answers = answers

    def post(
        self, path: str, message: msgspec.Struct, answer: type[_Answer], *, timeout_s: float | None = None
    ) -> _Answer:
        began_s = time.monotonic()
        is_kept = False
        try:
            found = super().post(path, message, answer, timeout_s=timeout_s)
            is_kept = isinstance(found, HeartbeatAnswer) and found.is_current is True
        finally:
            if path == HEARTBEAT_PATH:
                now_s = time.monotonic()
                self.is_heard = self.is_heard or is_kept
                self._answers.append(Answered(now_s, (now_s - began_s) * 1000, is_kept))
        return found


class SimulatedTask:
    """Task `task` of an instance, from its first heartbeat on; `work` is to be called every half second."""

    def __init__(self, specification: InstanceSpecification, task: int, answers: list[Answered]) -> None:
        self._client = TimedClient(specification.server_urls, specification.run_token, answers)
        identity = specification.tasks[task]
        tasks = len(specification.tasks)
        first = (specification.ordinal * tasks + task) * PARTITIONS_PER_TASK
        topic = specification.definition.source_topics[0]
        self._next: dict[Partition, int] = {
            Partition(topic, first + number): 0 for number in range(PARTITIONS_PER_TASK)
        }
        self._tally = WorkTally()
        self._member_id = f"simulated-{specification.run_id}-{specification.ordinal}-{task}"
        self._producer_id = random.getrandbits(31)
        self._reporter = HeartbeatReporter(
            TaskPlace(
                run_id=specification.run_id,
                ordinal=specification.ordinal,
                lease=specification.lease,
                task=task,
                attempt=0,
                host=socket.gethostname(),
                pid=os.getpid(),
                transactional_id=identity.transactional_id,
                database_epoch=specification.database_epoch,
            ),
            self._client,
            ask_client=self._client,
        )
        ownership = Ownership()
        ownership.assigned(self._next)
        self._recorder = OffsetRecorder(ownership)
        self._recorder.initialised(Init(self._producer_id, 0))
        self._recorder.assigned(self._next, generation=1)
        for name in self._next:
            self._recorder.positioned(name, 0, StartReason.NOTHING_COMMITTED)
        self._reporter.tell_offsets(self._recorder)
        named = tuple(f"{topic}-{number}" for topic, number in self._next)
        self._reporter.event(EventKind.ASSIGNED, "simulated", partitions=named, generation=1)
        self._reporter.start()

    def work(self) -> None:
        """Half a second of it: a checkpoint over all partitions, committed, and a snapshot that says so."""
        self._next = {name: offset + _RECORDS for name, offset in self._next.items()}
        records = _RECORDS * len(self._next)
        self._recorder.stands_at(self._next)
        self._recorder.add(self._next, records=records)
        self._recorder.ended(CheckpointOutcome.COMMITTED)
        size = records * _RECORD_BYTES
        self._tally.committed(Work(records_in=records, records_out=records, bytes_in=size, bytes_out=size))
        commit_ms = random.uniform(5, 15)
        self._reporter.publish(
            TaskSnapshot(
                state=TaskState.RUNNING,
                member_id=self._member_id,
                generation=1,
                producer_id=self._producer_id,
                producer_epoch=0,
                partitions=tuple(
                    PartitionProgress(
                        topic=topic,
                        partition=number,
                        position=offset,
                        committed=offset,
                        end=offset + random.randrange(_RECORDS),
                    )
                    for (topic, number), offset in self._next.items()
                ),
                counters=self._tally.counters(),
                commit_latency_p50_ms=round(commit_ms, 3),
                commit_latency_p99_ms=round(3 * commit_ms, 3),
                open_transaction_age_ms=random.randrange(100),
            )
        )

    @property
    def is_heard(self) -> bool:
        """True if the server has kept a heartbeat of it."""
        return self._client.is_heard

    def leave(self) -> None:
        self._reporter.close(timeout_s=0)


class SimulatedWorkers:
    """Every instance that was begun has its lease and a driver that reports; tasks report from `begin_task` on."""

    def __init__(self, server: MeasuredServer) -> None:
        self.answers: list[Answered] = []
        self._server = server
        self._drivers: list[DriverReporter] = []
        self._tasks: list[SimulatedTask] = []
        self._ends = threading.Event()
        self._works = threading.Thread(target=self._work, name="simulated-work", daemon=True)
        self._works.start()

    def begin_instance(self, run_id: str, ordinal: int) -> InstanceSpecification:
        """As a driver begins that was just submitted."""
        process = self._server.process
        files = InstanceFiles.of(process.state_dir, run_id=run_id, ordinal=ordinal, lease=1)
        run = f"/api/v1/runs/{run_id}"
        wait_for(files.specification.exists, _SUBMITTED_WITHIN_S, lambda: process.ask(run).text)
        (double,) = wait_for(lambda: driver_processes.search(files.folder), 30, lambda: process.ask(run).text)
        specification = handover.from_file(files.specification)
        place = DriverPlace(
            run_id=run_id,
            ordinal=ordinal,
            lease=specification.lease,
            application_id=f"simulated-{run_id}-{ordinal}",
            host=socket.gethostname(),
            database_epoch=specification.database_epoch,
        )
        client = ServerClient(specification.server_urls, specification.run_token)
        driver = DriverReporter(place, client, heard=lambda _: None)
        own = versions.of_this_process()
        claim = Claim(
            fenceline_version=own.fenceline,
            python_version=own.python,
            run_id=run_id,
            ordinal=ordinal,
            lease=specification.lease,
            application_id=place.application_id,
            host=place.host,
            jvm_pid=double.pid,
            python_pid=double.pid,
            process_started_at_ms=int(double.create_time() * 1000),
        )
        driver.claim(claim, within_s=_CLAIM_WITHIN_S, give_up=lambda: False)
        handover.remove(files.specification)
        driver.publish(Slots(executors=1, tasks_running=len(specification.tasks), tasks_waiting=0))
        driver.start()
        self._drivers.append(driver)
        return specification

    def begin_task(self, specification: InstanceSpecification, task: int) -> None:
        self._tasks.append(SimulatedTask(specification, task, self.answers))

    def unheard(self) -> int:
        """The number of tasks without a kept heartbeat so far."""
        return sum(not task.is_heard for task in self._tasks)

    def leave(self) -> None:
        """All stop; the threads end with their last heartbeat."""
        self._ends.set()
        self._works.join()
        for task in self._tasks:
            task.leave()
        for driver in self._drivers:
            driver.close()

    def _work(self) -> None:
        """Each task in its slice of the half second, so that they do not come all at once."""
        number = 0
        while not self._ends.wait(INTERVAL_S / _SLICES):
            for task in list(self._tasks)[number % _SLICES :: _SLICES]:
                task.work()
            number += 1
