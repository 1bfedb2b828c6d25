"""The issue of repeated references."""

from __future__ import annotations

from app.core.runs.needs import Need, NeedSeverity


def repeated_file_need(pipeline: str, references: int) -> Need:
    """Return the issue for this number of references to files that earlier ones name."""
    many = "a committed reference names" if references == 1 else f"{references:,} committed references name"
    return Need(
        pipeline=pipeline,
        run_id=None,
        severity=NeedSeverity.WRONG,
        sentence=f"{many} a file that an earlier one names: consumers of references read its records twice",
        next_step="see the page of its files for them, and check for other writers to its sink topic",
        explained="files",
    )
