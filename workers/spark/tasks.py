"""The work in the executor's Python: one attempt of one endless task around the exactly-once loop."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from types import FrameType

import msgspec

from app.core.clusters import secret_reference
from app.core.wire import protocol
from app.core.wire.heartbeat import DesiredTaskState, TaskState
from app.core.wire.specification import InstanceSpecification
from app.kit.storable import storable
from workers import versions
from workers.drills.orders import DrillOrders, DrillPlace
from workers.loop.control import TaskEnd, TaskResult, TaskSnapshot, TaskSpecification
from workers.loop.task import run_task
from workers.reporting import HeartbeatReporter, TaskPlace
from workers.server_client import ServerClient
from workers.spark.driver_line import DriverAwayError, DriverLine
from workers.spark.failures import is_hopeless
from workers.spark.messages import AttemptEnd, AttemptEnded, Begun, DriverMessage, PolledControl
from workers.transforms.build import build
from workers.versions import VersionMismatchError, Versions

log = logging.getLogger(__name__)

SECRETS_FOLDER_VARIABLE = "FENCELINE_SECRETS_DIR"


class Luggage(msgspec.Struct, frozen=True, kw_only=True):
    """The driver's input for its tasks. It travels as JSON: another Python could not read a pickle of it."""

    versions: Versions
    specification: InstanceSpecification
    driver_host: str
    driver_port: int
    driver_secret: str


class _TaskHeader(msgspec.Struct):
    """The part that a task of another version can still read: the driver's versions and its address."""

    versions: Versions
    driver_host: str
    driver_port: int
    driver_secret: str


class EndedBySignalError(Exception):
    """The task left because of a signal, without a request to drain the instance: Spark should start it again."""


class DriverRefusedError(Exception):
    """The attempt could not be entered in the driver's book."""


def pack(luggage: Luggage) -> bytes:
    return msgspec.json.encode(luggage)


def unpack(data: bytes, *, task: int, attempt: int) -> Luggage:
    """Raises VersionMismatchError before it reads anything that could differ, and reports it to the driver."""
    header = msgspec.json.decode(data, type=_TaskHeader)
    try:
        versions.check_same(header.versions, versions.of_this_process())
        return msgspec.json.decode(data, type=Luggage)
    except (VersionMismatchError, msgspec.MsgspecError) as error:
        line = DriverLine(host=header.driver_host, port=header.driver_port, secret=header.driver_secret)
        line.end(AttemptEnded(task=task, attempt=attempt, end=AttemptEnd.HOPELESS, message=str(error)))
        raise


def run_partition(data: bytes, attempt_number: Callable[[], int]) -> Callable[[int, Iterable[object]], Iterator[bytes]]:
    """The function that Spark maps over the stage's partitions; partition number = task number."""

    def run(task: int, _nothing: Iterable[object]) -> Iterator[bytes]:
        result = run_attempt(data, task=task, attempt=attempt_number())
        return iter([msgspec.json.encode(storable(result))])

    return run


def run_attempt(data: bytes, *, task: int, attempt: int) -> TaskResult:
    """Run one attempt from its entry in the driver's book to its end, which it reports before Spark learns it.

    1. versions are compared         before anything else of the luggage is read
    2. the driver is asked           it returns the wait, which comes before init, when nothing is held yet
    3. the loop runs
    4. driver, then server get it    before an exception leaves: Spark would start the next attempt at once
    """
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True
    )
    luggage = unpack(data, task=task, attempt=attempt)
    specification = luggage.specification
    identity, files = specification.tasks[task], specification.definition.files
    line = DriverLine(host=luggage.driver_host, port=luggage.driver_port, secret=luggage.driver_secret)
    try:
        admission = line.begin(Begun(task=task, attempt=attempt, host=socket.gethostname(), pid=os.getpid()))
    except DriverAwayError as error:
        raise DriverRefusedError(f"attempt {attempt} of task {task} could not begin: {error}") from error
    log.info("attempt %d of task %d begins", attempt, task)
    drills = DrillOrders(
        DrillPlace(
            run_id=specification.run_id,
            ordinal=specification.ordinal,
            lease=specification.lease,
            task=task,
            attempt=attempt,
            host=socket.gethostname(),
            pid=os.getpid(),
        ),
        allowed=specification.definition.allows_drills,
        urls=specification.server_urls,
        token=specification.run_token,
        kill=lambda: kill_itself(line, task=task, attempt=attempt),
    )
    reporter = HeartbeatReporter(
        TaskPlace(
            run_id=specification.run_id,
            ordinal=specification.ordinal,
            lease=specification.lease,
            task=task,
            attempt=attempt,
            host=socket.gethostname(),
            pid=os.getpid(),
            transactional_id=identity.transactional_id,
            database_epoch=specification.database_epoch,
            commits_every_ms=specification.definition.commits_every_ms,
            uploads_within_ms=None if files is None else files.upload_timeout_ms,
        ),
        ServerClient(specification.server_urls, specification.run_token),
        ask_client=ServerClient(specification.server_urls, specification.run_token),
        initial=admission.desired,
        drilled=drills.hear,
    )
    leaving = AttemptLeaving(reporter)
    with leaving.on_signals():
        reporter.start()
        reporter.hear(admission.desired, is_current_attempt=admission.is_current_attempt)
        line.listen(
            PolledControl(task=task, attempt=attempt),
            lambda word: _hear(reporter, word),
            after_each=leaving.look_for_parent,
        )
        end, message = AttemptEnd.CRASHED, "the attempt did not end by itself"
        try:
            result = _back_off(reporter, admission.wait_s, admission.reason) or run_task(
                _task_specification(specification, task=task, attempt=attempt),
                reporter,
                transform=build(
                    specification.definition.transform,
                    source=specification.transform_source,
                    sink_topic=specification.definition.sink_topic,
                ),
            )
            result = _judge(result, reporter, leaving)
            end, message = AttemptEnd(result.end), result.message
        except Exception as error:
            end = AttemptEnd.HOPELESS if is_hopeless(error) else AttemptEnd.CRASHED
            message = f"{type(error).__name__}: {error}"
            log.exception("attempt %d of task %d failed", attempt, task)
            reporter.failed(message)
            raise
        finally:
            line.end(AttemptEnded(task=task, attempt=attempt, end=end, message=message))
            reporter.close()
            line.close()
        return result


def kill_itself(line: DriverLine, *, task: int, attempt: int) -> None:
    """Send SIGKILL to this process, as a drill has ordered; the driver is informed first and counts no failure."""
    line.end(AttemptEnded(task=task, attempt=attempt, end=AttemptEnd.DRILLED, message="killed by a drill"))
    os.kill(os.getpid(), signal.SIGKILL)


class AttemptLeaving:
    """The reason why an attempt leaves without a request of driver or server: a signal, or its parent is gone.

    PySpark's daemon sends SIGHUP to its workers when the executor dies. A task that only sets a flag then commits,
    leaves the group and frees its partitions at once. If daemon and executor die together there is no signal: then the
    process has another parent.
    """

    def __init__(self, reporter: HeartbeatReporter) -> None:
        self._reporter = reporter
        self._parent_pid = os.getppid()
        self.reason: str | None = None

    @contextlib.contextmanager
    def on_signals(self) -> Generator[None, None, None]:
        """Signals set a flag within this block; outside of the main thread there are none to handle."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGHUP, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def look_for_parent(self) -> None:
        """Leave if the process that forked this one is gone: its executor cannot be there any more."""
        if self.reason is None and os.getppid() != self._parent_pid:
            self._leave("its executor and PySpark's daemon are gone")

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self.reason is None:
            self._leave(f"it got {signal.Signals(number).name}")

    def _leave(self, reason: str) -> None:
        self.reason = reason
        self._reporter.drain()


def _hear(reporter: HeartbeatReporter, word: DriverMessage) -> None:
    reporter.hear(word.desired, is_current_attempt=word.is_current_attempt)


def _back_off(reporter: HeartbeatReporter, wait_s: float, reason: str) -> TaskResult | None:
    """Wait as the driver requires; None afterwards, a result if the task should end before it has begun."""
    if wait_s > 0:
        reporter.publish(TaskSnapshot(state=TaskState.BACKING_OFF, last_error=reason or None))
        log.info("waiting %.1f s before the next attempt: %s", wait_s, reason)
    deadline = time.monotonic() + wait_s
    while True:
        if reporter.desired() is DesiredTaskState.DRAIN:
            end = TaskEnd.SUPERSEDED if reporter.is_superseded else TaskEnd.DRAINED
            reporter.publish(TaskSnapshot(state=TaskState(end)))
            return TaskResult(
                end=end, message="drained before it began", counters=TaskSnapshot(state=TaskState.DRAINED).counters
            )
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            return None
        time.sleep(min(left_s, 0.1))


def _judge(result: TaskResult, reporter: HeartbeatReporter, leaving: AttemptLeaving) -> TaskResult:
    """The end of the drained loop: it has been superseded if it drained because it was not the current attempt."""
    if result.end is TaskEnd.DRAINED and reporter.is_superseded:
        return msgspec.structs.replace(
            result, end=TaskEnd.SUPERSEDED, message="drained because another lease or attempt is the current one"
        )
    if result.end is TaskEnd.DRAINED and leaving.reason is not None:
        raise EndedBySignalError(f"the task drained because {leaving.reason}")
    return result


def _task_specification(specification: InstanceSpecification, *, task: int, attempt: int) -> TaskSpecification:
    protocol.check(specification.protocol_version, peer="the server")
    return TaskSpecification(
        pipeline=specification.pipeline,
        run_id=specification.run_id,
        ordinal=specification.ordinal,
        lease=specification.lease,
        task=task,
        attempt=attempt,
        definition=specification.definition,
        client_config=secret_reference.resolve(
            specification.client_config, environment=os.environ, read_file=read_secret
        ),
        transactional_id=specification.tasks[task].transactional_id,
        mappings=specification.mappings,
        recorded=specification.recorded,
        transform_source=specification.transform_source,
        start_paused=specification.start_paused,
        native_records=specification.native_records,
    )


def read_secret(name: str) -> str:
    """Read a file of the folder of secrets on the executor's host, which its administrator names in the environment."""
    folder = os.environ.get(SECRETS_FOLDER_VARIABLE)
    if not folder:
        raise FileNotFoundError(errno.ENOENT, f"{SECRETS_FOLDER_VARIABLE} is not set on this executor")
    return (Path(folder) / name).read_text()
