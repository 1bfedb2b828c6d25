"""The colours of states: drills and their targets."""

from __future__ import annotations

from app.products.drills.drill import DrillState, DrillVerdict, TargetState

TONES: tuple[tuple[str, str], ...] = (
    (DrillState.ORDERED, "busy"),
    (DrillState.UNDERWAY, "warn"),
    (DrillState.RECOVERING, "busy"),
    (DrillState.AUDITING, "busy"),
    (DrillState.ENDED, "idle"),
    (DrillVerdict.SURVIVED, "good"),
    (DrillVerdict.NOT_SURVIVED, "bad"),
    (DrillVerdict.NOT_AUDITED, "warn"),
    (DrillVerdict.STOPPED, "idle"),
    (DrillVerdict.NOT_BEGUN, "idle"),
    (TargetState.ORDERED, "busy"),
    (TargetState.CLAIMED, "warn"),
    (TargetState.FROZEN, "warn"),
    (TargetState.THAWED, "good"),
    (TargetState.KILLED, "bad"),
    (TargetState.REFUSED, "idle"),
)
