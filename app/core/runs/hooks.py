"""Questions of core to products while it works on rows. A unit of work carries the functions: `uow.part(Hooks)`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from app.core.runs.mode import Mode
from app.core.runs.task import TaskReport
from app.core.wire.drill import DrillOrder
from app.core.wire.heartbeat import TaskHeartbeat
from app.kit.db.unit_of_work import UnitOfWork

Refusal = Callable[[UnitOfWork, str], Awaitable[str | None]]
"""Why something must not happen to the pipeline of that name now, as a sentence; None: nothing is against it."""

ShutOut = Callable[[UnitOfWork, str, Mode], Awaitable[Sequence[datetime]]]
"""When it was proven that no client of the pipeline is left in that mode."""

Expire = Callable[[UnitOfWork, datetime], Awaitable[Mapping[str, int]]]
"""Deletes expired rows; the number of them by table."""

KeepOffsets = Callable[[UnitOfWork, TaskHeartbeat, str, datetime], Awaitable[bool]]
"""Keeps the offset events of a heartbeat, with the database's epoch. False: not kept, the task repeats them."""

OrderOf = Callable[[str, TaskReport, datetime], DrillOrder | None]
"""The order for the attempt of a report, by the open drill of its lease (as JSON): for the heartbeat's answer."""


@dataclass(frozen=True, kw_only=True)
class Hooks:
    """The functions of all products, in their order (app/core/product.py has what each is for)."""

    busy: tuple[Refusal, ...] = ()
    disturbed: tuple[Refusal, ...] = ()
    shut_out: tuple[ShutOut, ...] = ()
    order_of: tuple[OrderOf, ...] = ()
    expire: tuple[Expire, ...] = ()
    keep_offsets: tuple[KeepOffsets, ...] = ()
