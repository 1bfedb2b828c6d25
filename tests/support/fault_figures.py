"""The proof at the end of a fault, and how long it kept which part of the pipeline from working."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.support.running_pipeline import RunningPipeline, now

FIGURES = os.environ.get("FENCELINE_FAULT_FIGURES")
"""Set to bench/results/faults.json, it writes down what docs/spark.md says about each fault."""


@contextmanager
def measured(running: RunningPipeline, fault: str) -> Generator[None]:
    """Ends with the proof; notes how long the block took, and the longest gap of any partition from its begin on."""
    began = now()
    try:
        yield
    except AssertionError as failed:
        failed.add_note(running.story())
        raise
    recovered_s = now() - began
    running.assert_nothing_lost_nothing_double()
    gap_s = running.longest_gap_s(since=began)
    if FIGURES:
        path = Path(FIGURES)
        known: dict[str, object] = json.loads(path.read_text()) if path.exists() else {}
        figures = {"longest_gap_s": round(gap_s, 1), "as_before_after_s": round(recovered_s, 1)}
        path.write_text(json.dumps({**known, fault: figures}, indent=2) + "\n")
