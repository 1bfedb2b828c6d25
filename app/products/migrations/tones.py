"""The colours of states: migrations, steps and checks."""

from __future__ import annotations

from app.products.migrations.judged import ClauseStanding
from app.products.migrations.migration import MigrationState, StepState

TONES: tuple[tuple[str, str], ...] = (
    (MigrationState.ACTIVE, "busy"),
    (MigrationState.PAUSED, "warn"),
    (MigrationState.STOPPED, "bad"),
    (MigrationState.DONE, "good"),
    (MigrationState.ABORTED, "idle"),
    (StepState.UNDERWAY, "busy"),
    (StepState.DONE, "good"),
    (StepState.LATE, "bad"),
    (StepState.DROPPED, "idle"),
    (ClauseStanding.OPEN, "good"),
    (ClauseStanding.CLOSED, "warn"),
    (ClauseStanding.UNKNOWN, "idle"),
)
