"""The validation of an uploaded Python file as a transform, without an import into the server."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterable
from typing import Annotated, Literal
from weakref import WeakKeyDictionary

import msgspec

from app.core.pipelines.pipeline import PythonFunction
from app.core.transforms.asked_process import ProcessEnd, ask
from app.core.transforms.isolation import Isolation, isolation
from app.kit.errors import Problem
from app.kit.printable import one_line

TIME_LIMIT_S = 10.0
MEMORY_LIMIT_MB = 1_024
_CHECKER = "workers.transforms.check_file"


_NOT_ISOLATED = (
    "{file} was not validated: no isolation for it here ({reason}). Install bubblewrap, or accept validation without "
    "isolation in the settings (docs/security.md)"
)
_TOO_MANY = "{file} was not validated: other files are being validated; try again in a minute"
_START_LIMIT_S = 30.0
"""For the interpreter and Fenceline's packages, before the file's time begins."""
_BY_SIGNAL = 128
"""The offset of a signal in bubblewrap's exit codes: it added to the signal that ended the command."""
_LONGEST_MESSAGE = 2_000
"""Characters; the child cuts a longer text, so that a longer one is the file's own."""
_AT_ONCE = 2
_MOST_WAITING = 6
"""Each of them uses a connection to the database."""
_WAIT_LIMIT_S = 30.0


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    function: str
    file_name: str
    cpu_s: int
    memory_mb: int
    uid: int | None = None
    is_isolated: bool = False


class _Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The file can write its own: it has only fields that `workers.transforms.check_file` may report."""

    field: Literal["file_name", "function"] = "file_name"
    message: Annotated[str, msgspec.Meta(max_length=_LONGEST_MESSAGE)] | None = None
    missing_module: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_.]{0,99}\Z")] | None = None


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


async def check_python_transform(
    transform: PythonFunction,
    *,
    source: str,
    secret_paths: Iterable[str] = (),
    accepts_no_isolation: bool = False,
    time_limit_s: float = TIME_LIMIT_S,
    memory_limit_mb: int = MEMORY_LIMIT_MB,
) -> list[Problem]:
    """Return the problems of the file `source` as this transform; empty if it imports and has the function.

    The file runs in a child process in isolation (isolation.py), with an empty environment, in an empty folder. It is
    bounded in time, memory and processes, and cannot write. Nothing of the server is within its reach.
    A missing module is a warning only, as the executors may have it.

    Args:
        secret_paths: files and folders of the server that it must not see.
        accepts_no_isolation: run the file as the server's user if isolation is not available; else it is not run, and
            that is the problem.
    """
    found = hashlib.sha256(source.encode("utf-8")).hexdigest()
    if found != transform.sha256:
        message = f"{transform.file_name} has the SHA-256 {found}, the definition names {transform.sha256}"
        return [Problem(field="transform.sha256", message=message)]
    request = _Request(
        source=source,
        function=transform.function,
        file_name=transform.file_name,
        cpu_s=int(time_limit_s) + 1,
        memory_mb=memory_limit_mb,
    )
    isolated = isolation(secret_paths=secret_paths)
    ended = ProcessEnd(started=False, reason="bubblewrap (`bwrap`) is not installed")
    async with _checks.setdefault(asyncio.get_running_loop(), _Checks()).place() as is_in:
        if not is_in:
            return [_file_problem(_TOO_MANY.format(file=transform.file_name))]
        if isolated is not None:
            ended = await _run(request, isolated=isolated, time_limit_s=time_limit_s)
        if not ended.started and accepts_no_isolation:
            ended = await _run(request, isolated=None, time_limit_s=time_limit_s)
    if not ended.started:
        return [_file_problem(_NOT_ISOLATED.format(file=transform.file_name, reason=ended.reason))]
    if ended.exit_code is None:
        return [_file_problem(f"{transform.file_name} {_end(ended, time_limit_s)}")]
    try:
        verdict = msgspec.json.decode(ended.answer, type=_Verdict)
    except msgspec.DecodeError:
        return [_file_problem(f"{transform.file_name} {_end(ended, time_limit_s)}")]
    if verdict.message is None:
        return []
    if verdict.missing_module is not None:
        message = (
            f"{transform.file_name} imports `{verdict.missing_module}`, which is not installed where the server runs, "
            "so that the file could not be checked; it must be installed on the executors"
        )
        return [msgspec.structs.replace(_file_problem(message), is_warning=True)]
    return [Problem(field=f"transform.{verdict.field}", message=one_line(verdict.message))]


async def _run(request: _Request, *, isolated: Isolation | None, time_limit_s: float) -> ProcessEnd:
    """Start the child, ask it, and wait for its end. No process of it is left running."""
    prefix, uid = ((), None) if isolated is None else (isolated.prefix, isolated.uid)
    asked = msgspec.structs.replace(request, uid=uid, is_isolated=isolated is not None)
    with tempfile.TemporaryDirectory(prefix="fenceline-check-") as folder:
        ended = await ask(
            # -I: the working folder, PYTHON* variables and the user's site-packages have no effect.
            (*prefix, sys.executable, "-I", "-B", "-X", "utf8", "-m", _CHECKER),
            msgspec.json.encode(asked),
            folder=folder,
            start_limit_s=_START_LIMIT_S,
            limit_s=time_limit_s,
        )
    code = ended.exit_code
    if isolated is not None and code is not None and code - _BY_SIGNAL in signal.valid_signals():
        ended = ended._replace(exit_code=_BY_SIGNAL - code)
    return ended


def _file_problem(message: str) -> Problem:
    return Problem(field="transform.file_name", message=message)


def _end(ended: ProcessEnd, time_limit_s: float) -> str:
    exit_code = ended.exit_code
    if ended.is_too_long:
        return (
            "wrote to the descriptor of its validation's answer when it was imported; write only to files that it opens"
        )
    if exit_code is None:
        return (
            f"was still running after {time_limit_s:g} s when it was imported; "
            "a transform's file may only define functions, without work at its import"
        )
    if exit_code == -signal.SIGXCPU:
        return "used up its processor time when it was imported; leave the work to the function"
    return f"ended the process that imported it, by {_how(exit_code)}; the import must complete"


def _how(exit_code: int) -> str:
    if exit_code >= 0:
        return f"exit code {exit_code}"
    # Real-time signals have numbers alone.
    name = next((f" ({one.name})" for one in signal.Signals if one == -exit_code), "")
    return f"signal {-exit_code}{name}"
