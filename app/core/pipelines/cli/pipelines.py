"""`fenceline pipelines`: definitions, their revisions and differences."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from app.core.mappings.mapping import PartitionMapping
from app.core.pipelines import pipeline_file
from app.core.pipelines.cli.pipeline_files import (
    File,
    Note,
    Source,
    body_of,
    print_problems,
    read_pipeline,
    upload_source,
)
from app.core.pipelines.cli.trying import try_
from app.core.pipelines.file_text import describe_columns
from app.core.pipelines.pipeline import PipelineDefinition
from app.core.pipelines.pipeline_record import Pipeline, Revision
from app.kit.cli.client import as_record, connect
from app.kit.cli.errors import CommandError, ExitCode
from app.kit.cli.listing import show_list
from app.kit.cli.names import PipelineName
from app.kit.cli.output import (
    AsJson,
    Watch,
    Why,
    Yes,
    ago,
    confirm_or_exit,
    present,
    print_json,
    say,
    state,
    table,
)
from app.kit.words import duration_s, number

app = typer.Typer(help="Pipelines: define, check, compare, remove.", no_args_is_help=True)


@app.command("list")
def list_(as_json: AsJson = False, watch_it: Watch = False) -> None:
    """List all pipelines with the state of their run."""
    client = connect()
    show_list(
        lambda: client.items("/pipelines"),
        ("NAME", "STATE", "SOURCE", "SINK", "GUARANTEE", "REVISION#", "CHANGED"),
        lambda p: (
            p.name,
            state(p.current_run.state if p.current_run else "never started"),
            ", ".join(p.definition.source_topics),
            p.definition.sink_topic,
            p.definition.processing_guarantee.value,
            str(p.current_revision),
            ago(p.changed_at),
        ),
        record=Pipeline,
        empty="No pipeline yet: fenceline apply -f pipeline.yaml (docs/pipelines.md has examples)",
        as_json=as_json,
        watch_it=watch_it,
    )


@app.command()
def show(name: PipelineName, as_json: AsJson = False, watch_it: Watch = False) -> None:
    """Show one pipeline: its run, and each input partition with its owner and lag."""
    client = connect()

    def data() -> Any:
        pipeline = client.get(f"/pipelines/{name}")
        cluster, group = quote(pipeline["definition"]["cluster"], safe=""), pipeline["definition"]["group_id"]
        groups = client.get(f"/clusters/{cluster}/groups", search=group, limit=100)["items"]
        return {
            **pipeline,
            "mappings": client.get(f"/pipelines/{name}/mappings")["items"],
            "lag": next((one["lag"] for one in groups if one["group"] == group), None),
        }

    present(data, _shown, as_json=as_json, watch_it=watch_it)


def _shown(item: Any) -> RenderableType:
    mappings = [as_record(mapping, PartitionMapping) for mapping in item["mappings"]]
    pipeline = as_record(item, Pipeline)
    definition, run = pipeline.definition, pipeline.current_run
    noun = "tasks" if definition.dataframe is None else "writers"
    head = Text.assemble(
        (pipeline.name, "bold"),
        "  ",
        state(run.state if run else "never started"),
        f"  {definition.processing_guarantee} · revision {pipeline.current_revision} · "
        f"{definition.instances} × {definition.tasks_per_instance} {noun} on {definition.spark.master}\n",
        f"{', '.join(definition.source_topics)} → {definition.sink_topic}   group {definition.group_id}",
    )
    if (files := definition.files) is not None:
        head.append(f"\nreferences to files under {files.root}, by {describe_columns(files.partition_by)}")
    if run is not None:
        head.append(f"\nrun {run.id} · revision {run.revision} · started {ago(run.started_at)} by {run.started_by}")
        if run.end_reason:
            head.append(f"\n{run.end_reason}")
    if (lag := item["lag"]) is not None:
        least = "at least " if lag["lag_is_at_least"] and lag["lag_s"] else ""
        head.append(
            f"\nlag {number(lag['lag_records'])} records, {least}{duration_s(lag['lag_s'])} behind: {lag['state']}"
        )
    rows = (
        (
            f"{m.topic}-{m.partition}",
            m.transactional_id or "–",
            f"{m.owner.ordinal}.{m.owner.task} attempt {m.owner.attempt} on {m.owner.host}" if m.owner else None,
            number(m.generation),
            number(m.committed),
            number(m.end),
            number(m.lag_records),
        )
        for m in mappings
    )
    return Group(
        head,
        Text(),
        table(
            ("PARTITION", "TRANSACTIONAL ID", "OWNER", "GENERATION#", "COMMITTED#", "END#", "LAG#"),
            rows,
            empty="No partition is mapped yet; the first run maps them.",
        ),
    )


@app.command()
def validate(file: File, source: Source = None, as_json: AsJson = False) -> None:
    """Check a definition against the rules and the cluster, without saving anything."""
    name, definition = read_pipeline(file, source)
    client = connect()
    upload_source(client, definition, source, beside=file)
    result = client.post(f"/pipelines/{name}/validate", {"definition": body_of(definition)})
    if as_json:
        print_json(result)
    elif result["problems"]:
        print_problems(result["problems"])
    else:
        say(f"{name}: no problem found")
    for pending in () if as_json else result["changes"]:
        say(f"{pending['change']['sentence']} {pending['takes_effect']}")
    if not result["is_valid"]:
        raise typer.Exit(ExitCode.INVALID)


app.command("try")(try_)


@app.command()
def create(file: File, source: Source = None, note: Note = None, why: Why = None, as_json: AsJson = False) -> None:
    """Create a pipeline; `fenceline apply` also changes one that exists."""
    name, definition = read_pipeline(file, source)
    client = connect()
    upload_source(client, definition, source, beside=file)
    body = {"name": name, "definition": body_of(definition), "note": note, "why": why}
    saved = client.post("/pipelines", body)
    if as_json:
        print_json(saved)
        return
    print_problems(saved["warnings"])
    say(f"created {name}, revision {saved['pipeline']['current_revision']}; start it: fenceline runs start {name}")


@app.command()
def revisions(name: PipelineName, as_json: AsJson = False) -> None:
    """List all revisions, newest first."""
    client = connect()
    show_list(
        lambda: client.get(f"/pipelines/{name}/revisions")["items"],
        ("REVISION#", "CREATED", "USER", "NOTE", "SHA-256"),
        lambda r: (str(r.number), ago(r.created_at), r.created_by, r.note, r.definition_sha256[:12]),
        record=Revision,
        empty="No revisions.",
        as_json=as_json,
    )


@app.command()
def diff(
    name: PipelineName,
    before: Annotated[int | None, typer.Argument(help="A revision; by default the one before the current one.")] = None,
    after: Annotated[int | None, typer.Argument(help="A revision; by default the current one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show the differences of two revisions."""
    client = connect()
    last = after if after is not None else int(client.get(f"/pipelines/{name}")["current_revision"])
    first = before if before is not None else last - 1
    if first < 1:
        raise CommandError(f"{name} has only one revision, so there is no difference")
    result = client.get(f"/pipelines/{name}/diff", **{"from": first, "to": last})
    if as_json:
        print_json(result)
        return
    say(f"{name}: revision {first} → {last}")
    for change in result["changes"]:
        say(f"  {change['sentence']}")
        if change["consequence"]:
            say(f"    {change['consequence']}")
    if not result["changes"]:
        say("  no difference")


@app.command()
def export(
    name: PipelineName,
    revision: Annotated[int | None, typer.Option(help="A revision; by default the current one.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print a definition as `fenceline apply -f` takes it."""
    client = connect()
    path = f"/pipelines/{name}" if revision is None else f"/pipelines/{name}/revisions/{revision}"
    item: Any = client.get(path)
    if as_json:
        print_json({"name": name, "definition": item["definition"]})
        return
    typer.echo(pipeline_file.write(name, as_record(item["definition"], PipelineDefinition)), nl=False)


@app.command()
def delete(name: PipelineName, why: Why = None, yes: Yes = False) -> None:
    """Delete a pipeline with its revisions and history; refused while a run lives. Nothing in Kafka changes."""
    confirm_or_exit(f"Delete the pipeline {name} with its revisions and history?", is_confirmed=yes)
    connect().delete(f"/pipelines/{name}", why=why)
    say(f"deleted {name}")
