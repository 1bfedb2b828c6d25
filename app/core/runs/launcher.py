"""What we ask of Spark: submit an application, look whether it lives, and end it."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

import msgspec

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.runs.instance import Instance
from app.core.runs.observation import Observation
from app.core.wire.specification import InstanceSpecification


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """The detached process that was started. `jvm_pid` is spark-submit's, which becomes the driver's JVM."""

    host: str
    jvm_pid: int
    started_at: datetime
    log_path: str


class LeaseFolder(msgspec.Struct, frozen=True, kw_only=True):
    """The folder that one lease of an instance has on this host: its driver's log, and how it ended."""

    run_id: str
    ordinal: int
    lease: int


class InstanceFolders(Protocol):
    """The folders of leases on this host."""

    async def unchanged_since(self, moment: datetime) -> list[LeaseFolder]:
        """Those in which nothing was written since; among them may be one whose driver lives and has nothing to say."""
        ...

    async def trim_logs(self) -> int:
        """Cut drivers' logs that have become too long, those of living ones too; how many."""
        ...

    async def remove(self, folder: LeaseFolder) -> bool:
        """Remove it with all that is in it; False, and nothing done, while a process works in it.

        Raises UnavailableError when it cannot be removed.
        """
        ...


class DriverFolders(Protocol):
    """Folders of drivers that are no instances, on this host."""

    @property
    def of(self) -> str:
        """What the drivers carry out, in the plural: for the log."""
        ...

    async def trim_logs(self) -> int:
        """Cut drivers' logs that have become too long; how many."""
        ...

    async def remove_folders(self, *, unchanged_since: datetime) -> int:
        """Remove those in which nothing was written since, nor works; how many."""
        ...


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
