"""Whether an uploaded Python file can be a transform, found out without ever importing it into the server."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import sys
import tempfile
from typing import cast

import msgspec

from app.domain.pipelines.pipeline import Problem, PythonFunction

TIME_LIMIT_S = 10.0
MEMORY_LIMIT_MB = 1_024
_CHECKER = "workers.transforms.check_file"


class _Verdict(msgspec.Struct, frozen=True, kw_only=True):
    field: str | None = None
    message: str | None = None
    missing_module: str | None = None


async def check_python_transform(
    transform: PythonFunction,
    *,
    source: str,
    time_limit_s: float = TIME_LIMIT_S,
    memory_limit_mb: int = MEMORY_LIMIT_MB,
) -> list[Problem]:
    """What is wrong with the file `source` as this transform; empty if it imports and has the function.

    The file runs in a child process with an empty environment, in an empty folder, bounded in time, in memory, and
    in what it can write (nothing). That keeps mistakes away from the server, not an attacker: whoever may upload a file
    may run code on the executors anyway.
    A module that is missing here is a warning only, as the executors may have it.
    """
    found = hashlib.sha256(source.encode("utf-8")).hexdigest()
    if found != transform.sha256:
        message = f"{transform.file_name} has the SHA-256 {found}, the definition names {transform.sha256}"
        return [Problem(field="transform.sha256", message=message)]
    request = {
        "source": source,
        "function": transform.function,
        "file_name": transform.file_name,
        "cpu_s": int(time_limit_s) + 1,
        "memory_mb": memory_limit_mb,
    }
    with tempfile.TemporaryDirectory(prefix="fenceline-check-") as folder:
        answer, exit_code = await _run(msgspec.json.encode(request), folder=folder, time_limit_s=time_limit_s)
    try:
        verdict = msgspec.json.decode(answer, type=_Verdict)
    except msgspec.DecodeError:
        return [_file_problem(f"{transform.file_name} {_end(exit_code, time_limit_s)}")]
    if verdict.message is None:
        return []
    if verdict.missing_module is not None:
        message = (
            f"{transform.file_name} imports `{verdict.missing_module}`, which is not installed where the server runs, "
            "so that the file could not be checked; it must be installed on the executors"
        )
        return [msgspec.structs.replace(_file_problem(message), is_warning=True)]
    return [Problem(field=f"transform.{verdict.field}", message=verdict.message)]


async def _run(request: bytes, *, folder: str, time_limit_s: float) -> tuple[bytes, int | None]:
    """The child's answer and exit code; None when its time was up. Nothing of it is left running."""
    # -I: neither the working folder nor PYTHON* variables nor the user's site-packages have a say.
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-I", "-B", "-X", "utf8", "-m", _CHECKER),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={},
        cwd=folder,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(time_limit_s):
            return await _exchange(process, request), await process.wait()
    except TimeoutError:
        return b"", None
    finally:
        # Its whole session, while the child itself is not yet reaped and the number is surely ours.
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def _exchange(process: asyncio.subprocess.Process, request: bytes) -> bytes:
    """Its answer is one line: the end of the stream would wait for whatever the file has started besides."""
    to_child, from_child = cast(asyncio.StreamWriter, process.stdin), cast(asyncio.StreamReader, process.stdout)
    # A child that ends before it has read everything says so by its exit code.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        to_child.write(request)
        await to_child.drain()
    to_child.close()
    return await from_child.readline()


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
