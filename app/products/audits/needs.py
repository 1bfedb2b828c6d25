"""What an audit found that needs a person."""

from __future__ import annotations

from app.core.runs.needs import Need, Severity


def broken_audit_need(pipeline: str, audits: int) -> Need:
    """That audits have proven something wrong with its outputs."""
    many = "an audit has" if audits == 1 else f"{audits} audits have"
    return Need(
        pipeline=pipeline,
        run_id=None,
        severity=Severity.WRONG,
        sentence=f"{many} proven outputs lost, duplicated or unexpected",
        next_step="see which in its audits, with the records and where they lie",
        explained="audits",
    )
