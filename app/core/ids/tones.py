"""The colours of states: transactional ids."""

from __future__ import annotations

from app.core.ids.registry import Standing

TONES: tuple[tuple[str, str], ...] = (
    (Standing.OURS, "good"),
    (Standing.FOREIGN, "idle"),
    (Standing.ORPHANED, "warn"),
    (Standing.ARCHIVED, "idle"),
)
