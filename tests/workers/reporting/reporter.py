"""A reporter with a listener, and the heartbeats that the listener received."""

from __future__ import annotations

from typing import Any

import msgspec

from app.core.wire.heartbeat import DesiredTaskState, HeartbeatAnswer, TaskHeartbeat, TaskState
from tests.support.waiting import wait_for
from tests.support.worker_listener import WorkerListener
from workers.reporting import HEARTBEAT_PATH, HeartbeatReporter, TaskPlace
from workers.server_client import ServerClient

PLACE = TaskPlace(
    run_id="r1",
    ordinal=0,
    lease=2,
    task=1,
    attempt=3,
    host="here",
    pid=7,
    transactional_id="fl.t.p.0.1",
    database_epoch="epoch",
)
RUN, PAUSE, DRAIN = DesiredTaskState.RUN, DesiredTaskState.PAUSE, DesiredTaskState.DRAIN


def answer(desired: DesiredTaskState = RUN, *, is_current: bool | None = True, epoch: str = "epoch") -> HeartbeatAnswer:
    return HeartbeatAnswer(desired=desired, is_current=is_current, database_epoch=epoch)


def accepting(said: dict[str, Any]) -> HeartbeatAnswer:
    """Stores every event, as the server does."""
    return msgspec.structs.replace(answer(), accepted_events=tuple(event["event_id"] for event in said["events"]))


def reporter_to(*urls: str, **options: Any) -> HeartbeatReporter:
    return HeartbeatReporter(
        PLACE,
        ServerClient(urls, "token", timeout_s=1),
        ask_client=ServerClient(urls, "token", timeout_s=1),
        interval_s=options.pop("interval_s", 0.05),
        **options,
    )


def heard(listener: WorkerListener) -> list[TaskHeartbeat]:
    return [msgspec.convert(said, TaskHeartbeat) for said in list(listener.received[HEARTBEAT_PATH])]


def wait_for_heartbeat(listener: WorkerListener, state: TaskState) -> TaskHeartbeat:
    return wait_for(
        lambda: next((beat for beat in heard(listener) if beat.state is state), None),  # pyright: ignore[reportReturnType]
        5,
        lambda: f"a heartbeat {state}, received {[beat.state for beat in heard(listener)]}",
    )


def wait_until_wanted(reporter: HeartbeatReporter, desired: DesiredTaskState) -> None:
    wait_for(lambda: reporter.desired() is desired, 5, lambda: f"{desired}; wanted is {reporter.desired()}")
