"""A report that is answered as stored is not repeated, so it is stored."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from app.core.wire.offset_report import OffsetReport
from app.products.offset_log import service as offset_log
from app.products.offset_log.store import OffsetLogStore
from tests.support.control_plane import task_heartbeat
from tests.support.unit_of import UnitOf

RUN = "00000000-0000-0000-0000-000000000001"


async def test_offsets_wait_for_the_disk() -> None:
    done: list[str] = []

    async def add(*_: Any, **__: Any) -> None:
        done.append("added")

    class Unit(UnitOf):
        async def relax_durability(self) -> None:
            done.append("relaxed")

    uow = Unit({OffsetLogStore: SimpleNamespace(add=add)})
    beat = replace(task_heartbeat(RUN), offsets=OffsetReport())
    assert await offset_log.keep(uow, beat, database_epoch="this one", now=datetime(2026, 1, 1, tzinfo=UTC))
    assert done == ["added"]


async def test_report_for_another_database_is_not_stored() -> None:
    """The left-out events are not here: an older database was restored."""
    uow = UnitOf()
    beat = replace(task_heartbeat(RUN), offsets=OffsetReport(database_epoch="the one before"))
    assert not await offset_log.keep(uow, beat, database_epoch="this one", now=datetime(2026, 1, 1, tzinfo=UTC))
