"""What a pipeline's files show that needs a person."""

from __future__ import annotations

from app.core.runs.needs import Need, Severity


def repeated_file_need(pipeline: str, references: int) -> Need:
    """That files are named by more than one committed reference each."""
    many = "a committed reference names" if references == 1 else f"{references:,} committed references name"
    return Need(
        pipeline=pipeline,
        run_id=None,
        severity=Severity.WRONG,
        sentence=f"{many} a file that another one had named before: whoever reads by reference sees its records twice",
        next_step="see which on the page of its files, and whether two pipelines or a copy write to its sink topic",
        explained="files",
    )
