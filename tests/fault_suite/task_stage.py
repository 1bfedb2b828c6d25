"""A stage for faults: brokers behind proxies, and the tasks of a pipeline as processes that come back."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Self

import msgspec

from app.core.pipelines.pipeline import GroupProtocol, OffsetFencing, ProcessingGuarantee
from app.core.runs.recorded_offset import RecordedOffset
from tests.fault_suite.forgotten import committed_of, delete_offsets, recorded_of, require_refusal, resume
from tests.fault_suite.freeze_points import AnyPoint, FreezePoints, Point, is_stopped
from tests.fault_suite.offset_log import Asked, Offsets, checked, written_in
from tests.fault_suite.pipeline_stage import PipelineStage
from tests.fault_suite.plan import FREEZING, Fault, Kind, NotDoneError
from tests.fault_suite.proxied_cluster import Did, Wait
from tests.fault_suite.silence import lines_of_worker, told
from tests.fault_suite.workers import Workers
from tests.support.pipelines import TestPipeline
from tests.support.tasks import TaskProcess
from tests.support.topics import add_partition
from tests.support.waiting import wait_for

_FEWEST, _MOST = 2, 3
_PARTITIONS = 4
"""One more than tasks: a new member takes one from another."""
_WORKERS = "workers"
_WITHIN_S = 90.0
_LED_WITHIN_S = 20.0
"""Longer than the session of a member that is dead."""
_OF_WHO_STAYS: tuple[AnyPoint, ...] = (Point.IN_REVOKE, Point.BETWEEN_REVOKE_AND_ASSIGN)
_KINDS = (
    Kind.WORKER_KILLED,
    Kind.WORKER_TERMINATED,
    *FREEZING,
    Kind.WORKER_DOUBLED,
    Kind.INSTANCES_SCALED,
    Kind.PARTITION_ADDED,
    Kind.OFFSETS_DELETED,
)


class TaskStage(PipelineStage):
    """Two or three tasks of the loop, on one broker or three."""

    def __init__(
        self,
        seed: int,
        folder: Path,
        *,
        brokers: int,
        guarantee: ProcessingGuarantee = ProcessingGuarantee.EXACTLY_ONCE_V2,
        fencing: OffsetFencing = OffsetFencing.GENERATION,
        protocol: GroupProtocol | None = None,
        environment: Mapping[str, str] | None = None,
        client_config: Mapping[str, str] | None = None,
        **pipeline: Any,
    ) -> None:
        """environment, client_config: of the workers besides. pipeline: arguments of TestPipeline.create."""
        super().__init__(seed, folder, brokers=brokers, guarantee=guarantee, fencing=fencing, protocol=protocol)
        self._settings: dict[str, Any] = {"partitions": _PARTITIONS, **pipeline}
        self._environment = environment or {}
        self._client_config = client_config or {}
        self._brokers = brokers
        self._recorded: tuple[RecordedOffset, ...] = ()
        self._resumed: list[Offsets] = []
        self._lives: dict[tuple[int, int], int] = {}

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.cluster)
            self.pipeline = TestPipeline.create(
                self.cluster.bootstrap_servers,
                group_protocol=self._protocol,
                processing_guarantee=self._guarantee,
                offset_fencing=self._fencing,
                **self._settings,
            )
            self.cluster.group = self.pipeline.definition.group_id
            self._points = FreezePoints(self._folder / "freeze")
            self._launched: list[TaskProcess] = []
            self.workers = Workers(_FEWEST, self._launch)
            stack.callback(self.workers.close)
            stack.callback(self._points.thaw_all)
            self.workers.start()
            self._stack = stack.pop_all()
        return self

    @property
    def _where(self) -> str:
        return f"{self._brokers} broker{'s' if self._brokers > 1 else ''}, task processes"

    def _kinds(self) -> tuple[Kind, ...]:
        return _KINDS

    def settle(self) -> None:
        """End every fault that is left, so that the pipeline can come to rest."""
        self._points.thaw_all()
        self.cluster.settle()

    def drain(self) -> None:
        """Every worker commits and leaves."""
        self.workers.drain()

    def end(self) -> None:
        """SIGKILL for every worker: none commits any more."""
        self.workers.close()

    def lines_of_silence(self) -> Iterator[str]:
        """Every living worker too, those that were replaced included."""
        living = [worker for worker in self._launched if worker.is_running]
        workers = (partial(lines_of_worker, self.workers.name_of(worker.pid), worker) for worker in living)
        return chain(super().lines_of_silence(), told(*workers))

    def ask_offset_log(self) -> Asked:
        """By a replay of what the processes wrote."""
        written = [one._replace(life=self._lives[one.task, one.attempt]) for one in written_in(self._folder / _WORKERS)]
        return checked(written, group=self.pipeline.definition.group_id, resumed=self._resumed)

    @property
    def deletions(self) -> int:
        return len(self._resumed)

    def do(self, fault: Fault, did: Did, *, wait: Wait) -> None:
        """Do it, wait for as long as it lasts, and end it. `did` gets the target.

        Raises AssertionError where it could not be done, NotDoneError where it came too late.
        """
        if self._guarantee is ProcessingGuarantee.EXACTLY_ONCE:
            # With an id for each partition both are valid members, and there is no server here that ends one.
            for name in self.workers.end_former():
                did(f"{name}: drains, since its task has another attempt")
        match fault.kind:
            case Kind.WORKER_KILLED | Kind.WORKER_TERMINATED:
                task = fault.of(self.workers.tasks)
                how = signal.SIGKILL if fault.kind is Kind.WORKER_KILLED else signal.SIGTERM
                did(f"{self.workers.name_of(self.workers.send(task, how))}: {how.name}")
            case Kind.WORKER_FROZEN | Kind.WORKER_REPLACED:
                self._freeze(fault, self.point_of(fault), did, wait)
            case Kind.WORKER_DOUBLED:
                task = fault.of(self.workers.tasks)
                if not self.workers.current(task).is_running:
                    raise NotDoneError(f"task {task} has ended by itself")
                did(f"{self.workers.name(task)}: goes on")
                self.workers.replace(task)
                did(f"{self.workers.name(task)}: beside it")
            case Kind.INSTANCES_SCALED:
                if len(self.workers.tasks) < _MOST:
                    did(f"{self.workers.name(self.workers.add())}: one more")
                else:
                    task = fault.of(self.workers.tasks)
                    did(f"{self.workers.name(task)}: one less")
                    self.workers.retire(task)
            case Kind.PARTITION_ADDED:
                self.pipeline.partitions = add_partition(self.cluster.bootstrap_servers, self.pipeline.source)
                did(f"{self.pipeline.partitions} partitions")
            case Kind.OFFSETS_DELETED:
                try:
                    self.workers.send_away()
                    self._delete_offsets(fault, did)
                finally:
                    self.workers.bring_back()
            case _:
                self.cluster.do(fault, did, wait=wait)

    def _launch(self, task: int, attempt: int) -> TaskProcess:
        self._lives[task, attempt] = self.deletions
        specification = self.pipeline.specification(task=task, attempt=attempt)
        settings = {
            "bootstrap.servers": self.cluster.proxied,
            # How long a new partition stays unseen in a classic group: 5 minutes by default.
            "topic.metadata.refresh.interval.ms": "2000",
            **self._client_config,
        }
        launched = TaskProcess(
            msgspec.structs.replace(
                specification, recorded=self._recorded, client_config={**specification.client_config, **settings}
            ),
            self._folder / _WORKERS / f"task-{task}-attempt-{attempt}",
            environment=self._points.environment_of({**os.environ, **self._environment}),
        )
        self._launched.append(launched)
        return launched

    def _delete_offsets(self, fault: Fault, did: Did) -> None:
        # The marker of a transaction that is committed already would bring its offsets back.
        wait_for(self.facts.is_decided, _WITHIN_S, "the end of every transaction, when all tasks were away")
        recorded = recorded_of(self._launched)
        committed = committed_of(self.pipeline)
        if not committed:
            # Nothing is missing then, and a task rightly begins at the start.
            raise NotDoneError("nothing is committed yet")
        if {(one.topic, one.partition): one.offset for one in recorded} != committed:
            # A killed task has committed more than it could report: resumed there, records would come out twice.
            raise NotDoneError(f"recorded is {recorded}, committed is {committed}")
        # Counted before it is tried: a deletion that was not answered may have been made.
        self._recorded = recorded
        self._resumed.append(committed)
        delete_offsets(self.pipeline)
        did(f"{len(committed)} offsets deleted")
        task = fault.of(self.workers.tasks)
        self.workers.replace(task)
        refused = next(one for one in self._launched if one.pid == self.workers.current(task).pid)
        did(f"{self.workers.name(task)}: {require_refusal(refused)}")
        resume(self.pipeline, recorded)
        did("resumed at the recorded offsets")

    def point_of(self, fault: Fault) -> AnyPoint | None:
        """The point of the freeze; None: anywhere."""
        return fault.point

    def _freeze(self, fault: Fault, point: AnyPoint | None, did: Did, wait: Wait) -> None:
        joined: int | None = None
        if point is None:
            task = fault.of(self.workers.tasks)
            pid = self.workers.send(task, signal.SIGSTOP)
            did(f"{self.workers.name_of(pid)}: frozen")
        else:
            if point in _OF_WHO_STAYS:
                pid, joined = self._lead_into_revoke(point, did)
            else:
                self._points.ask(point)
                if point is Point.BETWEEN_INIT_AND_FIRST_FETCH:
                    task = fault.of(self.workers.tasks)
                    # A task that has just ended by itself is restarted, and comes there too.
                    with suppress(NotDoneError):
                        did(f"{self.workers.name_of(self.workers.send(task, signal.SIGTERM))}: SIGTERM")
                pid = self._points.wait_until_frozen(point, _WITHIN_S)
            did(f"{self.workers.name_of(pid)}: frozen {point}")
        since = time.monotonic()
        if fault.kind is Kind.WORKER_REPLACED:
            frozen = self.workers.task_of(pid)
            self.workers.replace(frozen)
            did(f"replaced by {self.workers.name(frozen)}")
        wait(fault.lasts_s)
        stood_s = time.monotonic() - since
        was_frozen = is_stopped(pid)
        self._points.thaw(pid)
        if joined is not None:
            did(f"{self.workers.name(joined)}: leaves")
            self.workers.retire(joined)
        if not was_frozen:
            raise NotDoneError(f"process {pid} was not frozen for {fault.lasts_s:g} s")
        did(self.stood(point, stood_s))

    def _lead_into_revoke(self, point: AnyPoint, did: Did) -> tuple[int, int]:
        """A worker that is frozen there, and the task that has caused it by joining.

        A new member takes from the members that have most. Where those are dead and not removed yet, no living member
        releases anything: then it leaves, and joins again when they are gone.
        """
        until = time.monotonic() + _WITHIN_S
        while True:
            self._points.ask(point)
            joined = self.workers.add()
            did(f"{self.workers.name(joined)}: joins")
            try:
                return self._points.wait_until_frozen(point, _LED_WITHIN_S), joined
            except AssertionError:
                if not self._points.withdraw(point):
                    return self._points.wait_until_frozen(point, _WITHIN_S), joined
                if time.monotonic() >= until:
                    raise
            did(f"{self.workers.name(joined)}: leaves, since no member had to release anything")
            self.workers.retire(joined)
            self.workers.current(joined).wait_for_exit()
