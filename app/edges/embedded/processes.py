"""A child process in a session of its own, with its output in a file, and signals to it and its children."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from app.edges.embedded import guardian
from app.edges.embedded.errors import EmbeddedError, PortTakenError

LOG_TAIL_LINES = 25
# The message of the C library in Kafka, Spark and Postgres.
_ADDRESS_IN_USE = b"Address already in use"


def has_ended(pid: int) -> bool:
    """Return whether no process has that number; an ended one that its parent has not collected counts as none."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _wait_for_all(processes: Sequence[psutil.Process], condition: Callable[[psutil.Process], bool]) -> None:
    """Wait, with a limit, until the condition holds for each process or the process has ended."""
    deadline = time.monotonic() + 10
    waiting = list(processes)
    while waiting and time.monotonic() < deadline:
        still: list[psutil.Process] = []
        for process in waiting:
            with contextlib.suppress(psutil.NoSuchProcess):
                if not condition(process):
                    still.append(process)
        waiting = still
        time.sleep(0.005)


@dataclass(frozen=True, slots=True)
class ChildUser:
    """The unprivileged user that a child runs as."""

    uid: int
    gid: int


@dataclass(slots=True)
class ChildProcess:
    """One service process, started at most once at a time.

    It leads a session of its own, so that a Ctrl-C at the terminal reaches only the parent. The guardian ends it if the
    parent dies first. Its standard output and error are appended to `log_path`.
    """

    name: str
    argv: Sequence[str]
    log_path: Path
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: Path | None = None
    identity: ChildUser | None = None
    temporary: Path | None = None
    _process: subprocess.Popen[bytes] | None = None
    _log_offset: int = 0

    @property
    def pid(self) -> int:
        """Process id of the running (or paused) child; raises EmbeddedError when there is none."""
        if self._process is None or self._process.poll() is not None:
            raise EmbeddedError(f"{self.name} is not running")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """True from start until the process has ended, paused or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code of the last process (negative: the signal), None while it runs or before the first start."""
        return None if self._process is None else self._process.poll()

    def start(self) -> None:
        """Start the process; raises EmbeddedError when it runs already or cannot be executed."""
        if self.is_running:
            raise EmbeddedError(f"{self.name} is already running with pid {self.pid}")
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        if self.temporary is not None:
            # Also the remains of an earlier process whose parent was killed with it.
            shutil.rmtree(self.temporary, ignore_errors=True)
            self.temporary.mkdir(parents=True)
        with self.log_path.open("ab") as log:
            self._log_offset = log.tell()
            try:
                self._process = subprocess.Popen(
                    list(self.argv),
                    env=dict(self.env) or None,
                    cwd=self.cwd,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    user=None if self.identity is None else self.identity.uid,
                    group=None if self.identity is None else self.identity.gid,
                    extra_groups=None if self.identity is None else [],
                )
            except OSError as error:
                raise EmbeddedError(f"{self.name} could not be started: {error}") from error
        guardian.watch(self._process.pid)

    def run(self, *, timeout_s: float) -> None:
        """Run a tool to its end; raises EmbeddedError with the log's tail when it fails or takes too long."""
        self.start()
        try:
            if (code := self._wait(timeout_s)) != 0:
                verdict = f"took longer than {timeout_s:.0f} s" if code is None else f"failed with exit code {code}"
                raise EmbeddedError(f"{self.name} {verdict}.\n{self.log_tail()}")
        finally:
            self.kill()

    def stop(self, *, sig: signal.Signals = signal.SIGTERM, timeout_s: float = 20.0) -> None:
        """Ask it to end, wait, and kill what is left after `timeout_s`; does nothing when it is not running."""
        if self._process is None:
            return
        if self.is_running:
            self._signal(sig)
            # A stopped process keeps a signal pending until it is continued.
            self.resume()
            self._wait(timeout_s)
        self._end_group()

    def kill(self, *, whole_tree: bool = True) -> None:
        """SIGKILL the process and, by default, all its children; wait for their end; idempotent."""
        if self._process is None:
            return
        if whole_tree:
            self._end_group()
        elif self.is_running:
            self._signal(signal.SIGKILL)
            self._process.wait()

    def pause(self, *, whole_tree: bool = True) -> None:
        """SIGSTOP the process and, by default, all its children: sockets stay open without answers."""
        tree = self._tree() if whole_tree else self._tree()[:1]
        for process in tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
        # The kernel stops each thread when it next enters the kernel: wait for it, so that the pause holds on return.
        _wait_for_all(tree, lambda process: process.status() == psutil.STATUS_STOPPED)

    def resume(self) -> None:
        """SIGCONT after `pause`; harmless when it was not paused."""
        for process in self._tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()

    def wait_until(self, condition: Callable[[], bool], *, timeout_s: float, what: str) -> None:
        """Poll until `condition()`; raises EmbeddedError with the log's tail after the process's end or the time."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if not self.is_running:
                kind = PortTakenError if _ADDRESS_IN_USE in self._log_since_start() else EmbeddedError
                raise kind(f"{self.name} ended with exit code {self.exit_code} before {what}.\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise EmbeddedError(f"{self.name}: {timeout_s:.0f} s passed without {what}.\n{self.log_tail()}")
            time.sleep(0.05)

    def log_tail(self) -> str:
        """The last lines of the log under a line that names the file."""
        try:
            lines = self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError as error:
            return f"(no log: {error})"
        return "\n".join([f"last lines of {self.log_path}:", *(f"  {line}" for line in lines[-LOG_TAIL_LINES:])])

    def _log_since_start(self) -> bytes:
        with self.log_path.open("rb") as log:
            log.seek(self._log_offset)
            return log.read()

    def _wait(self, timeout_s: float) -> int | None:
        """The exit code, or None when it still runs after `timeout_s`."""
        assert self._process is not None  # noqa: S101 - all callers started it
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout_s)
        return None

    def _signal(self, sig: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, sig)

    def _tree(self) -> list[psutil.Process]:
        """The process, then its descendants; empty when it has ended."""
        if not self.is_running:
            return []
        with contextlib.suppress(psutil.NoSuchProcess):
            root = psutil.Process(self.pid)
            return [root, *root.children(recursive=True)]
        return []

    def _end_group(self) -> None:
        assert self._process is not None  # noqa: S101 - both callers looked
        tree = self._tree()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for process in tree:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        _wait_for_all(tree, lambda process: process.status() == psutil.STATUS_ZOMBIE)
        guardian.forget(self._process.pid)
        if self.temporary is not None:
            shutil.rmtree(self.temporary, ignore_errors=True)
