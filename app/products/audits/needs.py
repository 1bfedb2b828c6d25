"""The issue of a broken audit."""

from __future__ import annotations

from app.core.runs.needs import Need, NeedSeverity


def broken_audit_need(pipeline: str, audits: int) -> Need:
    """Return the issue for a pipeline with this number of broken audits."""
    many = "an audit has" if audits == 1 else f"{audits} audits have"
    return Need(
        pipeline=pipeline,
        run_id=None,
        severity=NeedSeverity.WRONG,
        sentence=f"{many} proven outputs lost, duplicated, unexpected or different",
        next_step="see its audits for the records with topic, partition and offset",
        explained="audits",
    )
