"""Running tasks of the loop in a test: as a thread that can be looked into, or as a process that can be frozen."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path

import msgspec

from app.core.runs.recorded_offset import RecordedOffset
from app.core.wire.heartbeat import DesiredTaskState, EventKind, TaskState
from app.core.wire.offset_report import ReportedPartition
from app.core.wire.specification import InstanceSpecification
from tests.support.waiting import wait_for
from workers.loop.control import ProducerIdentity, TaskResult, TaskSnapshot, TaskSpecification
from workers.loop.task import run_task
from workers.loop.telling.offset_recorder import OffsetRecorder
from workers.transforms import Transform
from workers.transforms.identity import IdentityTransform

DEADLINE_S = 25.0


class RecordedEvent(msgspec.Struct, frozen=True):
    kind: EventKind
    message: str
    partitions: tuple[str, ...] = ()
    at: float = 0.0
    error: str | None = None
    producer: ProducerIdentity | None = None


class RecordingControl:
    """A Control without a server: the test sets the desired state and reads the reports.

    `is_current` is the server's answer; None: there is no server.
    """

    def __init__(self) -> None:
        self.wanted = DesiredTaskState.RUN
        self.is_current: bool | None = None
        self.asked = 0
        self.snapshots: list[TaskSnapshot] = []
        self.published_at: list[float] = []
        self.events: list[RecordedEvent] = []
        self.recorder: OffsetRecorder | None = None
        self.recorded: tuple[RecordedOffset, ...] | None = None

    def desired(self) -> DesiredTaskState:
        return self.wanted

    def publish(self, snapshot: TaskSnapshot) -> None:
        self.snapshots.append(snapshot)
        self.published_at.append(time.monotonic())

    def event(
        self,
        kind: EventKind,
        message: str,
        *,
        partitions: tuple[str, ...] = (),
        generation: int | None = None,
        error: str | None = None,
        producer: ProducerIdentity | None = None,
    ) -> None:
        self.events.append(RecordedEvent(kind, message, partitions, time.monotonic(), error, producer))

    def tell_offsets(self, recorder: OffsetRecorder) -> None:
        self.recorder = recorder

    def ask_is_current(self, *, timeout_s: float) -> bool | None:
        self.asked += 1
        return self.is_current

    def ask_recorded(self, *, timeout_s: float) -> Sequence[RecordedOffset] | None:
        return self.recorded

    @property
    def last(self) -> TaskSnapshot:
        return self.snapshots[-1] if self.snapshots else TaskSnapshot(state=TaskState.STARTING)

    def kinds(self) -> list[EventKind]:
        return [event.kind for event in self.events]


class TaskThread:
    """One attempt in a thread of this process."""

    def __init__(
        self,
        specification: TaskSpecification,
        *,
        transform: Transform | None = None,
        run: Callable[..., TaskResult] = run_task,
    ) -> None:
        self.control = RecordingControl()
        self.result: TaskResult | None = None
        self.error: BaseException | None = None
        self._specification = specification
        self._transform = transform or IdentityTransform()
        self._run = run
        self._thread = threading.Thread(target=self._body, daemon=True)

    def start(self) -> TaskThread:
        self._thread.start()
        return self

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def is_this_thread(self) -> bool:
        """For a patched method that must tell tasks apart."""
        return threading.current_thread() is self._thread

    def wait_until(
        self, condition: Callable[[TaskSnapshot], bool], what: str, *, deadline_s: float = DEADLINE_S
    ) -> None:
        """Wait for a snapshot that fulfils the condition; the attempt must still be running."""

        def is_so() -> bool:
            if not self.is_running:
                raise AssertionError(f"the attempt ended while {what} was waited for: {self.result or self.error!r}")
            return condition(self.control.last)

        wait_for(is_so, deadline_s, lambda: f"{what}; events: {self.control.events[-5:]}; {self.control.last}")

    def wait_for_records(self, count: int) -> None:
        """Wait until so many records are read *and committed* by this attempt."""
        self.wait_until(lambda seen: seen.counters.records_in >= count, f"{count} committed records")

    def wait_for_partitions(self, count: int) -> None:
        self.wait_until(lambda seen: len(seen.partitions) == count, f"{count} assigned partitions")

    def wait_for_position(self, total: int) -> None:
        """Wait until the consumer's positions add up to `total`, committed or not."""
        self.wait_until(
            lambda seen: sum(partition.position or 0 for partition in seen.partitions) >= total, f"position {total}"
        )

    def wait_for_event(self, kind: EventKind, *, times: int = 1, deadline_s: float = DEADLINE_S) -> None:
        wait_for(
            lambda: self.control.kinds().count(kind) >= times,
            deadline_s,
            lambda: f"{times} x {kind}; events: {self.control.events[-5:]}; {self.control.last}",
        )

    def drain(self) -> TaskResult:
        """Ask for a drain and wait for the result."""
        self.control.wanted = DesiredTaskState.DRAIN
        return self.join()

    def join(self) -> TaskResult:
        """Wait for the end; raises what the attempt raised."""
        self.wait_for_end()
        if self.error is not None:
            raise self.error
        assert self.result is not None
        return self.result

    def join_error(self) -> BaseException:
        """Wait for the end, which must be an exception."""
        self.wait_for_end()
        assert self.error is not None, f"the attempt ended without an error: {self.result}"
        return self.error

    def wait_for_end(self) -> None:
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), f"the attempt goes on; events {self.control.events}, {self.control.last}"

    def _body(self) -> None:
        try:
            self.result = self._run(self._specification, self.control, transform=self._transform)
        except BaseException as error:  # noqa: BLE001 - handed to the test's own thread
            self.error = error


@contextlib.contextmanager
def running(specification: TaskSpecification, *, transform: Transform | None = None) -> Generator[TaskThread]:
    """A task in a thread; if the test has not ended it, it is always drained at the end."""
    task = TaskThread(specification, transform=transform).start()
    try:
        yield task
    finally:
        if task.is_running:
            task.control.wanted = DesiredTaskState.DRAIN
            task.wait_for_end()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One line that a task process prints."""

    snapshot: TaskSnapshot | None = None
    event: RecordedEvent | None = None
    result: TaskResult | None = None
    error: str | None = None
    offsets: tuple[ReportedPartition, ...] = ()


class TaskProcess:
    """One attempt in a process of its own (tests/support/task_process.py): it can be frozen, thawed and killed.

    Task 0 of an instance's specification is run as an executor does it, which resolves its secrets in `environment`.
    """

    def __init__(
        self,
        specification: TaskSpecification | InstanceSpecification,
        folder: Path,
        *,
        transform: str = "identity",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        kind = "task" if isinstance(specification, TaskSpecification) else "instance"
        path = folder / "specification.json"
        path.write_bytes(msgspec.json.encode(specification))
        self._output = folder / "reports.jsonl"
        self._log = folder / "stderr.log"
        with self._output.open("wb") as output, self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.task_process", str(path), transform, kind],
                stdout=output,
                stderr=log,
                cwd=Path(__file__).parents[2],
                env={**os.environ, **(environment or {})},
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def reports(self) -> list[Report]:
        lines = self._output.read_bytes().split(b"\n")[:-1]
        return [msgspec.json.decode(line, type=Report) for line in lines]

    def last(self) -> TaskSnapshot:
        snapshots = [report.snapshot for report in self.reports() if report.snapshot is not None]
        return snapshots[-1] if snapshots else TaskSnapshot(state=TaskState.STARTING)

    def kinds(self) -> list[EventKind]:
        return [report.event.kind for report in self.reports() if report.event is not None]

    def result(self) -> TaskResult | None:
        return next((report.result for report in self.reports() if report.result is not None), None)

    def wait_until(self, condition: Callable[[], bool], what: str, *, deadline_s: float = DEADLINE_S) -> None:
        wait_for(condition, deadline_s, lambda: f"{what}; last reports: {self.reports()[-3:]}; {self._tail()}")

    def wait_for_position(self, total: int) -> None:
        self.wait_until(
            lambda: sum(partition.position or 0 for partition in self.last().partitions) >= total, f"position {total}"
        )

    def wait_for_records(self, count: int) -> None:
        self.wait_until(lambda: self.last().counters.records_in >= count, f"{count} committed records")

    def freeze(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, frozen or not."""
        self._process.kill()
        self._process.wait(DEADLINE_S)

    def drain(self) -> TaskResult:
        """SIGTERM sets the flag that the loop polls."""
        self.ask_to_drain()
        return self.join()

    def ask_to_drain(self) -> None:
        self._process.terminate()

    def join(self) -> TaskResult:
        self._process.wait(DEADLINE_S)
        result = self.result()
        assert result is not None, f"the process ended with {self._process.returncode}: {self._tail()}"
        return result

    def said(self) -> str:
        """All that it has reported and logged."""
        return self._output.read_text() + self._log.read_text(errors="replace")

    def said_in_log(self) -> str:
        return self._log.read_text(errors="replace")

    def wait_for_exit(self) -> int:
        return self._process.wait(DEADLINE_S)

    def close(self) -> None:
        if self.is_running:
            self.kill()

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-1500:]
