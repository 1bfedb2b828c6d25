"""The child process that tries an uploaded Python file: `python -I -m workers.transforms.check_file`.

It reads one request as JSON from its standard input, changes to the user of the request and applies its limits. Then it
writes an empty line, runs the file and writes one verdict as a line of JSON. The server starts it with an empty
environment, isolated where possible, and kills it when its time is up.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from typing import Protocol

import msgspec

from workers.transforms.user_code import UserCodeError, load_function

LONGEST_MESSAGE = 2_000
"""Characters. The server takes no longer answer."""
STARTED = b"\n"
"""The first line of the answer: an end after it is caused by the file, not by its environment."""


class Limits(Protocol):
    """The part of a request that `limit` needs."""

    @property
    def cpu_s(self) -> int: ...
    @property
    def memory_mb(self) -> int: ...
    @property
    def is_isolated(self) -> bool: ...


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """cpu_s: seconds of processor time; memory_mb: of address space, the interpreter's own included.

    uid: the user and group to become, for a child of root; None: no change.
    is_isolated: the kernel counts this check's processes apart, by user or by user namespace.
    """

    source: str
    function: str
    file_name: str
    cpu_s: int
    memory_mb: int
    uid: int | None = None
    is_isolated: bool = False


class TransformVerdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`message` None: the file imports and has the function."""

    field: str | None = None
    message: str | None = None
    missing_module: str | None = None


def judge(request: Request) -> TransformVerdict:
    """Run the file in this process."""
    try:
        load_function(request.source, function=request.function, file_name=request.file_name)
    except UserCodeError as error:
        message = str(error)[:LONGEST_MESSAGE]
        return TransformVerdict(field=error.field, message=message, missing_module=error.missing_module)
    return TransformVerdict()


_PROCESSES = 4
"""Each process may fill its memory: this bounds the sum. Threads count, and one process of bubblewrap as an ordinary
user."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Numeric libraries start a thread for each core of the machine when they are imported."""


def become(uid: int) -> None:
    """Change the user, without a way back: a process that leaves user 0 so loses every capability."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def limit(request: Limits) -> None:
    """Set the limits, without a way back: the hard limits go down too. With a file size of 0 no file can grow."""
    # Counted by user, and since Linux 5.14 by user namespace. Without isolation the server's own processes would count.
    if request.is_isolated:
        resource.setrlimit(resource.RLIMIT_NPROC, (_PROCESSES, _PROCESSES))
        os.environ.update(ONE_THREAD)
    size_bytes = request.memory_mb * 1024 * 1024
    for kind, value in (
        (resource.RLIMIT_AS, size_bytes),
        (resource.RLIMIT_CPU, request.cpu_s),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (value, value))


class Answer:
    """The way to the server, on a descriptor of its own. Output of the author's code is discarded.

    Make it before any of that code runs. keeps_errors: the error output stays until `start`.
    """

    def __init__(self, *, keeps_errors: bool = False) -> None:
        self._descriptor = os.dup(1)
        self._nowhere = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1) if keeps_errors else (0, 1, 2):
            os.dup2(self._nowhere, descriptor)

    def start(self) -> None:
        """Say that the environment stands: from here on, an end is caused by the author's code."""
        os.dup2(self._nowhere, 2)
        self._write(STARTED)

    def end_with(self, verdict: msgspec.Struct) -> None:
        """Write the answer, then end all processes of this session: threads, exit hooks and children, too."""
        self._write(msgspec.json.encode(verdict) + b"\n")
        os.killpg(0, signal.SIGKILL)

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._descriptor, data) :]


def main() -> None:
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    answer = Answer()
    if request.uid is not None:
        become(request.uid)
    limit(request)
    answer.start()
    answer.end_with(judge(request))


if __name__ == "__main__":
    main()
