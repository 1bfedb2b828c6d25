"""The order of a drill to its processes, and their reports.

The answer to a heartbeat carries a `DrillOrder`. A task acts on it once, and only after its claim was granted:
  POST /workers/v1/drill          DrillReport     -> DrillAnswer
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from app.core.wire import protocol

DRILL_PATH = "/workers/v1/drill"


class DrillAct(StrEnum):
    """The action on a process: SIGSTOP, and SIGCONT after a fixed time; or SIGKILL."""

    FREEZE = "freeze"
    KILL = "kill"


class ActStep(StrEnum):
    """A report of a process in a drill, or of the watchdog beside it, which also reports while it is frozen."""

    CLAIMED = "claimed"
    FROZEN = "frozen"
    THAWED = "thawed"
    REFUSED = "refused"


class DrillOrder(msgspec.Struct, frozen=True, kw_only=True):
    """The order to one attempt of one task for its own process.

    for_s: the duration of a freeze. begin_within_s: after this time it must not begin any more; a duration and not a
    time, since the clocks of two hosts differ.
    """

    drill_id: str
    act: DrillAct
    for_s: float
    begin_within_s: float


class DrillReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report of an attempt's process, or of the watchdog beside it. `message` is the reason for REFUSED."""

    protocol_version: int = protocol.CURRENT
    drill_id: str
    run_id: str
    ordinal: int
    lease: int
    task: int
    attempt: int
    host: str
    pid: int
    step: ActStep
    message: str = ""


class DrillAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """goes_on: to a CLAIM, whether it is allowed; to FROZEN, whether the freeze is to last. `reason` is that against
    it.
    """

    protocol_version: int = protocol.CURRENT
    goes_on: bool
    reason: str = ""
