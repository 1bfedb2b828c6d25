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
    return text_of(trial)


def text_of(trial: Trial) -> str:
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


def test_query_has_its_records_and_its_rows_or_the_error_over_them() -> None:
    record = ShownRecord(topic="flights", partition=1, offset=7, timestamp_ms=1, value=content(b"before\x1b[31m"))
    row = TriedOutput(topic="late", partition=3, key=content(b"UA\x1b[31m"), value=content(b"after"))
    trial = Trial(
        topics=("flights", "weather"),
        records=(TriedRecord(before=record),),
        counts=None,
        outputs=52,
        rows=(row, row),
        policy=FailurePolicy.FAIL,
        notes=("A note.",),
    )
    found = text_of(trial)
    assert "flights, weather: 1 record tried, 52 rows" in found
    lines = [line.split() for line in found.splitlines()]
    assert ["flights", "1:7", '"before\\u001b[31m"'] in lines
    assert lines.count(["late-3", '"UA\\u001b[31m"', "after"]) == 2
    assert "and 50 rows more" in found
    assert "A note." in found
    failed = text_of(msgspec.structs.replace(trial, rows=(), outputs=0, error="a value does not fit"))
    assert "The query fails on these records: a value does not fit" in failed
    assert "0 rows" not in failed
    assert "\x1b" not in found + failed
