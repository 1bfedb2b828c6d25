"""The end of an instance's Spark log, where this machine has it."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

from app.core.runs.instance import Instance

TAIL_BYTES = 64 * 1024
TAIL_LINES = 300


@dataclass(frozen=True, kw_only=True)
class LogTail:
    """`text` is the end of the file; `why_not` is the reason if there is none."""

    label: str
    path: str | None
    text: str = ""
    why_not: str | None = None


def tail_of(instance: Instance, *, within: Path) -> LogTail:
    """Return the last lines of the instance's log.

    within: the server's own folder; a path outside it is not read, even if the database has it.
    """
    label = f"instance {instance.ordinal}, lease {instance.lease}"
    if instance.log_path is None:
        return LogTail(label=label, path=None, why_not="It was not submitted yet, so there is no log.")
    if instance.host not in (None, socket.gethostname()):
        return LogTail(label=label, path=instance.log_path, why_not=f"It is on {instance.host}: {instance.log_path}")
    path = Path(instance.log_path).resolve()
    if not path.is_relative_to(within.resolve()):
        return LogTail(label=label, path=instance.log_path, why_not=f"It is outside {within}, so it is not shown.")
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL_BYTES))
            data = file.read()
    except OSError as error:
        return LogTail(label=label, path=instance.log_path, why_not=f"It cannot be read: {error.strerror}")
    lines = data.decode("utf-8", errors="replace").splitlines()[-TAIL_LINES:]
    return LogTail(label=label, path=instance.log_path, text="\n".join(lines))
