"""The table of `fenceline pipelines try`."""

from __future__ import annotations

import io
from typing import Any

import msgspec
from rich.console import Console

from app.core.journals.log_content import content
from app.core.pipelines.cli.trying import _shown  # pyright: ignore[reportPrivateUsage] - what the command prints
from app.core.pipelines.pipeline import FailurePolicy
from app.core.pipelines.service.trying import OutcomeCounts, ShownRecord, Trial, TriedOutcome, TriedRecord
from app.core.transforms.trying import TriedOutput


def printed(*records: TriedRecord) -> str:
    trial = Trial(
        topics=("flights",),
        records=records,
        counts=OutcomeCounts(written=1, routed=1, dropped=0, bad=1),
        outputs=12,
        policy=FailurePolicy.FAIL,
        notes=("A note.",),
    )
    answer: Any = msgspec.to_builtins(trial)
    out = io.StringIO()
    Console(file=out, width=160).print(_shown(answer))
    return out.getvalue()


def test_each_record_has_its_outputs_or_its_error_and_no_control_character_reaches_the_terminal() -> None:
    before = ShownRecord(topic="flights", partition=1, offset=7, timestamp_ms=1, value=content(b"a\x1b[31mb"))
    output = TriedOutput(topic="late", value=content(b"out"))
    found = printed(
        TriedRecord(before=before, outcome=TriedOutcome.WRITTEN, outputs=(output,), output_count=12),
        TriedRecord(before=before, outcome=TriedOutcome.BAD, error="mine.py, line 3: ValueError", contents="text"),
    )
    assert "flights: 2 records tried, 1 written (12 outputs, 1 routed), 0 dropped, 1 bad" in found
    assert "late: out" in found
    assert "and 11 outputs more" in found
    assert "mine.py, line 3: ValueError: text" in found
    assert "A note." in found
    assert "\x1b" not in found
