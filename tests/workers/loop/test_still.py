"""Tasks that are not reported as not progressing: those without work. No broker; time is a number."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from app.core.wire.heartbeat import DesiredTaskState
from tests.workers.loop.many_lanes import NAMES, Many
from tests.workers.loop.test_checkpoint import ScriptedProducer
from workers.loop.errors import AbortableError
from workers.loop.telling.progress import ProgressReporter

LONG_S = 1_000.0
"""Far more than three transaction timeouts."""


def most_said_ms(
    happens: Callable[[Many], None], monkeypatch: pytest.MonkeyPatch, *, fails_in: int = 2, happens_in: int = 4
) -> int:
    """The largest not_progressing_ms of a task whose checkpoint fails in one turn; something happens in another."""

    def look(_progress: ProgressReporter, _membership: object) -> None:
        """There is no consumer."""

    monkeypatch.setattr(ProgressReporter, "look", look)
    many = Many(lambda _: ScriptedProducer())
    many.group.ownership.assigned(NAMES[:1])
    lanes = many.one_lane()
    [lane] = lanes.each
    turns = 0

    def polled() -> None:
        nonlocal turns
        turns += 1
        many.clock[0] += 1.0
        if turns == happens_in:
            happens(many)
        if turns == fails_in:
            lane.add({NAMES[0]: 10}, records=10)
            lane.recovery.recover(AbortableError("not delivered"))
        if turns == 6:
            many.clock[0] += LONG_S
            many.control.wanted = DesiredTaskState.RUN
        if turns == 8:
            many.control.wanted = DesiredTaskState.DRAIN

    many.group.polled = polled
    starting = type("Nothing", (), {"is_due": False})()
    many.loop(lanes=lanes, starting=starting).run(["t"])
    return max((one.not_progressing_ms or 0 for one in many.control.snapshots), default=0)


def lose(many: Many) -> None:
    many.group.ownership.given_up(NAMES[:1])


def pause(many: Many) -> None:
    many.control.wanted = DesiredTaskState.PAUSE


def test_task_that_has_committed_nothing_for_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control."""
    assert most_said_ms(lambda _: None, monkeypatch) >= LONG_S * 1000


def test_task_whose_partitions_another_one_has_taken_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    assert most_said_ms(lose, monkeypatch) == 0


def test_checkpoint_whose_partitions_were_gone_at_its_failure_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert most_said_ms(lose, monkeypatch, happens_in=2, fails_in=4) == 0


def test_pause_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    assert most_said_ms(pause, monkeypatch) == 0
