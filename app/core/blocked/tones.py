"""The colours of the diagnoses."""

from __future__ import annotations

from app.core.blocked.diagnosis import Verdict

TONES: tuple[tuple[str, str], ...] = (
    (Verdict.END, "bad"),
    (Verdict.FENCE, "bad"),
    (Verdict.OWNER, "warn"),
    (Verdict.WAIT, "warn"),
    (Verdict.NO_MEMBERS, "warn"),
    (Verdict.BEHIND, "warn"),
    (Verdict.CANNOT_TELL, "idle"),
    (Verdict.UNSETTLED, "busy"),
    (Verdict.ONLY_MARKERS, "good"),
    (Verdict.FREE, "good"),
)
