"""Ends the children of a process that died without ending them itself.

`PR_SET_PDEATHSIG` would be shorter, but it fires when the *thread* that forked ends, needs code between fork and exec,
and is cleared by a change of uid, as embedded Postgres makes. So one small process a parent is told, through a pipe,
which process groups there are. End of file on the pipe, or another parent than before, means that the parent is gone
(also by SIGKILL): whatever is still registered is then killed.

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
        # S603: our own interpreter and our own file; isolated and without site packages, so it starts in 20 ms.
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
        # A guardian that somebody killed is no reason to fail: it is the second line of defence.
        with self._lock, contextlib.suppress(BrokenPipeError):
            pipe.write(line.encode("ascii"))
            pipe.flush()


_current: _Guardian | None = None
_creation = threading.Lock()


def _guardian() -> _Guardian:
    global _current
    with _creation:
        # A forked child must not speak through its parent's pipe.
        if _current is None or _current.owner_pid != os.getpid():
            _current = _Guardian()
        return _current


def watch(process_group: int) -> None:
    """Have the process group killed when this process is gone."""
    _guardian().tell(f"+{process_group} {_start_ticks(process_group)}\n")


def forget(process_group: int) -> None:
    """The process group has ended: its number may soon belong to somebody else."""
    _guardian().tell(f"-{process_group}\n")


def _start_ticks(pid: int) -> str:
    """When the kernel started `pid`, to tell it from a later process of the same number; empty where /proc is not."""
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
