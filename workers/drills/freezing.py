"""Starts the watchdog of a freeze, before anything is stopped."""

from __future__ import annotations

import pkgutil
import select
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import msgspec

READY_WITHIN_S = 10.0


class NoWatchdogError(Exception):
    """The watchdog does not run: without it nothing would thaw this process. The message has the reason."""


class Watchdog:
    """The processes that will freeze and thaw the caller. Used as a context: without `freeze` they end without effect.

    report: sent to one of `urls`, as app/core/wire/drill.py has it; without urls nothing is sent.
    with_parent: freeze the caller's parent too.
    Raises NoWatchdogError when they are not ready within `READY_WITHIN_S`.
    """

    def __init__(
        self,
        *,
        for_s: float,
        urls: Sequence[str] = (),
        token: str = "",
        report: dict[str, Any],
        with_parent: bool = False,
    ) -> None:
        source = pkgutil.get_data("workers.drills", "watchdog.py")
        assert source is not None  # noqa: S101 - it lies beside this file, also where both come in an archive
        # By its text, since the package may be an archive. It runs isolated and in a session of its own, out of reach
        # of the environment and of signals to the group of PySpark's daemon. The token goes by stdin, not by argv.
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", source.decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
        )
        try:
            orders = {
                "for_s": for_s,
                "urls": list(urls),
                "token": token,
                "report": report,
                "with_parent": with_parent,
            }
            self._say(msgspec.json.encode(orders))
            self._wait_until_ready()
        except BaseException:
            self.__exit__(None, None, None)
            raise

    def freeze(self) -> None:
        """Returns after the thaw, when the watchdog has reported its end or stopped trying. Raises NoWatchdogError."""
        self._say(b"go")
        if self._process.wait() != 0:
            raise NoWatchdogError(f"the watchdog ended with {self._process.returncode}: {self._last_word()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """The end of its input ends a watchdog that was not started; one that was is left alone."""
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        self._process.wait()

    def _say(self, line: bytes) -> None:
        pipe = self._process.stdin
        assert pipe is not None  # noqa: S101 - opened with PIPE above
        try:
            pipe.write(line + b"\n")
            pipe.flush()
        except OSError as error:
            raise NoWatchdogError(f"the watchdog is gone: {error}") from error

    def _wait_until_ready(self) -> None:
        out = self._process.stdout
        assert out is not None  # noqa: S101 - opened with PIPE above
        readable, _, _ = select.select([out], [], [], READY_WITHIN_S)
        if not readable:
            self._process.kill()
            raise NoWatchdogError(f"the watchdog was not ready within {READY_WITHIN_S:g} s")
        if out.readline() != b"ready\n":
            raise NoWatchdogError(f"the watchdog could not start: {self._last_word()}")

    def _last_word(self) -> str:
        err = self._process.stderr
        assert err is not None  # noqa: S101 - opened with PIPE above
        said = err.read(4_000).decode(errors="replace").strip().splitlines()
        return said[-1] if said else "it reported nothing"
