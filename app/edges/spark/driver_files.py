"""The folder of one driver: its specification, its log, its outcome, Spark's temporary files.

The folder's name is unique, and an argument of both driver processes. So a reused pid of another process is never taken
for a driver.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
from pathlib import Path

import msgspec

from app.kit.errors import UnavailableError

log = logging.getLogger(__name__)

LOG_TAIL_BYTES = 64 * 1024
"""A Java stack of several causes is longer than 4 KiB, and its first line has the error."""
LOG_LIMIT_BYTES = 16 * 1024 * 1024


class DriverFiles(msgspec.Struct, frozen=True):
    """Paths of one driver; nothing is created before `write_specification`."""

    folder: Path

    @property
    def specification(self) -> Path:
        return self.folder / "specification.json"

    @property
    def log(self) -> Path:
        return self.folder / "driver.log"

    @property
    def older_log(self) -> Path:
        """The part that `trim_log` removed from the log last."""
        return self.folder / "driver.log.1"

    @property
    def outcome(self) -> Path:
        return self.folder / "outcome.json"

    @property
    def local_dir(self) -> Path:
        return self.folder / "local"

    def write_specification(self, content: bytes) -> None:
        """Write it so that only this user may read it. Raises UnavailableError, leaving no file behind."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.folder.chmod(0o700)
            self.local_dir.mkdir(exist_ok=True)
            handle = os.open(self.specification, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "wb") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            self.withdraw()
            raise UnavailableError(_sentence(error, self.specification)) from error

    def withdraw(self) -> None:
        """Remove the specification: its driver will not start, or has claimed its lease.

        On a disk error the file stays, readable by its owner only, with the token of a lease that ends. It is deleted
        with the folder, and must not keep an application from being judged or killed.
        """
        try:
            self.specification.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s could not be removed: %s", self.specification, error.strerror)

    def clear_away(self) -> None:
        """Remove what an ended driver would have removed itself. Log and outcome stay."""
        self.withdraw()
        shutil.rmtree(self.local_dir, ignore_errors=True)

    def log_tail(self) -> str:
        """Return the last lines of the driver's log, as the reason of its end."""
        try:
            with self.log.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - LOG_TAIL_BYTES))
                return file.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def trim_log(self, *, limit_bytes: int = LOG_LIMIT_BYTES) -> bool:
        """Once the log is longer than `limit_bytes`, move its last `limit_bytes` to `older_log` and empty it.

        It is copied and truncated, since a living driver keeps its file open and appends. Lines written in between are
        lost. False if nothing was to do. Raises OSError.
        """
        try:
            log = self.log.open("r+b")
        except FileNotFoundError:
            return False
        with log:
            size = log.seek(0, os.SEEK_END)
            if size <= limit_bytes:
                return False
            log.seek(size - limit_bytes)
            with self.older_log.open("wb") as older:
                shutil.copyfileobj(log, older)
            log.truncate(0)
        return True


def _sentence(error: OSError, path: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the specification could not be written to {path}: the disk is full; free some space and start again"
    return f"the specification could not be written to {path}: {error.strerror or error}"
