"""What we ask of Spark: submit an application, look whether it lives, and end it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Protocol

import msgspec

from app.domain.instance import Instance, InstanceOutcome
from app.domain.pipeline import PipelineDefinition
from app.wire.specification import InstanceSpecification


class ProcessWord(StrEnum):
    """What this host says of the driver's process. UNKNOWN: it runs on another host, or nothing was recorded."""

    ALIVE = "alive"
    GONE = "gone"
    UNKNOWN = "unknown"


class MasterWord(StrEnum):
    """What the resource manager says of the application. UNREACHABLE: it did not answer; UNKNOWN: it knows of none."""

    RUNNING = "running"
    FINISHED = "finished"
    UNKNOWN = "unknown"
    UNREACHABLE = "unreachable"


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """The detached process that was started. `jvm_pid` is spark-submit's, which becomes the driver's JVM."""

    host: str
    jvm_pid: int
    started_at: datetime
    log_path: str


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """`outcome` is what the driver left on this host, for the case that no server heard it."""

    process: ProcessWord
    master: MasterWord
    log_tail: str = ""
    outcome: InstanceOutcome | None = None


class SparkLauncher(Protocol):
    async def submit(self, specification: InstanceSpecification) -> Submitted:
        """Start the application of one leased instance. Raises UnavailableError with the reason, nothing half done."""
        ...

    async def observe(self, instance: Instance, definition: PipelineDefinition) -> Observation: ...

    async def stop(self, instance: Instance) -> None:
        """Ask the Python driver to drain (SIGTERM), where it runs on this host; else do nothing."""
        ...

    async def kill(self, instance: Instance) -> None:
        """End driver and JVM at once (SIGKILL), where they run on this host; else do nothing."""
        ...
