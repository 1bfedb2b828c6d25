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
    records: Annotated[int, typer.Option(min=1, max=MOST_RECORDS, help="The most records.")] = TRIED,
    topic: Annotated[str | None, typer.Option(help="A source topic; by default the first one.")] = None,
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
    _, definition = read_pipeline(file, source)
    client = connect()
    upload_source(client, definition, source, beside=file)
    asked = {"records": records, "topic": topic, "partition": partition, "from": start}
    answer = client.post("/pipelines/try", {"definition": body_of(definition), **asked})
    present(lambda: answer, _shown, as_json=as_json)
    if not as_json:
        print_problems(answer["warnings"])


def _shown(answer: Any) -> RenderableType:
    trial = as_record(answer, Trial)
    head = (
        f"{trial.topic}: {count(len(trial.records), 'record')} tried, {trial.written} written "
        f"({count(trial.outputs, 'output')}, {trial.routed} routed), {trial.dropped} dropped, {trial.bad} bad"
    )
    rows = (
        (f"{one.before.partition}:{one.before.offset}", one.outcome.value, _text(one.before.value), _after(one))
        for one in trial.records
    )
    notes = [Text(note, style="yellow") for note in trial.notes]
    empty = "No record was tried."
    return Group(Text(head), *notes, Text(), table(("OFFSET", "RESULT", "BEFORE", "AFTER"), rows, empty=empty))


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
