"""The colours of the diagnoses."""

from __future__ import annotations

from app.core.blocked.diagnosis import AdviceVerdict

TONES: tuple[tuple[str, str], ...] = (
    (AdviceVerdict.END, "bad"),
    (AdviceVerdict.FENCE, "bad"),
    (AdviceVerdict.OWNER, "warn"),
    (AdviceVerdict.WAIT, "warn"),
    (AdviceVerdict.NO_MEMBERS, "warn"),
    (AdviceVerdict.BEHIND, "warn"),
    (AdviceVerdict.CANNOT_TELL, "idle"),
    (AdviceVerdict.UNSETTLED, "busy"),
    (AdviceVerdict.ONLY_MARKERS, "good"),
    (AdviceVerdict.FREE, "good"),
)
