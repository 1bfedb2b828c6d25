"""The issue of contradicting offset events."""

from __future__ import annotations

from app.core.runs.needs import Need, NeedSeverity
from app.products.offset_log.check import MAX_FINDINGS


def contradiction_need(pipeline: str, contradictions: int) -> Need:
    """Return the issue for this number of contradictions, of which at most MAX_FINDINGS are kept."""
    at_least = "at least " if contradictions >= MAX_FINDINGS else ""
    places = "once" if contradictions == 1 else f"{at_least}{contradictions} times"
    return Need(
        pipeline=pipeline,
        run_id=None,
        severity=NeedSeverity.WRONG,
        sentence=f"its offset events contradict each other {places}: records were skipped or processed twice",
        next_step="see the offset log for the records, and audit that time",
        explained="offsets",
        mark="contradicted",
    )
