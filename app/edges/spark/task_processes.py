"""The processes of tasks on this host, whose end is noticed without a report of Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import psutil

from app.core.runs.observation import ReportedProcess
from app.edges.spark import driver_processes

_PYSPARK = "pyspark."


class TaskProcesses:
    """Remembers the processes that it has found; one that it has not found is never reported as ended."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int, int, int, int], tuple[ReportedProcess, psutil.Process]] = {}

    def ended(
        self, reported: Collection[ReportedProcess], *, folder_of: Callable[[ReportedProcess], Path]
    ) -> list[ReportedProcess]:
        """Find processes that were not known yet, and return each known one that has ended since; each once.

        folder_of: the folder of its lease, which its driver's arguments name.
        """
        ended = [one for one, process in self._found.values() if _has_ended(process)]
        for one in ended:
            del self._found[_key(one)]
        for one in reported:
            if _key(one) not in self._found and one not in ended:
                process = _find(one, folder=folder_of(one))
                if process is not None:
                    # An attempt whose process serves a later attempt has ended by itself.
                    self._found = {key: known for key, known in self._found.items() if known[1] != process}
                    self._found[_key(one)] = one, process
        return ended


def _key(one: ReportedProcess) -> tuple[str, int, int, int, int]:
    return one.run_id, one.ordinal, one.lease, one.task, one.attempt


def _find(one: ReportedProcess, *, folder: Path) -> psutil.Process | None:
    """Return the process that sent the heartbeat; None if this is not certain.

    Another namespace of pids may have the same host name. So the process must be a PySpark worker below an executor of
    this application, or below this lease's driver with a local master. It must have started before it sent.
    """
    try:
        process = psutil.Process(one.pid)
        if process.status() == psutil.STATUS_ZOMBIE or process.create_time() * 1000 > one.sent_at_ms:
            return None
        if not any(word.startswith(_PYSPARK) for word in process.cmdline()):
            return None
        above = [parent.cmdline() for parent in process.parents()]
    except psutil.Error:
        return None
    is_ours = any(one.application_id in words or driver_processes.names(words, folder) for words in above)
    return process if is_ours else None


def _has_ended(process: psutil.Process) -> bool:
    """Compare the start in ticks since boot, as a reused pid is another process and clocks may be set."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
