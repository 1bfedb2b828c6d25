"""A task's report of its offsets, inside its heartbeats (app/core/wire/heartbeat.py, docs/offset-log.md).

    heartbeat k    OffsetReport  ─▶  stored, then answered with `answered_ms` and `offsets_stored`
    heartbeat k+1  `heard_ms` is that `answered_ms`: events that this heartbeat does not report had not happened by then

An event that was not stored is reported again. It keeps its number. Committed checkpoints in a row may be reported
again under the same number, with more of them: the new event replaces the earlier one.
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import msgspec

from app.core.runs.number_bounds import LATEST_MS, Bound
from app.core.wire.offset_events import Event


class Init(NamedTuple):
    """The coordinator's answer to a producer's init. transactional_id: if its task has several; else None."""

    producer_id: int
    epoch: int
    transactional_id: str | None = None


class ReportedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """One partition with new events.

    recorded: the number of its events in this attempt, with those that are not reported (any more).
    is_open: a checkpoint with some of its records is open, and its end is not among the events.
    """

    topic: str
    partition: int
    recorded: int
    is_open: bool = False
    events: tuple[Event, ...] = ()


class OffsetReport(msgspec.Struct, frozen=True, kw_only=True):
    """Partitions that are not named here have no event since the last report that was stored.

    heard_ms: the newest `answered_ms` that had arrived when this report was made; None: none yet.
    database_epoch: of the database with that answer, which has the events that are left out; None: none yet, or
    unknown.
    is_over: no event is recorded after this; only events that `recorded` counts can be unreported.
    inits: the coordinator's answers to this attempt's producers, as far as they knew them.
    """

    heard_ms: Annotated[int | None, Bound(LATEST_MS, counted_as="offsets.heard_ms")] = None
    database_epoch: str | None = None
    is_over: bool = False
    inits: tuple[Init, ...] = ()
    partitions: tuple[ReportedPartition, ...] = ()
