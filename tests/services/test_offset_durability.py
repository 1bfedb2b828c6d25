"""What is answered as stored is not told again, so it is stored."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

from msgspec.structs import replace

from app.domain.offset_log.report import OffsetReport
from app.ports.unit_of_work import UnitOfWork
from app.services import offset_log
from tests.support.control_plane import task_heartbeat


async def test_offsets_wait_for_the_disk() -> None:
    done: list[str] = []

    async def add(*_: Any, **__: Any) -> None:
        done.append("added")

    async def relax() -> None:
        done.append("relaxed")

    uow = cast(UnitOfWork, SimpleNamespace(offset_log=SimpleNamespace(add=add), relax_durability=relax))
    beat = replace(task_heartbeat("00000000-0000-0000-0000-000000000001"), offsets=OffsetReport())
    await offset_log.keep(uow, beat, now=datetime(2026, 1, 1, tzinfo=UTC))
    assert done == ["added"]
