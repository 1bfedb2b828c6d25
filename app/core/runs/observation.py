"""The observation of an application from outside: its driver's process on this host, and the cluster manager."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from app.core.runs.instance import InstanceOutcome


class ProcessWord(StrEnum):
    """The state of the driver's process on this host. UNKNOWN: it runs on another host, or no process was recorded."""

    ALIVE = "alive"
    GONE = "gone"
    UNKNOWN = "unknown"


class MasterWord(StrEnum):
    """The cluster manager's answer about the application.

    UNREACHABLE: it did not answer; UNKNOWN: it has no such application; NOT_ASKED: the process lives, which suffices.
    """

    RUNNING = "running"
    FINISHED = "finished"
    UNKNOWN = "unknown"
    UNREACHABLE = "unreachable"
    NOT_ASKED = "not_asked"


class ReportedProcess(msgspec.Struct, frozen=True, kw_only=True):
    """The process of an attempt of a live lease, as its last heartbeat named it, if it is on its driver's host.

    sent_at_ms: of that heartbeat, by the host's clock. log_path: of its driver.
    """

    run_id: str
    ordinal: int
    lease: int
    task: int
    attempt: int
    pid: int
    sent_at_ms: int
    application_id: str | None
    log_path: str | None


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """`outcome` is the file that the driver left on this host, in case no server received its report.

    exit_code: of spark-submit, if this server started it.
    """

    process: ProcessWord
    master: MasterWord
    log_tail: str = ""
    exit_code: int | None = None
    outcome: InstanceOutcome | None = None
