"""`fenceline mappings`: who reads which partition, now and at any moment; ids that are imported; whose every id is."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from app.cli.client import Client, as_record, connect
from app.cli.errors import CommandError, ExitCode
from app.cli.names import PipelineName, names_of
from app.cli.output import (
    AsJson,
    Watch,
    Why,
    Yes,
    ago,
    confirm_or_exit,
    console,
    number,
    present,
    print_json,
    say,
    table,
)
from app.domain.audits.words import WordsError, moment_of
from app.domain.page import MAX_LIMIT
from app.domain.transactions.id_registry import Only, Orphan, RegistrySort
from app.domain.transactions.mapping import PartitionMapping, PartitionOwner, PartitionOwnership

app = typer.Typer(
    help="Which partition is read under which transactional id and by whom: now, at any moment, and after an import.",
    no_args_is_help=True,
)

Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="NAME",
        help="Which cluster, if several are registered.",
        autocompletion=names_of("clusters"),
    ),
]
Partition = Annotated[
    str, typer.Argument(metavar="TOPIC[:PARTITION]", help="flights:2 or flights-2; or a whole topic.")
]
Limit = Annotated[int, typer.Option(min=1, help="At most so many.")]
Csv = Annotated[
    Path | None,
    typer.Option("--csv", metavar="FILE", exists=True, dir_okay=False, help="topic,partition,transactional_id"),
]
Formula = Annotated[str | None, typer.Option("--formula", help="How its ids are made: fenceline mappings formulas")]
Values = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="What the formula needs.")]
Count = Annotated[int, typer.Option("--count", min=0, help="How many ids a formula that counts shall make.")]

_WORDS = {
    Orphan.NO_PIPELINE: "no pipeline here owns it",
    Orphan.NO_TASK: "no task of its pipeline uses it",
    Orphan.NO_MAPPING: "no partition is read under it",
}


@app.command("list")
def list_(cluster: Cluster = None, as_json: AsJson = False, watch_it: Watch = False) -> None:
    """Every partition that a pipeline reads, with its transactional id and its owner."""
    client = connect()
    path = f"/clusters/{_cluster(client, cluster)}/mappings"

    def rows() -> RenderableType:
        found = (as_record(item, PartitionMapping) for item in client.get(path)["items"])
        return table(
            (
                "PIPELINE",
                "PARTITION",
                "TRANSACTIONAL ID",
                "ASSIGNED",
                "OWNER",
                "PRODUCER:EPOCH",
                "GENERATION#",
                "SINCE",
            ),
            (
                (
                    one.pipeline,
                    f"{one.topic}-{one.partition}",
                    one.transactional_id,
                    None if one.assigned_id is None else f"{one.assigned_id} ({one.origin})",
                    None if one.owner is None else _who(one.owner),
                    _producer(one.producer_id, one.epoch),
                    number(one.generation),
                    ago(one.since),
                )
                for one in found
            ),
            empty="No partition is mapped yet; that happens when the first run starts.",
        )

    present(lambda: client.get(path)["items"], rows, as_json=as_json, watch_it=watch_it)


@app.command()
def owner(
    partition: Partition,
    at: Annotated[
        str, typer.Option("--at", help="A time such as 2026-01-31T14:03:00Z, so long ago (90m, 2h, 1d), or now.")
    ] = "now",
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Who owned a partition at a moment: task, attempt, host, producer id, epoch, generation. Exit 1: nobody."""
    client = connect()
    topic, number_ = _partition(partition)
    moment = _moment(at, "--at")
    found = client.get(
        f"/clusters/{_cluster(client, cluster)}/mappings/history",
        topic=topic,
        partition=number_,
        at=moment.isoformat(),
        limit=MAX_LIMIT,
    )["items"]
    if as_json:
        print_json(found)
    else:
        console.print(_stretches(found, empty=f"Nobody of ours held {partition} at {_written(moment)}."))
    if not found:
        raise typer.Exit(ExitCode.FAILED)


@app.command()
def history(
    partition: Partition,
    cluster: Cluster = None,
    since: Annotated[str | None, typer.Option(help="From when on, in the same words as --at of owner.")] = None,
    until: Annotated[str | None, typer.Option(help="Until when.")] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """Who held a partition from when to when, newest first; 30 days are kept."""
    client = connect()
    topic, number_ = _partition(partition)
    found = list(
        client.items(
            f"/clusters/{_cluster(client, cluster)}/mappings/history",
            limit=limit,
            topic=topic,
            partition=number_,
            since=None if since is None else _moment(since, "--since").isoformat(),
            until=None if until is None else _moment(until, "--until").isoformat(),
        )
    )
    if as_json:
        print_json(found)
    else:
        console.print(_stretches(found, empty=f"Nobody of ours held {partition} in this time, as far as it is kept."))


@app.command()
def formulas(as_json: AsJson = False) -> None:
    """How Kafka Streams and spring-kafka name their ids, and what each formula needs."""
    items = connect().get("/id-formulas")["items"]
    if as_json:
        print_json(items)
        return
    console.print(
        table(
            ("FORMULA", "OF", "ID", "NEEDS"),
            (
                (
                    one["name"],
                    one["title"],
                    one["pattern"],
                    "; ".join(f"{name}: {meaning}" for name, meaning in one["meanings"].items())
                    + ("; --count" if one["counts"] else ""),
                )
                for one in items
            ),
            empty="none",
        )
    )


@app.command("import")
def import_(
    pipeline: PipelineName,
    csv: Csv = None,
    formula: Formula = None,
    values: Values = None,
    count: Count = 0,
    execute: Annotated[
        bool, typer.Option("--execute", help="Do it; without it, only show what would be done.")
    ] = False,
    why: Why = None,
    as_json: AsJson = False,
) -> None:
    """Import the ids of an application that moves here, so that it goes on fencing its old self.

    All or none: one problem refuses the whole. Nothing that is there is replaced.
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
    if as_json:
        print_json({"executed": execute and plan["is_valid"], **plan})
    else:
        console.print(_plan(plan, pipeline, is_done=execute and plan["is_valid"]))
    if not plan["is_valid"]:
        raise typer.Exit(ExitCode.INVALID)


@app.command()
def forget(pipeline: PipelineName, why: Why = None, yes: Yes = False) -> None:
    """Give up every id that was imported for a pipeline, and what its partitions were assigned by that."""
    confirm_or_exit(f"Give up every id that was imported for {pipeline}?", is_confirmed=yes)
    gone = connect().delete(f"/pipelines/{pipeline}/imported-ids", why=why)["items"]
    say(f"gave up {len(gone)} imported id{'' if len(gone) == 1 else 's'} of {pipeline}")


@app.command()
def ids(
    search: Annotated[str, typer.Argument(help="A part of the id.")] = "",
    cluster: Cluster = None,
    only: Annotated[Only | None, typer.Option(help="Only those.")] = None,
    sort: Annotated[
        RegistrySort, typer.Option(help="By id, by when they expire, or newest change first.")
    ] = RegistrySort.ID,
    limit: Limit = 100,
    as_json: AsJson = False,
    watch_it: Watch = False,
) -> None:
    """Every transactional id of the cluster: whose it is, who needs it, when it expires, who fights about it."""
    client = connect()
    path = f"/clusters/{_cluster(client, cluster)}/id-registry"

    def found() -> Any:
        return client.get(path, search=search, only=only, sort=sort, limit=min(limit, MAX_LIMIT))

    present(found, lambda: _registry(found()), as_json=as_json, watch_it=watch_it)


def _registry(found: Any) -> RenderableType:
    tally = found["tally"]
    head = Text(
        f"{number(tally['ids'])} ids on the brokers: {number(tally['ours'])} ours, {number(tally['foreign'])} foreign, "
        f"{number(tally['orphaned'])} orphaned; {number(tally['unseen'])} owned and not seen",
        style="bold",
    )
    parts: list[RenderableType] = [head]
    if tally["contested"]:
        parts.append(Text(f"{number(tally['contested'])} used by somebody else than its owner", style="bold red"))
    parts += [
        table(
            ("TRANSACTIONAL ID", "WHOSE", "STATE", "CHANGED", "EXPIRES", "REMARK"),
            (
                (
                    one["transactional_id"],
                    _whose(one),
                    one["state"],
                    ago(_at(one["changed_at"])),
                    _until(_at(one["expires_at"])),
                    one["contested"] or (_WORDS[Orphan(one["orphan"])] if one["orphan"] else ""),
                )
                for one in found["items"]
            ),
            empty="No id is like that.",
        )
    ]
    if found["matching"] > len(found["items"]):
        parts.append(Text(f"{number(found['matching'])} in all: --limit, or a part of the id", style="dim"))
    if found["expiration_problem"]:
        parts.append(Text(f"when they expire is not known: {found['expiration_problem']}", style="yellow"))
    parts += [
        Text(
            f"{one['topic']}-{one['partition']} of {one['group']} is mapped and {one['pipeline']} does not read it",
            style="yellow",
        )
        for one in found["stale"]
    ]
    return Group(*parts)


def _plan(plan: Any, pipeline: str, *, is_done: bool) -> RenderableType:
    lines = plan["lines"]
    parts: list[RenderableType] = [
        table(
            ("LINE#", "PARTITION", "TRANSACTIONAL ID", "WHAT"),
            (
                (
                    str(one["number"]),
                    None if one["topic"] is None else f"{one['topic']}-{one['partition']}",
                    one["transactional_id"] or None,
                    _remark(one),
                )
                for one in lines
            ),
            empty="no line",
        ),
        *(Text(f"warning: {warning}", style="yellow") for warning in plan["warnings"]),
    ]
    new = sum(1 for one in lines if not one["is_known"])
    if plan["problems"]:
        said = f"nothing is imported: {len(plan['problems'])} problem{'' if len(plan['problems']) == 1 else 's'}"
    elif is_done:
        said = f"imported {new} of {len(lines)} for {pipeline}; the others were there already"
    else:
        said = f"would import {new} of {len(lines)} for {pipeline}; --execute does it"
    return Group(*parts, Text(said, style="bold"))


def _remark(line: Any) -> str:
    said = [*line["problems"], *(f"warning: {warning}" for warning in line["warnings"])]
    return "; ".join(said) or ("is there already" if line["is_known"] else "new")


def _stretches(items: list[Any], *, empty: str) -> RenderableType:
    found = [as_record(item, PartitionOwnership) for item in items]
    now = datetime.now(UTC)
    return table(
        ("PARTITION", "SINCE", "UNTIL", "PIPELINE", "OWNER", "TRANSACTIONAL ID", "PRODUCER:EPOCH", "GENERATION#"),
        (
            (
                f"{one.topic}-{one.partition}",
                _written(one.since),
                _end_of(one, now=now),
                one.pipeline,
                _who(one.owner),
                one.transactional_id,
                _producer(one.producer_id, one.epoch),
                number(one.generation),
            )
            for one in found
        ),
        empty=empty,
    )


def _end_of(one: PartitionOwnership, *, now: datetime) -> str:
    until = "now" if one.until is None else _written(one.until)
    unheard = one.unheard_since(now)
    return until if unheard is None else f"{until}, last heard {_written(unheard)}"


def _who(owner: PartitionOwner) -> str:
    return f"{owner.ordinal}.{owner.task} lease {owner.lease} attempt {owner.attempt} on {owner.host}"


def _whose(one: Any) -> str:
    owner = one["owner"]
    return str(one["standing"]) if owner is None else f"{one['standing']}: {owner['pipeline']} ({owner['kind']})"


def _producer(producer_id: int | None, epoch: int | None) -> str | None:
    return None if producer_id is None else f"{producer_id}:{epoch}"


def _at(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _until(at: datetime | None) -> str | None:
    if at is None:
        return None
    seconds = (at - datetime.now(UTC)).total_seconds()
    return (
        "due"
        if seconds <= 0
        else f"in {seconds / 86_400:.1f} d"
        if seconds >= 86_400
        else f"in {seconds / 3_600:.1f} h"
    )


def _written(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _moment(text: str, option: str) -> datetime:
    try:
        return moment_of(text, now=datetime.now(UTC))
    except WordsError as error:
        raise CommandError(f"{option}: {error}", code=ExitCode.USAGE) from error


def _partition(text: str) -> tuple[str, int | None]:
    """`flights:2`, or `flights-2` as Kafka's tools write it; a topic alone is all of its partitions."""
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
    """The one that is named, else the only one that is registered."""
    if name is not None:
        return name
    names = [one["name"] for one in client.get("/clusters")["items"]]
    if len(names) != 1:
        raise CommandError(
            f"which cluster? Give --cluster NAME; registered are: {', '.join(names) or 'none yet'}", code=ExitCode.USAGE
        )
    return names[0]
