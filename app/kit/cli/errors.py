"""The errors and exit codes of commands."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The results that a script can distinguish (docs/cli.md)."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_ALLOWED = 4
    INVALID = 5
    CANNOT_TELL = 6


class CommandError(Exception):
    """The command failed. `lines` follow the sentence, one problem a line; `status`: of the HTTP answer."""

    def __init__(
        self,
        message: str,
        *,
        code: ExitCode = ExitCode.FAILED,
        lines: tuple[str, ...] = (),
        status: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.lines = lines
        self.status = status
