"""`fenceline batches` and `fenceline new-checkpoint`: the query of a pipeline of kind `dataframe`."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from app.kit.cli.client import as_record, connect
from app.kit.cli.errors import CommandError, ExitCode
from app.kit.cli.listing import Limit
from app.kit.cli.names import PipelineName
from app.kit.cli.output import AsJson, Watch, Why, ago, console, present, print_json, say, state, table
from app.kit.words import NOTHING, duration, milliseconds, number, size
from app.products.dataframes.batch import BatchPart, QueryBatch
from app.products.dataframes.new_checkpoint import Begin, NewCheckpointPlan
from app.products.dataframes.summary import QuerySummary

_SHOWN = 20


def batches(pipeline: PipelineName, limit: Limit = _SHOWN, watch: Watch = False, as_json: AsJson = False) -> None:
    """Show the query of a pipeline: state, rates and watermark, and its newest batches with their durations."""
    client = connect()

    def read() -> dict[str, Any]:
        summary = client.get(f"/pipelines/{pipeline}/query")
        return {"query": summary, "batches": list(client.items(f"/pipelines/{pipeline}/batches", limit=limit))}

    present(read, rendered, as_json=as_json, watch_it=watch)


def rendered(found: dict[str, Any]) -> RenderableType:
    summary = as_record(found["query"], QuerySummary)
    shown = [as_record(one, QueryBatch) for one in found["batches"]]
    columns = [f"{str(part).upper()}#" for part in BatchPart]
    return Group(
        Text.assemble(state(summary.state), "  ", summary.sentence),
        *([Text(_figures(summary))] if summary.newest is not None else []),
        Text(""),
        table(
            ("BATCH#", "STARTED", "DURATION#", *columns, "IN#", "OUT#", "STATE#", "LATE#", "WATERMARK"),
            (_row(one) for one in shown),
            empty="No batches yet.",
        ),
    )


def _figures(summary: QuerySummary) -> str:
    interval = "" if summary.trigger_interval_ms is None else f", trigger {milliseconds(summary.trigger_interval_ms)}"
    figures = [
        f"rows in {_rate(summary.input_rows_per_s)}, out {_rate(summary.output_rows_per_s)}",
        f"median duration {milliseconds(summary.median_trigger_ms)}{interval}",
    ]
    if summary.watermark is not None:
        figures.append(f"watermark age {duration(summary.watermark_age_ms)}")
    if summary.late_rows:
        figures.append(f"{number(summary.late_rows)} late rows in the newest {summary.late_in_batches} batches")
    return " · ".join(figures)


def _rate(per_s: float | None) -> str:
    return NOTHING if per_s is None else f"{per_s:,.1f}/s"


def _row(batch: QueryBatch) -> tuple[str | None, ...]:
    watermark = batch.watermark
    return (
        number(batch.batch),
        ago(batch.started_at),
        milliseconds(batch.trigger_ms),
        *(milliseconds(ms) for ms in batch.lengths_ms().values()),
        number(batch.input_rows),
        number(batch.output_rows),
        size(batch.state_bytes),
        number(batch.late_rows),
        None if watermark is None else watermark.strftime("%Y-%m-%d %H:%M:%S UTC"),
    )


def new_checkpoint(
    pipeline: PipelineName,
    begin: Annotated[
        Begin | None,
        typer.Option(help="Where the new query begins. Default: committed if it has no state, else start_position."),
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="LOCATION", help="The new location; without it, one is suggested.")
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Leave the checkpoint; without it, show the plan.")
    ] = False,
    why: Why = None,
    as_json: AsJson = False,
) -> None:
    """Show what a new checkpoint reads again, loses and writes twice; with --execute, leave the old one.

    It requires that no run lives.
    """
    if execute and not (why or "").strip():
        raise CommandError("--execute needs a reason: add --why", code=ExitCode.USAGE)
    client = connect()
    path = f"/pipelines/{pipeline}/checkpoint"
    plan = client.get(f"{path}/plan", begin=begin, checkpoint=checkpoint)
    if execute:
        confirmed = {name: plan[name] for name in ("begin", "checkpoint")}
        plan = client.post(path, {**confirmed, "expected_batch": plan["newest_batch"], "why": why})
    if as_json:
        print_json({"executed": execute, "plan": plan})
        return
    shown = as_record(plan, NewCheckpointPlan)
    console.print(planned(shown))
    if execute:
        say(f"done, revision {shown.revision}; set `checkpoint: {shown.checkpoint}` in the pipeline's file")
        say(f"start it with: fenceline runs start {pipeline}")
    else:
        say("nothing was changed; add --execute to leave the checkpoint")


def planned(plan: NewCheckpointPlan) -> RenderableType:
    lines = [*plan.effects, *plan.kafka]
    return Group(
        Text.assemble(plan.left, " → ", (plan.checkpoint, "bold")),
        *(Text(f"not possible now: {reason}", style="red") for reason in plan.refusals),
        Text(""),
        table(
            ("PARTITION", "COMMITTED#", "BEGIN#", "LOG START#", "END#", "READ AGAIN#", "NEVER READ#"),
            (
                (
                    f"{one.topic}-{one.partition}",
                    number(one.committed),
                    number(one.begin),
                    number(one.log_start),
                    number(one.end),
                    number(one.read_again),
                    number(one.never_read),
                )
                for one in plan.partitions
            ),
            empty="No partitions.",
        ),
        Text(""),
        *(Text(f"- {line}") for line in lines),
    )
