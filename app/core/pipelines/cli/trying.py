"""`fenceline pipelines try`: a definition's transform on real records, without writing anything."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from app.core.journals.log_content import Content
from app.core.journals.log_look import Landmark
from app.core.pipelines.cli.pipeline_files import File, Source, body_of, print_problems, read_pipeline, upload_source
from app.core.pipelines.service.trying import TRIED, Trial, TriedRecord
from app.core.transforms.trying import MOST_RECORDS
from app.kit.cli.client import as_record, connect
from app.kit.cli.output import AsJson, present, table
from app.kit.words import count


def try_(
    file: File,
    source: Source = None,
    records: Annotated[int, typer.Option(min=1, max=MOST_RECORDS, help="The most records of a topic.")] = TRIED,
    topic: Annotated[
        str | None, typer.Option(help="A source topic; by default the first one. Queries read all.")
    ] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Without it, all partitions.")] = None,
    start: Annotated[
        str,
        typer.Option(
            "--from", metavar="OFFSET|TIME", help="end (the newest), an offset, start, lso, or a time with its zone."
        ),
    ] = Landmark.END.value,
    as_json: AsJson = False,
) -> None:
    """Run the transform on real records and show each before and after. Nothing is written to Kafka."""
    name, definition = read_pipeline(file, source)
    client = connect()
    upload_source(client, definition, source, beside=file)
    asked = {"records": records, "topic": topic, "partition": partition, "from": start}
    answer = client.post(f"/pipelines/{name}/try", {"definition": body_of(definition), **asked})
    present(lambda: answer, _shown, as_json=as_json)
    if not as_json:
        print_problems(answer["warnings"])


def _shown(answer: Any) -> RenderableType:
    trial = as_record(answer, Trial)
    topics = ", ".join(trial.topics)
    notes = [Text(note, style="yellow") for note in trial.notes]
    tried = f"{topics}: {count(len(trial.records), 'record')} tried"
    if trial.counts is None:
        error = [] if trial.error is None else [Text(f"The query fails on these records: {trial.error}", style="red")]
        head = Text(tried if error else f"{tried}, {count(trial.outputs, 'row')}")
        rows = [] if error else [Text(), _rows(trial)]
        return Group(head, *notes, *error, Text(), _records(trial), *rows)
    counts = trial.counts
    head = (
        f"{tried}, {counts.written} written "
        f"({count(trial.outputs, 'output')}, {counts.routed} routed), {counts.dropped} dropped, {counts.bad} bad"
    )
    rows = (
        (f"{one.before.partition}:{one.before.offset}", one.outcome, _text(one.before.value), _after(one))
        for one in trial.records
    )
    return Group(
        Text(head), *notes, Text(), table(("OFFSET", "RESULT", "BEFORE", "AFTER"), rows, empty="No record was tried.")
    )


def _records(trial: Trial) -> RenderableType:
    rows = (
        (one.before.topic, f"{one.before.partition}:{one.before.offset}", _text(one.before.value))
        for one in trial.records
    )
    return table(("TOPIC", "OFFSET", "RECORD"), rows, empty="No record was tried.")


def _rows(trial: Trial) -> RenderableType:
    rows = (
        (one.topic if one.partition is None else f"{one.topic}-{one.partition}", _text(one.key), _text(one.value))
        for one in trial.rows
    )
    made = table(("SINK", "KEY", "ROW"), rows, empty="No row.")
    more = trial.outputs - len(trial.rows)
    return Group(made, Text(f"and {count(more, 'row')} more")) if more else made


def _after(one: TriedRecord) -> str:
    if one.error is not None:
        return f"{one.error}{': ' if one.contents else ''}{one.contents}"
    shown = [f"{output.topic}: {_text(output.value)}" for output in one.outputs]
    more = one.output_count - len(shown)
    return "\n".join([*shown, *([f"and {count(more, 'output')} more"] if more else [])])


def _text(found: Content | None) -> str:
    if found is None:
        return "null"
    # Control characters of a record must not reach the terminal.
    text = found.text if found.text.isprintable() else json.dumps(found.text)
    return f"{text}{' …' if found.is_cut else ''}"
