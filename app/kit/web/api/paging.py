"""Cursor pagination: `after` is the `next_cursor` of the page before, unchanged."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from app.kit.page import LONGEST_CURSOR, MAX_LIMIT

After = Annotated[
    str | None,
    Query(max_length=LONGEST_CURSOR, pattern=r"^[A-Za-z0-9_-]+$", description="`next_cursor` of the previous page."),
]
Limit = Annotated[int, Query(ge=1, le=MAX_LIMIT)]
