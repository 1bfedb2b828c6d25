"""`fenceline audit PIPELINE`, and `fenceline audits`: list, show, stop, and the plans of a pipeline."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, cast

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.text import Text

from app.kit.cli.client import Client, connect
from app.kit.cli.errors import CommandError, ExitCode
from app.kit.cli.listing import Limit, OfPipeline, show_list
from app.kit.cli.moments import moment_option
from app.kit.cli.names import PipelineName
from app.kit.cli.output import AsJson, Watch, Why, ago, present, print_json, say, state, table
from app.kit.cli.watching import watching
from app.kit.moments import WordsError, span_of, span_text
from app.kit.words import number
from app.products.audits import words
from app.products.audits.comparison import Comparison, baseline_words
from app.products.audits.plan import time_window
from app.products.audits.specification import IdPlace, Window

app = typer.Typer(
    help="Audits: compare the outputs of a pipeline with its input. `fenceline audit PIPELINE` requests one.",
    no_args_is_help=True,
)

AuditId = Annotated[str, typer.Argument(metavar="AUDIT", help="An audit's id.")]
Id = Annotated[
    str | None,
    typer.Option("--id", help="Place of the id in outputs: key, json:PATH or header:NAME. Default: as in the plan."),
]
SourceId = Annotated[
    str | None, typer.Option("--source-id", help="Place of the id in inputs, if it differs from outputs.")
]
Padding = Annotated[
    int | None, typer.Option(min=0, help="Seconds outside the window in which an output is late, not lost.")
]
Tolerance = Annotated[int | None, typer.Option(min=0, help="Seconds to wait until the pipeline has passed the window.")]
Wait = Annotated[
    float | None,
    typer.Option(
        "--wait",
        metavar="SECONDS",
        help="Wait at most this long for the verdict; exit code 1 unless clean or empty.",
    ),
]
ENDED = frozenset({"done", "failed", "stopped", "skipped"})


def audit(
    pipeline: PipelineName,
    from_: Annotated[
        str,
        typer.Option("--from", help="Start of the window: a time such as 2026-01-31T12:00:00Z, or 90m, 2h, 1d ago."),
    ] = "1h",
    to: Annotated[str, typer.Option("--to", help="End of the window, in the same format, or now.")] = "now",
    everything: Annotated[bool, typer.Option("--everything", help="All records of the topics.")] = False,
    id_: Id = None,
    source_id: SourceId = None,
    padding: Padding = None,
    tolerance: Tolerance = None,
    why: Why = None,
    wait: Wait = None,
    as_json: AsJson = False,
) -> None:
    """Audit a pipeline: the last hour, or another window. Nothing is written to Kafka."""
    body = {
        "window": window_of(from_, to, everything=everything),
        "id_place": place(id_, "--id"),
        "source_id_place": place(source_id, "--source-id"),
        "padding_s": padding,
        "tolerance_s": tolerance,
        "why": why,
    }
    client = connect()
    follow(client, client.post(f"/pipelines/{pipeline}/audits", body), noun="audit", wait=wait, as_json=as_json)


def window_of(begin: str, end: str, *, everything: bool) -> dict[str, Any]:
    """Return the window of a request. Raises CommandError at --from or --to."""
    if everything:
        return {"kind": "everything"}
    now = datetime.now(UTC)
    return {
        "kind": "time",
        "start": moment_option(begin, "--from", now=now).isoformat(),
        "end": moment_option(end, "--to", now=now).isoformat(),
    }


def follow(client: Client, item: Any, *, noun: str, wait: float | None, as_json: bool) -> None:
    """Print a requested audit, after its end if `wait` is given. Raises Exit unless it is clean or empty then."""
    if wait is None:
        if as_json:
            print_json(item)
        else:
            say(f"{noun} {item['id']} of {item['pipeline']}; follow it: fenceline audits show {item['id']} --watch")
        return
    deadline_s = time.monotonic() + wait
    with watching(deadline_s=deadline_s):
        item = _wait(client, str(item["id"]), deadline_s=deadline_s)
    present(lambda: item, shown, as_json=as_json)
    if item["verdict"] not in ("clean", "empty"):
        raise typer.Exit(ExitCode.FAILED)


@app.command("list")
def list_(pipeline: OfPipeline = None, limit: Limit = 20, as_json: AsJson = False, watch_it: Watch = False) -> None:
    """List audits, newest first."""
    client = connect()
    show_list(
        lambda: client.items("/audits", limit=limit, pipeline=pipeline),
        ("AUDIT", "PIPELINE", "STATE", "WINDOW", "COMPARED WITH", "LOST#", "DUPLICATED#", "REQUESTED", "USER"),
        _row,
        empty="No audit yet: fenceline audit PIPELINE --id json:PATH",
        record=dict[str, Any],
        as_json=as_json,
        watch_it=watch_it,
    )


def _row(item: dict[str, Any]) -> Sequence[RenderableType | str | None]:
    return (
        item["id"],
        item["pipeline"],
        state(item["verdict"] or item["state"]),
        _window_words(item["window"]),
        _baseline_words(item),
        _found(item, "lost"),
        _found(item, "duplicated"),
        ago(datetime.fromisoformat(item["asked_at"])),
        item["asked_by"],
    )


@app.command()
def show(
    audit_id: AuditId,
    ids: Annotated[
        bool, typer.Option("--ids", help="Include the ids of the examples. Requires the role operator, and is logged.")
    ] = False,
    as_json: AsJson = False,
    watch_it: Watch = False,
) -> None:
    """Show an audit with its verdict, counts, and the places of the wrong records."""
    client = connect()

    def data() -> Any:
        return client.get(f"/audits/{audit_id}", with_ids="true" if ids else None)

    present(data, shown, as_json=as_json, watch_it=watch_it)


@app.command()
def stop(audit_id: AuditId, why: Why = None, as_json: AsJson = False) -> None:
    """Stop an audit, which then has no result."""
    item = connect().post(f"/audits/{audit_id}/stop", {"why": why})
    if as_json:
        print_json(item)
    else:
        say(str(item["sentence"]))


@app.command()
def plan(
    pipeline: PipelineName,
    id_: Id = None,
    source_id: SourceId = None,
    every: Annotated[str | None, typer.Option(help="Length of the scheduled windows: 1h, 15m; or never.")] = None,
    padding: Annotated[int | None, typer.Option(min=0, help="Seconds of padding.")] = None,
    tolerance: Annotated[int | None, typer.Option(min=0, help="Seconds to wait before a window is skipped.")] = None,
    comparison: Annotated[
        bool, typer.Option("--comparison", help="The plan for comparisons, which `fenceline compare --every` saves.")
    ] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the plan.")] = False,
    why: Why = None,
    as_json: AsJson = False,
) -> None:
    """Show a pipeline's audit plan, or create or change it with options."""
    client = connect()
    noun = "comparison" if comparison else "audit"
    path = f"/pipelines/{pipeline}/{noun}-plan"
    if remove:
        client.delete(path, why=why)
        say(f"{pipeline} has no {noun} plan any more")
        return
    given = {
        "id_place": place(id_, "--id"),
        "source_id_place": place(source_id, "--source-id"),
        "padding_s": padding,
        "tolerance_s": tolerance,
    }
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if every is not None:
        with said_of("--every"):
            changes["every_s"] = None if every == "never" else int(span_of(every).total_seconds())
    if changes:
        kept = ("id_place", "source_id_place", "padding_s", "tolerance_s", "every_s", *(["comparison"] * comparison))
        before = {} if "id_place" in changes and not comparison else {name: client.get(path)[name] for name in kept}
        item = client.put(path, {**before, **changes, "why": why})
    else:
        item = client.get(path)
    if as_json:
        print_json(item)
        return
    every_words = "on request only" if item["every_s"] is None else f"every {span_text(item['every_s'])}"
    verb = f"compared with {_baseline_words(item)}" if comparison else "audited"
    say(f"{pipeline} is {verb} by {_place_words(item['id_place'])}, {every_words}")
    if item["next_due_at"] is not None:
        say(f"next window from {item['decided_until']}, not before {item['next_due_at']}")
    if item["shown_until"] is not None:
        say(f"shown clean until {item['shown_until']}")


def place(text: str | None, option: str) -> dict[str, str] | None:
    """Return `key`, `json:PATH` or `header:NAME` in the form of the REST API. Raises CommandError."""
    if text is None:
        return None
    with said_of(option):
        return cast("dict[str, str]", msgspec.to_builtins(words.id_place_of(text)))


@contextmanager
def said_of(option: str) -> Generator[None]:
    """Raise a WordsError of an option's text as CommandError."""
    try:
        yield
    except WordsError as error:
        raise CommandError(f"{option} {error}", code=ExitCode.USAGE) from error


def _place_words(place: Any) -> str:
    return words.id_place_words(msgspec.convert(place, IdPlace))


def _baseline_words(item: Any) -> str:
    comparison = msgspec.convert(item.get("comparison"), Comparison | None)
    return "its input" if comparison is None else baseline_words(comparison.baseline)


def _window_words(window: Any) -> str:
    if window["kind"] == "time":
        begin, end = (datetime.fromisoformat(window[name]) for name in ("start", "end"))
        return words.window_words(time_window(begin, end))
    return words.window_words(msgspec.convert(window, Window))


def _found(item: Any, what: str) -> str:
    """Return a count, or a dash if it is not known: without a result, or zero if not all could be compared."""
    result = item["result"]
    if result is None:
        return "–"
    records = result["counts"][what]["records"]
    is_all = item["verdict"] != "not_shown" and not result["gaps"]
    return number(records if records or is_all else None)


def shown(item: Any) -> RenderableType:
    head = Text.assemble(
        (item["pipeline"], "bold"),
        "  ",
        state(item["verdict"] or item["state"]),
        f"  audit {item['id']} · {_window_words(item['window'])} · by {_place_words(item['id_place'])}",
    )
    parts: list[RenderableType] = [head, Text(item["sentence"])]
    progress, result = item["progress"], item["result"]
    if item["state"] == "running" and progress is not None:
        parts.append(Text(f"{progress['stage']}: {progress['tasks_done']} of {progress['tasks']} tasks done", "dim"))
    if result is None:
        return Group(*parts)
    parts += [Text(f"not shown: {gap['sentence']}") for gap in result["gaps"]]
    counts = result["counts"]
    is_comparison = result.get("baseline") is not None
    kinds = ("lost", "duplicated", "unexpected", "late", "missing", "unexplained")
    kinds += ("different", "duplicated_in_baseline") if is_comparison else ()
    is_of_files = counts.get("files") is not None
    parts += [
        Text(),
        table(
            ("", "IDS#", "OUTPUTS#"),
            [
                ("expected", "–", number(counts["expected"])),
                ("found", "–", number(counts["outputs"])),
                *((kind, number(counts[kind]["ids"]), _found(item, kind)) for kind in kinds),
            ],
            empty="",
        ),
        *(_of_files(item) if is_of_files else ()),
        *(_of_fields(item) if is_comparison else ()),
        Text(),
        table(
            ("FINDING", "ID", "EXPECTED#", "FOUND#", "INPUTS", "REFERENCES" if is_of_files else "OUTPUTS"),
            (
                (
                    one["finding"],
                    one["id"],
                    number(one["expected"]),
                    number(one["found"]),
                    _places(one["inputs"]),
                    _places(one["outputs"]),
                )
                for one in result["examples"]
                if one["finding"] != "dangling"
            ),
            empty="No examples.",
        ),
    ]
    return Group(*parts)


def _of_fields(item: Any) -> list[RenderableType]:
    """Return the fields that differ, and their values where these are shown."""
    result = item["result"]
    fields = [(one["field"], number(one["records"])) for one in result["fields"]]
    values = [
        (one["finding"], one["id"], value["field"], value["baseline"], value["output"])
        for one in result["examples"]
        for value in one["values"]
    ]
    parts: list[RenderableType] = []
    if fields:
        parts += [Text(), table(("DIFFERENT FIELD", "RECORDS#"), fields, empty="")]
    if values:
        parts += [Text(), table(("FINDING", "ID", "FIELD", "BASELINE", "OUTPUT"), values, empty="")]
    return parts


def _of_files(item: Any) -> list[RenderableType]:
    result = item["result"]
    counts = result["counts"]
    rows = [
        (_places(one["outputs"]), place["file"], one["why"])
        for one in result["examples"]
        if one["finding"] == "dangling"
        for place in one["outputs"]
    ]
    dangling = counts["dangling"]["ids"]
    files = f"files verified and read: {number(counts['files'])}, dangling references: {number(dangling)}"
    parts: list[RenderableType] = [Text(), Text(files)]
    return [*parts, table(("DANGLING REFERENCE", "FILE", "REASON"), rows, empty="")] if rows else parts


def _places(places: Any) -> str | None:
    return ", ".join(f"{one['topic']}-{one['partition']}@{one['offset']}" for one in places) or None


def _wait(client: Client, audit_id: str, *, deadline_s: float) -> Any:
    while True:
        item = client.get(f"/audits/{audit_id}")
        if item["state"] in ENDED:
            return item
        if time.monotonic() > deadline_s:
            raise CommandError(f"timed out: audit {audit_id} is {item['state']}: {item['sentence']}")
        time.sleep(0.5)
