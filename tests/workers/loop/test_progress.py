"""The error that a task reports: its present wait, else its last error."""

from __future__ import annotations

from app.core.clusters.partition import Partition
from app.core.wire.heartbeat import TaskState
from tests.support.tasks import RecordingControl
from workers.loop.checkpoint_size import CheckpointSize
from workers.loop.telling.progress import ProgressReporter
from workers.loop.telling.tally import WorkTally


def test_obstacle_is_reported_while_it_lasts_and_the_last_error_stays() -> None:
    control = RecordingControl()
    progress = ProgressReporter(control, WorkTally())

    def said() -> str | None:
        progress.publish(now=0.0, opened_at=None)
        return control.last.last_error

    progress.obstacle = "the coordinator has not answered yet"
    assert said() == "the coordinator has not answered yet"
    progress.obstacle = None
    assert said() is None
    progress.last_error = "the commit was refused"
    progress.obstacle = "the server is away"
    assert said() == "the server is away"
    progress.obstacle = None
    assert said() == "the commit was refused"


def test_the_lane_that_is_worst_off_says_for_how_long_nothing_was_committed() -> None:
    now = [0.0]
    control = RecordingControl()
    progress = ProgressReporter(control, WorkTally())
    sizes = {
        Partition("t", number): CheckpointSize(timeout_s=1.0, bound_s=1.0, clock=lambda: now[0]) for number in range(2)
    }
    for partition, size in sizes.items():
        progress.watch(partition, size)

    def said(state: TaskState = TaskState.RUNNING) -> int | None:
        progress.enter(state, now=now[0])
        progress.publish(now=now[0], opened_at=None)
        return control.last.not_progressing_ms

    sizes[Partition("t", 0)].failed([Partition("t", 0)], opened_at=0.0)
    now[0] = 2.0
    sizes[Partition("t", 1)].failed([Partition("t", 1)], opened_at=2.0)
    assert said() is None
    now[0] = 5.0
    assert said() == 5_000
    assert said(TaskState.BACKING_OFF) == 5_000
    assert said(TaskState.PAUSED) is None
    sizes[Partition("t", 0)].committed(seconds=0.1)
    assert said() == 3_000
    progress.unwatch(Partition("t", 1))
    assert said() is None
