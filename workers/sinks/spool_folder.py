"""A folder for finished files on their way to the store, which is removed with its process, however that ends."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO

_PREFIX = "fenceline-files-"
_LOCK = ".lock"


class SpoolFolder:
    """Made below `parent`; its maker removes the folders of makers that have ended.

    A maker holds a lock on a file in its folder for as long as it lives. So neither a clock nor a process id decides.
    """

    def __init__(self, parent: Path | None = None) -> None:
        """Raises OSError when there is no place for it."""
        place = parent or Path(tempfile.gettempdir())
        _remove_abandoned(place)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=place))
        self._lock: IO[bytes] = (self.path / _LOCK).open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _remove_abandoned(place: Path) -> None:
    for folder in place.glob(f"{_PREFIX}*"):
        try:
            # A folder that is just being made has no lock file yet, and is left alone.
            with (folder / _LOCK).open("rb") as lock:
                if os.fstat(lock.fileno()).st_uid == os.getuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue
