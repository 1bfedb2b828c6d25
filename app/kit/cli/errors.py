"""What a command that cannot be done says, and the exit code that it ends with."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What a script can tell apart (docs/cli.md)."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_ALLOWED = 4
    INVALID = 5
    CANNOT_TELL = 6


class CommandError(Exception):
    """The command cannot be done. `lines` follow the sentence, one problem a line; `status`: HTTP said so."""

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
