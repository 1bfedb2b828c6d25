"""A small disk of its own that can be full: a tmpfs, which only root may mount."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

_BALLAST = "ballast"
_MOUNTS = Path("/proc/self/mounts")
# Its device, which a tmpfs ignores: here the owner.
_SOURCE = "fenceline-faults-"
_BLOCK = b"\0" * 65_536


def may_mount() -> bool:
    """True if there can be such a disk."""
    return os.geteuid() == 0 and shutil.which("mount") is not None


class SmallDisk:
    """A context manager: mounted at `folder` while it is entered; what lies on it at the end is copied to `keep`."""

    def __init__(self, folder: Path, *, size_mb: int, keep: Path) -> None:
        self.folder = folder
        self._size_mb = size_mb
        self._keep = keep

    def __enter__(self) -> Self:
        for folder in abandoned(_MOUNTS.read_text(), psutil.pid_exists):
            _unmount(folder)
        self.folder.mkdir(parents=True)
        options = f"size={self._size_mb}m,mode=0700"
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, f"{_SOURCE}{os.getpid()}", str(self.folder)], check=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.empty()
        try:
            shutil.copytree(self.folder, self._keep, dirs_exist_ok=True)
        finally:
            _unmount(self.folder)

    def fill(self) -> int:
        """Until nothing fits any more; how many bytes that took."""
        with (self.folder / _BALLAST).open("wb", buffering=0) as ballast:
            while True:
                try:
                    ballast.write(_BLOCK)
                except OSError:
                    return ballast.tell()

    def empty(self) -> None:
        """Take away what `fill` has put there."""
        (self.folder / _BALLAST).unlink(missing_ok=True)


def abandoned(mounts: str, is_there: Callable[[int], bool]) -> list[Path]:
    """Where disks lie whose processes were killed before they could unmount them. mounts: as the kernel lists them."""
    found: list[Path] = []
    for line in mounts.splitlines():
        source, folder, *_ = line.split()
        pid = source.removeprefix(_SOURCE)
        if source.startswith(_SOURCE) and pid.isdigit() and not is_there(int(pid)):
            # A space is written as \040.
            found.append(Path(folder.encode().decode("unicode_escape")))
    return found


def _unmount(folder: Path) -> None:
    # Lazily: a process that is just ending may still have its log open.
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
