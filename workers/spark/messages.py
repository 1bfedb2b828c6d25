"""The messages between the tasks of an application and its driver; both run the same package (workers/versions.py).

HTTP on the driver, JSON bodies, `Authorization: Bearer <the application's secret>`:
  POST /begin  Begun -> Admission     a new attempt asks how long to wait before it initializes its producer
  POST /poll   Polled -> Word         every 0.3 s
  POST /end    Ended -> Word          once, also before an exception goes to Spark
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from app.core.wire.heartbeat import DesiredTaskState

BEGIN_PATH = "/begin"
POLL_PATH = "/poll"
END_PATH = "/end"


class AttemptEnd(StrEnum):
    """Spark may retry `CRASHED`; `HOPELESS` is a permanent error, which a retry would repeat.

    DRILLED kills itself as it was ordered, which is no failure: drills do not count as failures.
    """

    DRAINED = "drained"
    SUPERSEDED = "superseded"
    CRASHED = "crashed"
    HOPELESS = "hopeless"
    DRILLED = "drilled"


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    task: int
    attempt: int
    host: str
    pid: int


class TaskAdmission(msgspec.Struct, frozen=True, kw_only=True):
    """reason: of the wait."""

    desired: DesiredTaskState
    is_current_attempt: bool
    wait_s: float = 0.0
    reason: str = ""


class PolledControl(msgspec.Struct, frozen=True, kw_only=True):
    task: int
    attempt: int


class DriverMessage(msgspec.Struct, frozen=True, kw_only=True):
    desired: DesiredTaskState
    is_current_attempt: bool


class AttemptEnded(msgspec.Struct, frozen=True, kw_only=True):
    task: int
    attempt: int
    end: AttemptEnd
    message: str = ""
