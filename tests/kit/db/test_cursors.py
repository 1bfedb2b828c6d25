"""A changed cursor is refused before the database is queried."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import cast

import pytest

from app.core.fencing.record import FencingFilter
from app.core.fencing.store import FencingStore
from app.core.hanging.store import HangingStore
from app.core.runs.store.runs import RunStore
from app.kit.db.connection import Connection
from app.kit.errors import InvalidError, NotFoundError
from app.kit.page import encode_cursor

NOBODY = cast(Connection, None)
MOMENT, ROW = "2026-01-31T09:00:00+00:00", "8a6e0804-2bd0-4672-b79d-d97027f9071a"
LISTS: dict[str, Callable[[str], Awaitable[object]]] = {
    "fencing": lambda after: FencingStore(NOBODY).list(FencingFilter(), after=after, limit=1),
    "hanging": lambda after: HangingStore(NOBODY).list("kafka-1", after=after, limit=1),
    "runs": lambda after: RunStore(NOBODY).list(pipeline=None, after=after, limit=1),
}


@pytest.mark.parametrize("of", LISTS)
@pytest.mark.parametrize("keys", [(MOMENT, "no id"), ("no moment", ROW), ("2026-01-31T09:00:00", ROW), (MOMENT,)])
async def test_changed_cursor_is_called_one(of: str, keys: tuple[str, ...]) -> None:
    with pytest.raises(InvalidError, match="take it from next_cursor unchanged") as refused:
        await LISTS[of](encode_cursor(*keys))
    assert refused.value.field == "after"


async def test_what_is_no_id_is_no_fencing_event() -> None:
    with pytest.raises(NotFoundError, match="the fencing event no id does not exist"):
        await FencingStore(NOBODY).get("no id")
