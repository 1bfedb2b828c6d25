"""One of a pair, paused while the other runs, and its turns of a few seconds."""

from __future__ import annotations

import time
from typing import Protocol

import msgspec

from bench.peers.load import processor_s
from bench.peers.work import Topics

_SPEEDS_UP_S = 0.7
_TURN_S = 2.0
_LOOKS_EACH_S = 0.02
_BEGINS_WITHIN_S = 60.0
_NEEDS_S = 0.5
"""The least time between the first and the last commit of a turn that is measured."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """Records a second; processor time of the tasks and of the broker, a second."""

    records_per_second: float
    task_cores: float
    broker_cores: float


class Subject(Protocol):
    """A system that runs, and can be paused."""

    @property
    def pids(self) -> list[int]: ...
    def start(self) -> None: ...
    def check(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def drain(self) -> None: ...
    def kill(self) -> None: ...


class Running:
    """One of a pair while it is measured."""

    def __init__(self, topics: Topics, subject: Subject, sink: str, broker_pid: int) -> None:
        self.subject = subject
        self.sink = sink
        self._topics = topics
        self._broker_pid = broker_pid

    def begin(self) -> None:
        """Start, and pause when something has been committed."""
        self.subject.start()
        deadline = time.monotonic() + _BEGINS_WITHIN_S
        while not self._count():
            self.subject.check()
            assert time.monotonic() < deadline, f"nothing in {self.sink} within {_BEGINS_WITHIN_S:g} s"
            time.sleep(_LOOKS_EACH_S)
        time.sleep(_SPEEDS_UP_S)
        self.subject.pause()

    def turn(self, expected: int) -> Turn | None:
        """None: all records are through."""
        self.subject.resume()
        time.sleep(_SPEEDS_UP_S)
        count = before = self._count()
        first: tuple[float, int] | None = None
        last = (0.0, 0)
        used_s, began_at = self._used_s(), time.monotonic()
        while (now := time.monotonic()) < began_at + _TURN_S:
            count = self._count()
            if count > before:
                before = count
                last = (now, count)
                first = first or last
            time.sleep(_LOOKS_EACH_S)
        seconds = time.monotonic() - began_at
        task_s, broker_s = (after - earlier for after, earlier in zip(self._used_s(), used_s, strict=True))
        self.subject.pause()
        self.subject.check()
        time.sleep(_SPEEDS_UP_S / 2)
        if count >= expected:
            return None
        assert first is not None, f"{self.sink} did not grow for {_TURN_S:g} s"
        assert last[0] - first[0] >= _NEEDS_S, f"too few commits in {self.sink} within {_TURN_S:g} s"
        return Turn(
            records_per_second=(last[1] - first[1]) / (last[0] - first[0]),
            task_cores=round(task_s / seconds, 3),
            broker_cores=round(broker_s / seconds, 3),
        )

    def _count(self) -> int:
        return sum(self._topics.ends(self.sink).values())

    def _used_s(self) -> tuple[float, float]:
        return sum(processor_s(self.subject.pids).values()), processor_s([self._broker_pid])[self._broker_pid]
