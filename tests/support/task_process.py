"""`python -m tests.support.task_process SPECIFICATION TRANSFORM KIND`: one attempt, reporting in JSON lines on stdout.

TRANSFORM is `identity`, or `deadly`: identity that ends the process at once when it meets a value with POISON in it.
KIND is `task`, or `instance`: then the specification is that of an instance, made into a task's as on an executor.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from confluent_kafka import Message

from app.core.runs.recorded_offset import RecordedOffset
from app.core.wire.heartbeat import DesiredTaskState, EventKind
from app.core.wire.specification import InstanceSpecification
from tests.support.tasks import RecordedEvent, Report
from workers.loop.control import ProducerIdentity, TaskSnapshot, TaskSpecification
from workers.loop.task import run_task
from workers.loop.telling.offset_recorder import OffsetRecorder
from workers.spark.tasks import _task_specification  # pyright: ignore[reportPrivateUsage]
from workers.transforms import Processed, Transform
from workers.transforms.identity import IdentityTransform, as_output

POISON = b"POISON"


class DeadlyTransform:
    """The effect of a poison pill on native code."""

    is_identity = False

    def process(self, messages: list[Message]) -> Processed:
        if any(POISON in (message.value() or b"") for message in messages):
            os._exit(9)
        return Processed([as_output(message) for message in messages], [])


class PrintingControl:
    """Reports everything; drained by SIGTERM. The answers of a server are in the environment; else there is none."""

    def __init__(self) -> None:
        self._wanted = DesiredTaskState.RUN
        self._recorder: OffsetRecorder | None = None
        signal.signal(signal.SIGTERM, lambda _number, _frame: self._drain())

    def _drain(self) -> None:
        self._wanted = DesiredTaskState.DRAIN

    def say_offsets(self) -> None:
        """All printed events count as stored: nothing is repeated."""
        if self._recorder is not None:
            offsets = self._recorder.untold(1000)
            say(Report(offsets=offsets))
            self._recorder.stored(offsets)

    def desired(self) -> DesiredTaskState:
        return self._wanted

    def publish(self, snapshot: TaskSnapshot) -> None:
        say(Report(snapshot=snapshot))
        self.say_offsets()

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
        say(Report(event=RecordedEvent(kind, message, partitions, time.monotonic(), error, producer)))

    def tell_offsets(self, recorder: OffsetRecorder) -> None:
        self._recorder = recorder

    def ask_is_current(self, *, timeout_s: float) -> bool | None:
        word = os.environ.get("FENCELINE_TEST_IS_CURRENT", "")
        # A file that is there once the lease is over, where that is not known yet.
        return not Path(word).exists() if word.startswith("/") else {"yes": True, "no": False}.get(word)

    def ask_recorded(self, *, timeout_s: float) -> Sequence[RecordedOffset] | None:
        return None


def say(report: Report) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.buffer.flush()


def task_of_an_instance(data: bytes) -> TaskSpecification:
    return _task_specification(msgspec.json.decode(data, type=InstanceSpecification), task=0, attempt=0)


def main() -> None:
    data, kind = Path(sys.argv[1]).read_bytes(), sys.argv[3]
    specification = (
        task_of_an_instance(data) if kind == "instance" else msgspec.json.decode(data, type=TaskSpecification)
    )
    transform: Transform = DeadlyTransform() if sys.argv[2] == "deadly" else IdentityTransform()
    control = PrintingControl()
    try:
        result = run_task(specification, control, transform=transform)
        control.say_offsets()
        say(Report(result=result))
    except Exception as error:
        control.say_offsets()
        say(Report(error=f"{type(error).__name__}: {error}"))
        raise


if __name__ == "__main__":
    main()
