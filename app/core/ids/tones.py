"""The colours of states: transactional ids."""

from __future__ import annotations

from app.core.ids.registry import IdStanding

TONES: tuple[tuple[str, str], ...] = (
    (IdStanding.OURS, "good"),
    (IdStanding.FOREIGN, "idle"),
    (IdStanding.ORPHANED, "warn"),
    (IdStanding.ARCHIVED, "idle"),
)
