"""What a task tells of its offsets, inside its heartbeats (app/core/wire/heartbeat.py, docs/offset-log.md).

    heartbeat k    OffsetReport  ─▶  stored, then answered with `answered_ms` and `offsets_stored`
    heartbeat k+1  `heard_ms` is that `answered_ms`: whatever this heartbeat does not tell had not happened by then

What was not stored is told again. An event keeps its number, and a run of committed checkpoints may be told again under
the same number, grown: it replaces what was told before.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from app.core.runs.number_bounds import LATEST_MS, Bound
from app.core.wire.offset_events import Event
from app.products.offset_log.hearing import Init


class PartitionOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of which there is something new.

    recorded: how many events there have been of it in this attempt, those included that are not told (any more).
    is_open: a checkpoint that holds some of it is open, and how that ends is not among the events.
    """

    topic: str
    partition: int
    recorded: int
    is_open: bool = False
    events: tuple[Event, ...] = ()


class OffsetReport(msgspec.Struct, frozen=True, kw_only=True):
    """Of partitions that are not named here nothing has happened since the last report that was stored.

    heard_ms: the newest `answered_ms` that had come when this report was made; None: none yet.
    database_epoch: of the database that answered so, and that has what is left out here; None: none yet, or not said.
    is_over: nothing is recorded after this; what is not told of it is only what `recorded` counts.
    inits: what the coordinator gave this attempt's producers, as far as they knew.
    """

    heard_ms: Annotated[int | None, Bound(LATEST_MS, counted_as="offsets.heard_ms")] = None
    database_epoch: str | None = None
    is_over: bool = False
    inits: tuple[Init, ...] = ()
    partitions: tuple[PartitionOffsets, ...] = ()
