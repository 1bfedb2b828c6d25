"""The small types that many bodies and paths share."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Path
from pydantic import AwareDatetime, BeforeValidator, Field

_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
_UUID = r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"

NO_NUL = r"^[^\x00]*$"
"""Postgres keeps no NUL in a text."""
_YEAR = re.compile(r"[0-9]{4}-")

Name = Annotated[str, Field(pattern=_NAME, examples=["delayed-flights"])]
NameInPath = Annotated[str, Path(pattern=_NAME)]
IdInPath = Annotated[str, Path(pattern=_UUID)]
NumberInPath = Annotated[int, Path(ge=1, lt=2**31)]
Sha256InPath = Annotated[str, Path(pattern="^[0-9a-f]{64}$")]


def _written_out(moment: object) -> object:
    """Refuse a number: pydantic would read it as seconds since 1970, or as milliseconds if it is large."""
    if not isinstance(moment, str) or _YEAR.match(moment) is None:
        raise ValueError("expected a date and a time with its zone, such as 2026-01-31T09:00:00Z")
    return moment


Moment = Annotated[AwareDatetime, BeforeValidator(_written_out)]
Why = Annotated[str | None, Field(pattern=NO_NUL, max_length=1000, description="The reason, for the command log.")]
