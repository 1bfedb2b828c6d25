"""Orders of drills in the answers to heartbeats (Hooks.order_of, app/core/runs/hooks.py)."""

from __future__ import annotations

from datetime import datetime

import msgspec

from app.core.runs.task import TaskReport
from app.core.wire.drill import DrillOrder
from app.products.drills.drill import Drill, TargetState


def order_of(row: str, report: TaskReport, now: datetime) -> DrillOrder | None:
    """Return the order for this very attempt, until it has claimed it or it is too late.

    row: the open drill, as JSON.
    """
    drill = msgspec.json.decode(row, type=Drill)
    if not drill.may_begin(now):
        return None
    target = drill.target_of(report.task, report.attempt)
    if target is None or target.state is not TargetState.ORDERED:
        return None
    return DrillOrder(
        drill_id=drill.id,
        act=drill.act,
        for_s=drill.plan.for_s,
        begin_within_s=(drill.begin_by - now).total_seconds(),
    )
