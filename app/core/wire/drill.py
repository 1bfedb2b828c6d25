"""A rehearsed failure on its way to the processes that it is for, and their word on it.

The answer to a heartbeat carries a `DrillOrder`. A task acts on it once, and only after its claim was granted:
  POST /workers/v1/drill          DrillReport     -> DrillAnswer
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from app.core.wire import protocol

DRILL_PATH = "/workers/v1/drill"


class Act(StrEnum):
    """What is done to a process: SIGSTOP, and SIGCONT after a fixed time; or SIGKILL."""

    FREEZE = "freeze"
    KILL = "kill"


class ActStep(StrEnum):
    """A word of a process that is drilled, or of the watchdog beside it, which also speaks while it is frozen."""

    CLAIMED = "claimed"
    FROZEN = "frozen"
    THAWED = "thawed"
    REFUSED = "refused"


class DrillOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What one attempt of one task shall do to its own process.

    for_s: how long a freeze lasts. begin_within_s: after that it must not be begun any more; a duration and no moment,
    since the clocks of two hosts differ.
    """

    drill_id: str
    act: Act
    for_s: float
    begin_within_s: float


class DrillReport(msgspec.Struct, frozen=True, kw_only=True):
    """What the process of one attempt, or the watchdog beside it, did. `message` says why for REFUSED."""

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
    """goes_on: to a CLAIM, whether it may be done; to FROZEN, whether the freeze shall last. `reason` says why not."""

    protocol_version: int = protocol.CURRENT
    goes_on: bool
    reason: str = ""
