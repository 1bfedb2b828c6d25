"""The folders of all leases that were submitted on this host (the port app/core/runs/launcher.py)."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
from datetime import UTC, datetime
from pathlib import Path

from app.core.runs.launcher import LeaseFolder
from app.edges.spark import driver_processes
from app.edges.spark.instance_files import InstanceFiles, folder_of_instances
from app.kit.errors import UnavailableError

log = logging.getLogger(__name__)

_NAME = re.compile(r"(?P<run_id>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-(?P<ordinal>\d+)-(?P<lease>\d+)")


class StateFolders:
    """Yield the folders below `instances` in the state folder that are named like a lease; others are ignored."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir

    async def unchanged_since(self, moment: datetime) -> list[LeaseFolder]:
        return await asyncio.to_thread(self._unchanged_since, moment)

    async def trim_logs(self) -> int:
        return await asyncio.to_thread(self._trim_logs)

    async def remove(self, folder: LeaseFolder) -> bool:
        return await asyncio.to_thread(self._remove, folder)

    def _unchanged_since(self, moment: datetime) -> list[LeaseFolder]:
        return [
            LeaseFolder(run_id=name["run_id"], ordinal=int(name["ordinal"]), lease=int(name["lease"]))
            for path, name in self._all()
            if _changed_at(path) < moment
        ]

    def _trim_logs(self) -> int:
        trimmed = 0
        for path, _ in self._all():
            try:
                trimmed += InstanceFiles(path).trim_log()
            except OSError as error:
                # An error of one log must not stop the trimming of others.
                log.warning("a log could not be trimmed: %s: %s", error.filename or path, error.strerror)
        return trimmed

    def _all(self) -> list[tuple[Path, re.Match[str]]]:
        try:
            paths = sorted(folder_of_instances(self._state_dir).iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UnavailableError(
                f"the folders of instances cannot be listed: {error.filename}: {error.strerror}"
            ) from error
        return [(path, name) for path in paths if (name := _NAME.fullmatch(path.name)) is not None]

    def _remove(self, folder: LeaseFolder) -> bool:
        path = InstanceFiles.of(
            self._state_dir, run_id=folder.run_id, ordinal=folder.ordinal, lease=folder.lease
        ).folder
        if driver_processes.search(path):
            return False
        try:
            shutil.rmtree(path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise UnavailableError(f"{path} cannot be removed: {error.filename}: {error.strerror}") from error
        return True


def _changed_at(folder: Path) -> datetime:
    """Return the time of the newest write in it; the far future if that is unreadable, so that it is kept."""
    try:
        newest = max(path.lstat().st_mtime for path in (folder, *folder.iterdir()))
    except OSError:
        return datetime.max.replace(tzinfo=UTC)
    return datetime.fromtimestamp(newest, UTC)
