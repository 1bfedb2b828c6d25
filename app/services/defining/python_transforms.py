"""Whether an uploaded Python file can be a transform, found out without ever importing it into the server."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import sys
import tempfile
from collections.abc import Iterable
from typing import cast

import msgspec

from app.domain.pipelines.pipeline import Problem, PythonFunction
from app.services.defining.isolation import Isolation, isolation

TIME_LIMIT_S = 10.0
MEMORY_LIMIT_MB = 1_024
_CHECKER = "workers.transforms.check_file"


_NOT_ISOLATED = (
    "{file} was not validated: no isolation for it here ({reason}). Install bubblewrap, or accept validation without "
    "isolation in the settings (docs/security.md)"
)
_START_LIMIT_S = 30.0
"""For the interpreter and our own packages, before the file's time begins."""
_BY_SIGNAL = 128
"""Of bubblewrap's exit codes: what lies above is the number of the signal that ended the command."""
_COMPLAINT_BYTES = 4_096


class _Request(msgspec.Struct, frozen=True, kw_only=True):
    source: str
    function: str
    file_name: str
    cpu_s: int
    memory_mb: int
    uid: int | None = None


class _Ended(msgspec.Struct, frozen=True, kw_only=True):
    """started: the child was ready to run the file. exit_code: None when its time was up."""

    started: bool
    answer: bytes = b""
    exit_code: int | None = None
    reason: str = ""


class _Verdict(msgspec.Struct, frozen=True, kw_only=True):
    field: str | None = None
    message: str | None = None
    missing_module: str | None = None


async def check_python_transform(
    transform: PythonFunction,
    *,
    source: str,
    secret_paths: Iterable[str] = (),
    accepts_no_isolation: bool = False,
    time_limit_s: float = TIME_LIMIT_S,
    memory_limit_mb: int = MEMORY_LIMIT_MB,
) -> list[Problem]:
    """What is wrong with the file `source` as this transform; empty if it imports and has the function.

    The file runs in a child process in isolation (isolation.py): with an empty environment, in an empty folder, bounded
    in time, in memory, in processes, and in what it can write (nothing). Nothing of the server is within its reach.
    A module that is missing here is a warning only, as the executors may have it.

    Args:
        secret_paths: files and folders of the server that must stay out of sight.
        accepts_no_isolation: run the file as the server's user where isolation cannot be had; else it is not run, and
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
    ended = _Ended(started=False, reason="bubblewrap (`bwrap`) is not installed")
    if isolated is not None:
        ended = await _run(request, isolated=isolated, time_limit_s=time_limit_s)
    if not ended.started and accepts_no_isolation:
        ended = await _run(request, isolated=None, time_limit_s=time_limit_s)
    if not ended.started:
        return [_file_problem(_NOT_ISOLATED.format(file=transform.file_name, reason=ended.reason))]
    try:
        verdict = msgspec.json.decode(ended.answer, type=_Verdict)
    except msgspec.DecodeError:
        return [_file_problem(f"{transform.file_name} {_end(ended.exit_code, time_limit_s)}")]
    if verdict.message is None:
        return []
    if verdict.missing_module is not None:
        message = (
            f"{transform.file_name} imports `{verdict.missing_module}`, which is not installed where the server runs, "
            "so that the file could not be checked; it must be installed on the executors"
        )
        return [msgspec.structs.replace(_file_problem(message), is_warning=True)]
    return [Problem(field=f"transform.{verdict.field}", message=verdict.message)]


async def _run(request: _Request, *, isolated: Isolation | None, time_limit_s: float) -> _Ended:
    """Start the child, ask it, and see it end. Nothing of it is left running."""
    prefix = () if isolated is None else isolated.prefix
    asked = msgspec.json.encode(msgspec.structs.replace(request, uid=None if isolated is None else isolated.uid))
    with tempfile.TemporaryDirectory(prefix="fenceline-check-") as folder:
        # -I: neither the working folder nor PYTHON* variables nor the user's site-packages have a say.
        process = await asyncio.create_subprocess_exec(
            *(*prefix, sys.executable, "-I", "-B", "-X", "utf8", "-m", _CHECKER),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={},
            cwd=folder,
            start_new_session=True,
        )
        first, answer, exit_code = b"", b"", None
        try:
            async with asyncio.timeout(_START_LIMIT_S):
                first = await _ask(process, asked)
            async with asyncio.timeout(time_limit_s):
                answer = await cast(asyncio.StreamReader, process.stdout).readline()
                exit_code = await process.wait()
        except TimeoutError:
            exit_code = None
        finally:
            # Its whole session, while the child itself is not yet reaped and the number is surely ours. In isolation
            # the first process of its namespace ends with it, and everything in there with that.
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
    if isolated is not None and exit_code is not None and exit_code > _BY_SIGNAL:
        exit_code = _BY_SIGNAL - exit_code
    return _Ended(started=bool(first), answer=answer, exit_code=exit_code, reason=await _complaint(process))


async def _ask(process: asyncio.subprocess.Process, request: bytes) -> bytes:
    """The first line of the answer; empty when the child ended before it."""
    to_child, from_child = cast(asyncio.StreamWriter, process.stdin), cast(asyncio.StreamReader, process.stdout)
    # A child that ends before it has read everything says so by its exit code.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        to_child.write(request)
        await to_child.drain()
    to_child.close()
    # Lines: the end of the stream would wait for whatever the file has started besides.
    return await from_child.readline()


async def _complaint(process: asyncio.subprocess.Process) -> str:
    """The last line of what was written before the file ran: the child sends its standard error nowhere by then."""
    from_child = cast(asyncio.StreamReader, process.stderr)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1):
            lines = (await from_child.read(_COMPLAINT_BYTES)).decode("utf-8", "replace").split("\n")
            return next((line.strip() for line in reversed(lines) if line.strip()), "it did not start")
    return "it did not start"


def _file_problem(message: str) -> Problem:
    return Problem(field="transform.file_name", message=message)


def _end(exit_code: int | None, time_limit_s: float) -> str:
    if exit_code is None:
        return (
            f"was still running after {time_limit_s:g} s when it was imported; "
            "a transform's file may define functions, and leaves the work to them"
        )
    if exit_code == -signal.SIGXCPU:
        return "used up its processor time when it was imported; leave the work to the function"
    how = f"signal {-exit_code} ({signal.Signals(-exit_code).name})" if exit_code < 0 else f"exit code {exit_code}"
    return f"ended the process that imported it, by {how}; the import must come to its end"
