"""`fenceline compare PIPELINE`: compare outputs with those of another system, once or by a plan."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from app.kit.cli.client import connect
from app.kit.cli.errors import CommandError, ExitCode
from app.kit.cli.names import PipelineName
from app.kit.cli.output import AsJson, Why, print_json, say
from app.kit.moments import span_of, span_text
from app.products.audits import words
from app.products.audits.cli.audits import Id, Padding, Tolerance, Wait, follow, place, said_of, window_of
from app.products.audits.comparison import Comparison, baseline_words


def compare(
    pipeline: PipelineName,
    baseline: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="BASELINE",
            help="The other system's output: topic:NAME, avro:LOCATION, parquet:LOCATION, csv:LOCATION or table:NAME; "
            "or recomputation, the pipeline's own query as a batch. Default: as in the plan.",
        ),
    ] = None,
    url: Annotated[str | None, typer.Option(help="JDBC URL of the table's database.")] = None,
    user: Annotated[str | None, typer.Option(help="Reference to its user: env:FENCELINE_SECRET_NAME.")] = None,
    password: Annotated[str | None, typer.Option(help="Reference to its password.")] = None,
    driver: Annotated[str | None, typer.Option(help="Class of the JDBC driver.")] = None,
    id_: Id = None,
    baseline_id: Annotated[
        str | None, typer.Option("--baseline-id", help="Place of the id in the baseline, if it differs.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="Field with the time of an output. Default: its timestamp in Kafka.")
    ] = None,
    baseline_time: Annotated[
        str | None, typer.Option("--baseline-time", help="Field with the time of a record of the baseline.")
    ] = None,
    field: Annotated[list[str] | None, typer.Option(help="A compared field; repeatable. Default: all.")] = None,
    ignore: Annotated[list[str] | None, typer.Option(help="A field that is not compared; repeatable.")] = None,
    tolerance_of_numbers: Annotated[
        float, typer.Option("--number-tolerance", min=0, help="Largest difference of two equal numbers.")
    ] = 0.0,
    output_topic: Annotated[
        str | None, typer.Option("--output-topic", help="The pipeline's compared topic. Default: its sink topic.")
    ] = None,
    from_: Annotated[str, typer.Option("--from", help="Start of the window, as for audit.")] = "1h",
    to: Annotated[str, typer.Option("--to", help="End of the window.")] = "now",
    everything: Annotated[bool, typer.Option("--everything", help="All records of the topics.")] = False,
    padding: Padding = None,
    tolerance: Tolerance = None,
    every: Annotated[
        str | None, typer.Option(help="Save a plan with windows of this length instead: 1h, 15m; or never.")
    ] = None,
    why: Why = None,
    wait: Wait = None,
    as_json: AsJson = False,
) -> None:
    """Compare the outputs of a window with those of another system, or of a recomputation. Nothing is written."""
    given = {
        "id_place": place(id_, "--id"),
        "source_id_place": place(baseline_id, "--baseline-id"),
        "padding_s": padding,
        "tolerance_s": tolerance,
    }
    if baseline is not None:
        with said_of("--with"):
            found = words.baseline_of(baseline, url=url, user=user, password=password, driver=driver)
        comparison = Comparison(
            baseline=found,
            output_topic=output_topic,
            time_field=time,
            baseline_time_field=baseline_time,
            fields=tuple(field or ()),
            ignored_fields=tuple(ignore or ()),
            tolerance=tolerance_of_numbers,
        )
        given["comparison"] = msgspec.to_builtins(comparison)
    elif any((url, user, password, driver, time, baseline_time, field, ignore, tolerance_of_numbers, output_topic)):
        raise CommandError("a rule of a comparison requires --with, since the plan has its own", code=ExitCode.USAGE)
    if every is not None:
        _save_plan(pipeline, given, every, why=why, as_json=as_json)
        return
    window = window_of(from_, to, everything=everything)
    client = connect()
    item = client.post(f"/pipelines/{pipeline}/comparisons", {"window": window, **given, "why": why})
    follow(client, item, noun="comparison", wait=wait, as_json=as_json)


def _save_plan(pipeline: str, given: dict[str, Any], every: str, *, why: str | None, as_json: bool) -> None:
    """Save the plan; what is not given stays, if there is a plan."""
    changes = {name: value for name, value in given.items() if value is not None}
    with said_of("--every"):
        changes["every_s"] = None if every == "never" else int(span_of(every).total_seconds())
    client, path = connect(), f"/pipelines/{pipeline}/comparison-plan"
    kept = ("id_place", "source_id_place", "padding_s", "tolerance_s", "every_s", "comparison")
    is_whole = "comparison" in changes and "id_place" in changes
    before = {} if is_whole else {name: client.get(path)[name] for name in kept}
    item = client.put(path, {**before, **changes, "why": why})
    if as_json:
        print_json(item)
        return
    saved = msgspec.convert(item["comparison"], Comparison)
    every_words = "on request only" if item["every_s"] is None else f"every {span_text(item['every_s'])}"
    say(f"{pipeline} is compared with {baseline_words(saved.baseline)}, {every_words}")
