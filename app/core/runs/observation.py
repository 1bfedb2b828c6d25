"""What is seen of an application from outside: its driver's process on this host, the resource manager's word."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from app.core.runs.instance import InstanceOutcome


class ProcessWord(StrEnum):
    """What this host says of the driver's process. UNKNOWN: it runs on another host, or nothing was recorded."""

    ALIVE = "alive"
    GONE = "gone"
    UNKNOWN = "unknown"


class MasterWord(StrEnum):
    """What the resource manager says of the application.

    UNREACHABLE: it did not answer; UNKNOWN: it knows of none; NOT_ASKED: the process lives, so its word adds nothing.
    """

    RUNNING = "running"
    FINISHED = "finished"
    UNKNOWN = "unknown"
    UNREACHABLE = "unreachable"
    NOT_ASKED = "not_asked"


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """`outcome` is what the driver left on this host, for the case that no server heard it.

    exit_code: of spark-submit, where this server started it.
    """

    process: ProcessWord
    master: MasterWord
    log_tail: str = ""
    exit_code: int | None = None
    outcome: InstanceOutcome | None = None
