"""What a task says is wrong: what it waits for now, else what went wrong last."""

from __future__ import annotations

from tests.support.tasks import RecordingControl
from workers.transactional.telling.progress import Progress
from workers.transactional.telling.tally import Tally


def test_obstacle_is_said_while_it_lasts_and_the_last_error_stays() -> None:
    control = RecordingControl()
    progress = Progress(control, Tally())

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
