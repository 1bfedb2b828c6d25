"""The validation of an uploaded Python file as a transform, without an import into the server."""

from __future__ import annotations

import hashlib
import signal
from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec

from app.core.pipelines.pipeline import PythonFunction
from app.core.transforms.asked_process import ProcessEnd
from app.core.transforms.check_process import NOT_ISOLATED, TOO_MANY, Checker, how_it_ended, run_check
from app.kit.errors import Problem
from app.kit.printable import one_line

TIME_LIMIT_S = 10.0
MEMORY_LIMIT_MB = 1_024
_CHECKER = "workers.transforms.check_file"
_START_LIMIT_S = 30.0
"""For the interpreter and Fenceline's packages, before the file's time begins."""
_LONGEST_MESSAGE = 2_000
"""Characters; the child cuts a longer text, so that a longer one is the file's own."""


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
    ended = await run_check(
        Checker(module=_CHECKER, start_limit_s=_START_LIMIT_S, limit_s=time_limit_s),
        lambda isolated: msgspec.json.encode(
            msgspec.structs.replace(request, uid=isolated.uid, is_isolated=True) if isolated else request
        ),
        secret_paths=secret_paths,
        accepts_no_isolation=accepts_no_isolation,
    )
    if ended is None:
        return [_file_problem(TOO_MANY.format(what=transform.file_name))]
    if not ended.started:
        return [_file_problem(NOT_ISOLATED.format(what=transform.file_name, reason=ended.reason))]
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
    return f"ended the process that imported it, by {how_it_ended(exit_code)}; the import must complete"
