"""Starts, watches and ends the drivers of audits on this host (the port app/products/audits/ports.py)."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import signal
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import psutil

from app.core.allow_lists.spark_master import parse
from app.core.runs.launcher import Submitted
from app.core.runs.observation import ProcessWord
from app.edges.spark import driver_processes, package
from app.edges.spark.conf import is_on_this_machine
from app.edges.spark.driver_files import DriverFiles
from app.edges.spark.spark_submit import SparkSubmit
from app.kit.errors import UnavailableError
from app.products.audits import wire as wire
from app.products.audits.audit import Audit
from app.products.audits.decision import DriverWord, SeenDriver
from app.products.audits.submission import is_recomputation, of_audit

log = logging.getLogger(__name__)

_NAME = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class AuditFiles(DriverFiles, frozen=True):
    """The paths of one audit."""

    def read_outcome(self) -> DriverWord | None:
        """Return the outcome that the driver wrote, if any; it counts if no server received it."""
        try:
            told = msgspec.json.decode(self.outcome.read_bytes(), type=wire.AuditOutcome)
        except (OSError, msgspec.MsgspecError):
            return None
        return DriverWord(kind=told.kind, message=told.message, result=told.result)


class SubmitAuditLauncher:
    """Launch one application for each audit, in a folder of its own below `audits` in the state folder."""

    of = "audits"

    def __init__(self, spark_submit: SparkSubmit, *, state_dir: Path, jdbc_driver_jars: Sequence[str] = ()) -> None:
        self._spark_submit = spark_submit
        self._jdbc_driver_jars = jdbc_driver_jars
        self._folder = state_dir / "audits"

    async def submit(self, order: wire.AuditOrder) -> Submitted:
        return await asyncio.to_thread(self._submit, order)

    async def observe(self, audit: Audit) -> SeenDriver:
        return await asyncio.to_thread(self._observe, audit)

    async def signal(self, audit: Audit, *, is_kill: bool) -> None:
        await asyncio.to_thread(self._signal, audit, is_kill)

    async def trim_logs(self) -> int:
        return await asyncio.to_thread(self._trim_logs)

    async def remove_folders(self, *, unchanged_since: datetime) -> int:
        return await asyncio.to_thread(self._remove_folders, unchanged_since)

    def _submit(self, order: wire.AuditOrder) -> Submitted:
        self._spark_submit.refuse_without_java()
        specification = order.specification
        files = self._files(specification.audit_id)
        submission = of_audit(
            specification,
            python=self._spark_submit.worker_python,
            driver_python=self._spark_submit.python,
            local_dir=str(files.local_dir),
            jdbc_driver_jars=self._jdbc_driver_jars,
        )
        argv = self._spark_submit.argv(
            submission,
            module=package.AUDIT,
            arguments=("--specification", str(files.specification), "--outcome", str(files.outcome)),
            is_query=is_recomputation(specification),
        )
        files.write_specification(wire.encode(order))
        try:
            return self._spark_submit.start(
                argv,
                log=files.log,
                folder=files.folder,
                is_on_this_machine=is_on_this_machine(parse(specification.spark.master)),
            )
        except UnavailableError:
            files.withdraw()
            raise

    def _observe(self, audit: Audit) -> SeenDriver:
        self._spark_submit.reap()
        if audit.host not in (None, self._spark_submit.host):
            return SeenDriver(process=ProcessWord.UNKNOWN)
        files = self._files(audit.id)
        if found := self._processes(audit, files):
            # The older process is the JVM, which was submitted.
            first = min(found, key=_started_s)
            started_at = datetime.fromtimestamp(_started_s(first), UTC)
            return SeenDriver(process=ProcessWord.ALIVE, jvm_pid=first.pid, started_at=started_at)
        if audit.jvm_pid is not None:
            files.clear_away()
        return SeenDriver(process=ProcessWord.GONE, left=files.read_outcome(), log_tail=files.log_tail())

    def _signal(self, audit: Audit, is_kill: bool) -> None:
        if audit.host not in (None, self._spark_submit.host):
            return
        files = self._files(audit.id)
        for process in self._processes(audit, files):
            if is_kill:
                driver_processes.send(process, signal.SIGKILL)
            elif driver_processes.is_python(process):
                driver_processes.send(process, signal.SIGTERM)
        if is_kill:
            files.withdraw()

    def _processes(self, audit: Audit, files: AuditFiles) -> list[psutil.Process]:
        return driver_processes.living(
            files.folder,
            jvm_pid=audit.jvm_pid,
            python_pid=audit.python_pid,
            started_at=audit.process_started_at,
            is_claimed=audit.python_pid is not None,
        )

    def _files(self, audit_id: str) -> AuditFiles:
        return AuditFiles(self._folder / audit_id)

    def _trim_logs(self) -> int:
        trimmed = 0
        for folder in self._all():
            try:
                trimmed += AuditFiles(folder).trim_log()
            except OSError as error:
                # The other logs are trimmed all the same.
                log.warning("a log could not be trimmed: %s: %s", error.filename or folder, error.strerror)
        return trimmed

    def _remove_folders(self, moment: datetime) -> int:
        removed = 0
        for folder in self._all():
            if _changed_at(folder) >= moment:
                continue
            if driver_processes.search(folder):
                continue
            try:
                shutil.rmtree(folder)
                removed += 1
            except OSError as error:
                # The other folders are removed all the same.
                log.warning("%s cannot be removed: %s: %s", folder, error.filename, error.strerror)
        return removed

    def _all(self) -> list[Path]:
        try:
            folders = sorted(self._folder.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UnavailableError(
                f"the folders of audits cannot be listed: {error.filename}: {error.strerror}"
            ) from error
        return [folder for folder in folders if _NAME.fullmatch(folder.name)]


def _started_s(process: psutil.Process) -> float:
    """Return the start time of a process; the far future if it has ended meanwhile."""
    try:
        return process.create_time()
    except psutil.Error:
        return datetime.max.replace(tzinfo=UTC).timestamp()


def _changed_at(folder: Path) -> datetime:
    """Return the last change in a folder; the far future if it cannot be read, so that the folder is kept."""
    try:
        newest = max(path.lstat().st_mtime for path in (folder, *folder.iterdir()))
    except OSError:
        return datetime.max.replace(tzinfo=UTC)
    return datetime.fromtimestamp(newest, UTC)
