"""The place of a check of an author's code: a child process in isolation, with a bound on how many there are."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import NamedTuple
from weakref import WeakKeyDictionary

from app.core.transforms.asked_process import LONGEST_ANSWER_BYTES, ProcessEnd, ask
from app.core.transforms.isolation import Isolation, isolation

NOT_ISOLATED = (
    "{what} was not validated: no isolation for it here ({reason}). Install bubblewrap, or accept validation without "
    "isolation in the settings (docs/security.md)"
)
TOO_MANY = "{what} was not validated: others are being validated; try again in a minute"

_BY_SIGNAL = 128
"""The offset of a signal in bubblewrap's exit codes: it added to the signal that ended the command."""
_AT_ONCE = 2
_MOST_WAITING = 6
"""Each of them uses a connection to the database."""
_WAIT_LIMIT_S = 30.0
_NO_BUBBLEWRAP = "bubblewrap (`bwrap`) is not installed"


class Checker(NamedTuple):
    """A module that is run as a child. It reads a request and writes an answer of two lines (asked_process).

    start_limit_s: seconds until it has started, without the author's code.
    limit_s: seconds from there to its end.
    writable_mb: size of its folder for files.
    visible: further paths that it reads.
    answer_bytes: its longest answer.
    """

    module: str
    start_limit_s: float
    limit_s: float
    writable_mb: int = 1
    visible: tuple[str, ...] = ()
    answer_bytes: int = LONGEST_ANSWER_BYTES


class _Checks:
    """Checks of one event loop: `_AT_ONCE` run, `_MOST_WAITING` wait."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._waiting = 0

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncGenerator[bool]:
        """Yield False if too many others are waiting."""
        is_in = False
        if not self._places.locked() or self._waiting < _MOST_WAITING:
            self._waiting += 1
            try:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_WAIT_LIMIT_S):
                        is_in = await self._places.acquire()
            finally:
                self._waiting -= 1
        try:
            yield is_in
        finally:
            if is_in:
                self._places.release()


_checks: WeakKeyDictionary[asyncio.AbstractEventLoop, _Checks] = WeakKeyDictionary()


async def run_check(
    checker: Checker,
    request: Callable[[Isolation | None], bytes],
    *,
    secret_paths: Iterable[str] = (),
    accepts_no_isolation: bool = False,
) -> ProcessEnd | None:
    """Run a check in isolation, else as the server's user if that is accepted; None: too many others are waiting.

    request: makes the request for the child; None: it runs without isolation.
    """
    isolated = isolation(secret_paths=secret_paths, also_visible=checker.visible, writable_mb=checker.writable_mb)
    ended = ProcessEnd(started=False, reason=_NO_BUBBLEWRAP)
    async with _checks.setdefault(asyncio.get_running_loop(), _Checks()).place() as is_in:
        if not is_in:
            return None
        if isolated is not None:
            ended = await _run(checker, request, isolated)
        if not ended.started and accepts_no_isolation:
            ended = await _run(checker, request, None)
    return ended


async def _run(
    checker: Checker, request: Callable[[Isolation | None], bytes], isolated: Isolation | None
) -> ProcessEnd:
    """Start the child, ask it, and wait for its end. No process of it is left running."""
    prefix = () if isolated is None else isolated.prefix
    with tempfile.TemporaryDirectory(prefix="fenceline-check-") as folder:
        ended = await ask(
            # -I: the working folder, PYTHON* variables and the user's site-packages have no effect.
            (*prefix, sys.executable, "-I", "-B", "-X", "utf8", "-m", checker.module),
            request(isolated),
            folder=folder,
            start_limit_s=checker.start_limit_s,
            limit_s=checker.limit_s,
            answer_bytes=checker.answer_bytes,
        )
    code = ended.exit_code
    if isolated is not None and code is not None and code - _BY_SIGNAL in signal.valid_signals():
        ended = ended._replace(exit_code=_BY_SIGNAL - code)
    return ended


def how_it_ended(exit_code: int) -> str:
    """Return an exit code in words: `exit code 1`, `signal 9 (SIGKILL)`."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    # Real-time signals have numbers alone.
    name = next((f" ({one.name})" for one in signal.Signals if one == -exit_code), "")
    return f"signal {-exit_code}{name}"
