"""What the offset log shows that needs a person."""

from __future__ import annotations

from app.core.runs.needs import Need, Severity
from app.products.offset_log.check import MAX_FINDINGS


def contradiction_need(pipeline: str, contradictions: int) -> Need:
    """That records were skipped or processed twice, as the tasks' own records say; of many, only so many are kept."""
    at_least = "at least " if contradictions >= MAX_FINDINGS else ""
    places = "once" if contradictions == 1 else f"{at_least}{contradictions} times"
    return Need(
        pipeline=pipeline,
        run_id=None,
        severity=Severity.WRONG,
        sentence=f"what its tasks recorded of their offsets contradicts itself {places}: "
        "records were skipped or processed twice",
        next_step="see which in its offset log, and audit that time",
        explained="offsets",
        mark="contradicted",
    )
