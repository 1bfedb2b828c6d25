"""`fenceline mappings`: owners of partitions, now and at any time; imports of ids; the registry of all ids."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from app.core.ids.registry import Only, RegistrySort
from app.core.mappings.cli.tables import import_plan, mappings, registry, stretches, written
from app.kit.cli.client import Client, connect
from app.kit.cli.errors import CommandError, ExitCode
from app.kit.cli.listing import show_list
from app.kit.cli.moments import moment_option
from app.kit.cli.names import PipelineName, names_of
from app.kit.cli.output import AsJson, Watch, Why, Yes, confirm_or_exit, present, say
from app.kit.page import MAX_LIMIT

app = typer.Typer(
    help="The owner and the transactional id of each partition: now, at any time, and after an import.",
    no_args_is_help=True,
)

Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="NAME",
        help="The cluster, if several are registered.",
        autocompletion=names_of("clusters"),
    ),
]
Partition = Annotated[
    str, typer.Argument(metavar="TOPIC[:PARTITION]", help="flights:2 or flights-2; or a whole topic.")
]
Limit = Annotated[int, typer.Option(min=1, help="Maximum number of lines.")]
Csv = Annotated[
    Path | None,
    typer.Option("--csv", metavar="FILE", exists=True, dir_okay=False, help="topic,partition,transactional_id"),
]
Formula = Annotated[str | None, typer.Option("--formula", help="The formula of its ids: fenceline mappings formulas")]
Values = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A value for the formula.")]
Count = Annotated[int, typer.Option("--count", min=0, help="The number of ids, for a formula that counts.")]


@app.command("list")
def list_(cluster: Cluster = None, as_json: AsJson = False, watch_it: Watch = False) -> None:
    """List every partition that a pipeline reads, with its transactional id and its owner."""
    client = connect()
    path = f"/clusters/{_cluster(client, cluster)}/mappings"
    present(lambda: client.get(path)["items"], mappings, as_json=as_json, watch_it=watch_it)


@app.command()
def owner(
    partition: Partition,
    at: Annotated[
        str, typer.Option("--at", help="A time such as 2026-01-31T14:03:00Z, a time ago (90m, 2h, 1d), or now.")
    ] = "now",
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Show the owner of a partition at a time: task, attempt, host, producer id, epoch, generation. Exit 1: none."""
    client = connect()
    topic, number_ = _partition(partition)
    moment = moment_option(at, "--at", now=datetime.now(UTC))
    found = client.get(
        f"/clusters/{_cluster(client, cluster)}/mappings/history",
        topic=topic,
        partition=number_,
        at=moment.isoformat(),
        limit=MAX_LIMIT,
    )["items"]
    empty = f"No task of Fenceline owned {partition} at {written(moment)}."
    present(lambda: found, lambda owners: stretches(owners, empty=empty), as_json=as_json)
    if not found:
        raise typer.Exit(ExitCode.FAILED)


@app.command()
def history(
    partition: Partition,
    cluster: Cluster = None,
    since: Annotated[
        str | None, typer.Option(help="Start of the time range, in the format of `mappings owner --at`.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="End of the time range.")] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List the owners of a partition over time, newest first; 30 days are kept."""
    client = connect()
    topic, number_ = _partition(partition)
    now = datetime.now(UTC)
    found = client.items(
        f"/clusters/{_cluster(client, cluster)}/mappings/history",
        limit=limit,
        topic=topic,
        partition=number_,
        since=None if since is None else moment_option(since, "--since", now=now).isoformat(),
        until=None if until is None else moment_option(until, "--until", now=now).isoformat(),
    )
    empty = f"No task of Fenceline owned {partition} in this time; 30 days are kept."
    present(lambda: list(found), lambda owners: stretches(owners, empty=empty), as_json=as_json)


@app.command()
def formulas(as_json: AsJson = False) -> None:
    """Show how Kafka Streams and spring-kafka name their ids, and the values that each formula needs."""
    client = connect()
    show_list(
        lambda: client.get("/id-formulas")["items"],
        ("FORMULA", "APPLICATION", "ID", "VALUES"),
        lambda one: (
            one["name"],
            one["title"],
            one["pattern"],
            "; ".join(f"{name}: {meaning}" for name, meaning in one["meanings"].items())
            + ("; --count" if one["counts"] else ""),
        ),
        record=dict[str, Any],
        empty="none",
        as_json=as_json,
    )


@app.command("import")
def import_(
    pipeline: PipelineName,
    csv: Csv = None,
    formula: Formula = None,
    values: Values = None,
    count: Count = 0,
    execute: Annotated[bool, typer.Option("--execute", help="Import them; without it, only show the plan.")] = False,
    why: Why = None,
    as_json: AsJson = False,
) -> None:
    """Import the ids of another application that moves to Fenceline, so that its old producers stay fenced.

    All or none: one problem refuses the whole import. Existing entries are never replaced.
    """
    body: dict[str, Any] = {
        "csv": "" if csv is None else _text_of(csv),
        "formula": formula,
        "values": dict(_pair(value) for value in values or []),
        "count": count,
        "why": why,
    }
    client = connect()
    plan = client.post(f"/pipelines/{pipeline}/imported-ids/preview", body)
    if execute and plan["is_valid"]:
        plan = client.post(f"/pipelines/{pipeline}/imported-ids", body)
    is_done = execute and plan["is_valid"]
    present(
        lambda: plan,
        lambda found: import_plan(found, pipeline, is_done=is_done),
        as_json=as_json,
        document=lambda found: {"executed": is_done, **found},
    )
    if not plan["is_valid"]:
        raise typer.Exit(ExitCode.INVALID)


@app.command()
def forget(pipeline: PipelineName, why: Why = None, yes: Yes = False) -> None:
    """Remove every id that was imported for a pipeline, and the assignments of its partitions from the import."""
    confirm_or_exit(f"Remove every id that was imported for {pipeline}?", is_confirmed=yes)
    gone = connect().delete(f"/pipelines/{pipeline}/imported-ids", why=why)["items"]
    say(f"removed {len(gone)} imported id{'' if len(gone) == 1 else 's'} of {pipeline}")


@app.command()
def ids(
    search: Annotated[str, typer.Argument(help="A part of the id.")] = "",
    cluster: Cluster = None,
    only: Annotated[Only | None, typer.Option(help="Only ids with this status.")] = None,
    sort: Annotated[RegistrySort, typer.Option(help="By id, by expiry, or newest change first.")] = RegistrySort.ID,
    limit: Limit = 100,
    as_json: AsJson = False,
    watch_it: Watch = False,
) -> None:
    """List every transactional id of the cluster: its owner, use, expiry, and other clients that use it."""
    client = connect()
    path = f"/clusters/{_cluster(client, cluster)}/id-registry"
    query = {"search": search, "only": only, "sort": sort, "limit": min(limit, MAX_LIMIT)}
    present(lambda: client.get(path, **query), registry, as_json=as_json, watch_it=watch_it)


def _partition(text: str) -> tuple[str, int | None]:
    """Parse `flights:2`, or `flights-2` as Kafka's tools write it; a topic alone means all of its partitions."""
    found = re.fullmatch(r"([A-Za-z0-9._-]+?)(?:[:-](\d{1,9}))?", text)
    if found is None:
        raise CommandError(f"{text}: expected TOPIC, TOPIC:PARTITION or TOPIC-PARTITION", code=ExitCode.USAGE)
    return found[1], None if found[2] is None else int(found[2])


def _pair(text: str) -> tuple[str, str]:
    name, is_pair, value = text.partition("=")
    if not is_pair:
        raise CommandError(f"--set {text}: expected NAME=VALUE", code=ExitCode.USAGE)
    return name, value


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} cannot be read as UTF-8 text: {error}", code=ExitCode.USAGE) from error


def _cluster(client: Client, name: str | None) -> str:
    """Return the named cluster, else the only registered one."""
    if name is not None:
        return name
    names = [one["name"] for one in client.get("/clusters")["items"]]
    if len(names) != 1:
        raise CommandError(
            f"several clusters: add --cluster NAME; registered: {', '.join(names) or 'none yet'}", code=ExitCode.USAGE
        )
    return names[0]
