"""The log of faults: a line before and a line after each fault, on the disk before it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tests.fault_suite.plan import Fault


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """at: time of day, as broker and worker logs have it. at_s: since the run began.

    done: to whom, in the order in which it was; None in the line before it. failed: why it could not be done.
    """

    at: str
    at_s: float
    fault: Fault
    done: tuple[str, ...] | None = None
    failed: str | None = None


class FaultLog:
    """Appends to a file of JSON lines."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._began_at = clock()

    @contextmanager
    def doing(self, fault: Fault) -> Generator[Callable[[str], None]]:
        """The block does the fault, and reports its target; an exception that leaves it is written too.

        Raises AssertionError where no target was reported: a fault without a target was none.
        """
        done: list[str] = []
        self._write(fault)
        try:
            yield done.append
            assert done, f"the target of {fault.kind} was not reported"
        except BaseException as error:
            self._write(fault, done=tuple(done), failed=f"{type(error).__name__}: {error}")
            raise
        self._write(fault, done=tuple(done))

    def read(self) -> list[Line]:
        return [msgspec.json.decode(line, type=Line) for line in self._path.read_bytes().splitlines()]

    def _write(self, fault: Fault, *, done: tuple[str, ...] | None = None, failed: str | None = None) -> None:
        now = self._clock()
        line = Line(
            at=datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds"),
            at_s=round(now - self._began_at, 3),
            fault=fault,
            done=done,
            failed=failed,
        )
        with self._path.open("ab") as file:
            file.write(msgspec.json.encode(line) + b"\n")
