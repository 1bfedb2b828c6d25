"""Options whose value is a time: `90m`, `now` or `2026-01-31T12:00:00Z`."""

from __future__ import annotations

from datetime import datetime

from app.kit.cli.errors import CommandError, ExitCode
from app.kit.moments import WordsError, moment_of


def moment_option(text: str, option: str, *, now: datetime) -> datetime:
    """Return the time that `text` gives. Raises CommandError with the option's name."""
    try:
        return moment_of(text, now=now)
    except WordsError as error:
        raise CommandError(f"{option} {error}", code=ExitCode.USAGE) from error
