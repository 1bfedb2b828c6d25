"""End the children of a process that died without ending them itself.

`PR_SET_PDEATHSIG` would be shorter. But it fires when the *thread* that forked ends, and needs code between fork and
exec. A change of uid, as embedded Postgres makes, clears it. So one small process for each parent receives the process
groups through a pipe. End of file on the pipe, or a new parent, means that the parent has ended (also by SIGKILL). It
then kills every registered group.

This file is both the library (`watch`, `forget`) and, run as a script with the standard library alone, the process.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
from pathlib import Path


class _Guardian:
    def __init__(self) -> None:
        self.owner_pid = os.getpid()
        self._lock = threading.Lock()
        # S603: this interpreter and this file; isolated and without site packages, so it starts in 20 ms.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).resolve()), str(self.owner_pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )

    def tell(self, line: str) -> None:
        pipe = self._process.stdin
        assert pipe is not None  # noqa: S101 - opened with PIPE above
        # A killed guardian is no error: it is the second line of defence.
        with self._lock, contextlib.suppress(BrokenPipeError):
            pipe.write(line.encode("ascii"))
            pipe.flush()


_current: _Guardian | None = None
_creation = threading.Lock()


def _guardian() -> _Guardian:
    global _current
    with _creation:
        # A forked child must not write to its parent's pipe.
        if _current is None or _current.owner_pid != os.getpid():
            _current = _Guardian()
        return _current


def watch(process_group: int) -> None:
    """Kill the process group when this process ends."""
    _guardian().tell(f"+{process_group} {_start_ticks(process_group)}\n")


def forget(process_group: int) -> None:
    """Remove an ended process group: its number may soon belong to another process."""
    _guardian().tell(f"-{process_group}\n")


def _start_ticks(pid: int) -> str:
    """Return the start time of `pid`, which distinguishes it from a later process; empty without /proc."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return ""
    # Field 22; the name in field 2 may hold spaces, so count from its closing parenthesis.
    return stat.rpartition(")")[2].split()[19]


def _serve(parent_pid: int) -> None:
    groups: dict[int, str] = {}
    pending = b""
    while True:
        readable, _, _ = select.select([0], [], [], 1.0)
        if readable:
            chunk = os.read(0, 65536)
            if not chunk:
                break
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                number, _, ticks = line[1:].decode("ascii").partition(" ")
                if line.startswith(b"+"):
                    groups[int(number)] = ticks
                else:
                    groups.pop(int(number), None)
        # A fork of the parent may hold the pipe open after the parent is gone.
        if os.getppid() != parent_pid:
            break
    for group, ticks in groups.items():
        if _start_ticks(group) == ticks:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
