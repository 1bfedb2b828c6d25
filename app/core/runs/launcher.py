"""The launcher's interface to Spark: submit an application, observe it, and end it."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Protocol

import msgspec

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.runs.instance import Instance
from app.core.runs.observation import Observation, ReportedProcess
from app.core.wire.specification import InstanceSpecification


class Submitted(msgspec.Struct, frozen=True, kw_only=True):
    """The detached process after its start. `jvm_pid` is spark-submit's, which becomes the driver's JVM."""

    host: str
    jvm_pid: int
    started_at: datetime
    log_path: str


class LeaseFolder(msgspec.Struct, frozen=True, kw_only=True):
    """The folder of one lease of an instance on this host: its driver's log, and its outcome."""

    run_id: str
    ordinal: int
    lease: int


class InstanceFolders(Protocol):
    """The folders of leases on this host."""

    async def unchanged_since(self, moment: datetime) -> list[LeaseFolder]:
        """Return the folders without a write since then; the driver of one may be alive without output."""
        ...

    async def trim_logs(self) -> int:
        """Cut drivers' logs that have become too long, also of live ones; return how many."""
        ...

    async def remove(self, folder: LeaseFolder) -> bool:
        """Remove it with its contents; False, without a change, while a process works in it.

        Raises UnavailableError when it cannot be removed.
        """
        ...


class DriverFolders(Protocol):
    """Folders of drivers that are no instances, on this host."""

    @property
    def of(self) -> str:
        """Return the noun of its orders, in the plural: for the log."""
        ...

    async def trim_logs(self) -> int:
        """Cut drivers' logs that have become too long; how many."""
        ...

    async def remove_folders(self, *, unchanged_since: datetime) -> int:
        """Remove those in which nothing was written since, nor works; how many."""
        ...


class SparkLauncher(Protocol):
    async def submit(self, specification: InstanceSpecification) -> Submitted:
        """Start the application of one leased instance. Raises UnavailableError with the reason; nothing is started."""
        ...

    async def observe(self, instance: Instance, definition: PipelineDefinition) -> Observation: ...

    async def ended_tasks(self, reported: Collection[ReportedProcess]) -> list[ReportedProcess]:
        """Return attempts whose process an earlier call had found on this host, and that has ended since; each once.

        A process that no call has found is not returned, since the report may be of another host with this name.
        """
        ...

    async def stop(self, instance: Instance) -> None:
        """Ask the Python driver to drain (SIGTERM), where it runs on this host; else do nothing."""
        ...

    async def kill(self, instance: Instance) -> None:
        """End driver and JVM at once (SIGKILL), where they run on this host; else do nothing."""
        ...
