"""`fenceline migrate`: from exactly_once to exactly_once_v2 and back, each stage proven before the next begins."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from app.core.runs.mode import Mode
from app.kit.cli.client import Client, as_record, connect
from app.kit.cli.errors import CommandError
from app.kit.cli.listing import Limit, OfPipeline, show_list
from app.kit.cli.names import PipelineName, names_of
from app.kit.cli.output import AsJson, Watch, Why, Yes, ago, confirm_or_exit, present, print_json, say, state, table
from app.kit.cli.watching import watching
from app.kit.words import duration_s, words
from app.products.migrations.migration import ENDED, Migration, MigrationState, Step
from app.products.migrations.plan import WAY_BACK

app = typer.Typer(
    help="Migrations: from exactly_once to exactly_once_v2 and back, each stage proven before the next begins.",
    no_args_is_help=True,
)

Goal = Annotated[Mode, typer.Option("--to", help="The mode that every instance ends in.")]
BackTo = Annotated[Mode, typer.Option("--to", help="generation, or by way of it group_only.")]
Waived = Annotated[
    list[str] | None,
    typer.Option("--waive", metavar="CLAUSE=REASON", help="Answer for a waivable clause; may be given several times."),
]
Target = Annotated[
    str,
    typer.Argument(
        metavar="PIPELINE|MIGRATION",
        help="A pipeline's name (its newest migration) or a migration's id.",
        autocompletion=names_of("pipelines"),
    ),
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait until it is done; exit 1 when it stops or is aborted.")]
ASK_EVERY_S = 1.0


@app.command()
def plan(pipeline: PipelineName, goal: Goal = Mode.V2, as_json: AsJson = False) -> None:
    """What a migration would find and do now: nothing is changed."""
    client = connect()

    def data() -> Any:
        return client.get(f"/pipelines/{pipeline}/migrations/plan", goal=goal)

    present(data, lambda: _plan(data()), as_json=as_json, watch_it=False)


@app.command()
def start(
    pipeline: PipelineName,
    goal: Goal = Mode.V2,
    waive: Waived = None,
    why: Why = None,
    yes: Yes = False,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Begin a migration; its first stage only looks, the others follow by themselves as each gate opens."""
    waived = dict(map(_waived, waive or []))
    confirm_or_exit(f"Migrate {pipeline} to {goal}, one instance at a time?", is_confirmed=yes)
    client = connect()
    item = client.post(f"/pipelines/{pipeline}/migrations", {"goal": goal, "waived": waived, "why": why})
    if not as_json:
        say(f"begun, migration {item['id']}; watch it: fenceline migrate status {pipeline} --watch")
    _told(client, item, wait=wait, as_json=as_json)


@app.command()
def status(target: Target, as_json: AsJson = False, watch_it: Watch = False) -> None:
    """Where it is, what is proven, what it waits for, and the way back."""
    client = connect()
    migration_id = _id_of(client, target)
    path = f"/migrations/{migration_id}"

    def data() -> Any:
        return {
            **client.get(path),
            "gate": client.get(f"{path}/gate")["clauses"],
            "alarms": client.get(f"{path}/alarms")["items"],
        }

    present(data, lambda: _shown(data()), as_json=as_json, watch_it=watch_it)


@app.command("list")
def list_(pipeline: OfPipeline = None, limit: Limit = 20, as_json: AsJson = False, watch_it: Watch = False) -> None:
    """Migrations, newest first."""
    show_list(
        "/migrations",
        ("MIGRATION", "PIPELINE", "TO", "STAGE", "STATE", "BEGUN", "BY", "WHAT IS MISSING"),
        _row,
        empty="No migration yet: fenceline migrate plan PIPELINE",
        pipeline=pipeline,
        limit=limit,
        as_json=as_json,
        watch_it=watch_it,
    )


@app.command()
def pause(target: Target, why: Why = None, as_json: AsJson = False) -> None:
    """Begin no further step; an instance that is between two leases still comes back."""
    _act(target, "pause", {"why": why}, as_json=as_json)


@app.command()
def resume(target: Target, why: Why = None, wait: Wait = False, as_json: AsJson = False) -> None:
    """Go on. What stopped it is looked at again, and a late step is waited for anew."""
    _act(target, "resume", {"why": why}, wait=wait, as_json=as_json)


@app.command()
def retry(target: Target, why: Why = None, wait: Wait = False, as_json: AsJson = False) -> None:
    """Try a late step again: the same as resume, of a migration that has stopped."""
    client = connect()
    migration_id = _id_of(client, target)
    if client.get(f"/migrations/{migration_id}")["state"] != MigrationState.STOPPED:
        raise CommandError("it has not stopped: there is nothing to try again")
    _act(migration_id, "resume", {"why": why}, wait=wait, as_json=as_json)


@app.command()
def rollback(
    target: Target,
    to: BackTo = Mode.GENERATION,
    why: Why = None,
    yes: Yes = False,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Turn round: first to generations, and only from there to group_only."""
    confirm_or_exit(f"Turn the migration of {target} round, to {to}?", is_confirmed=yes)
    _act(target, "rollback", {"to": to, "why": why}, wait=wait, as_json=as_json)


@app.command()
def abort(target: Target, why: Why = None, yes: Yes = False, as_json: AsJson = False) -> None:
    """Give it up where it is: every instance stays as it is, and another migration may go on from there."""
    confirm_or_exit(f"Abort the migration of {target}? Its instances stay as they are.", is_confirmed=yes)
    _act(target, "abort", {"why": why}, as_json=as_json)


@app.command()
def fence(
    target: Target,
    transactional_id: Annotated[str, typer.Argument(metavar="ID", help="Of an input partition that nobody holds.")],
    why: Why = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Fence an id that nobody takes over, in the first bounce."""
    confirm_or_exit(f"Fence {transactional_id}? Whoever sleeps under it is refused.", is_confirmed=yes)
    _act(target, "fence", {"transactional_id": transactional_id, "why": why}, as_json=as_json)


def _act(target: str, verb: str, body: dict[str, Any], *, wait: bool = False, as_json: bool) -> None:
    client = connect()
    item = client.post(f"/migrations/{_id_of(client, target)}/{verb}", body)
    if not as_json:
        say(f"migration {item['id']} of {item['pipeline']} is {item['state']} in stage {words(item['stage'])}")
    _told(client, item, wait=wait, as_json=as_json)


def _told(client: Client, item: Any, *, wait: bool, as_json: bool) -> None:
    with watching():
        while wait and item["state"] == MigrationState.ACTIVE:
            time.sleep(ASK_EVERY_S)
            item = client.get(f"/migrations/{item['id']}")
    if as_json:
        print_json(item)
    if wait and item["state"] != MigrationState.DONE:
        raise CommandError(f"it is {item['state']} in stage {words(item['stage'])}: {item['missing'] or 'see status'}")
    if wait and not as_json:
        say(f"done: every instance is {item['goal']}")


def _id_of(client: Client, target: str) -> str:
    try:
        return str(uuid.UUID(target))
    except ValueError:
        found = client.get("/migrations", pipeline=target, limit=1)["items"]
    if not found:
        raise CommandError(f"pipeline {target} has no migration yet: fenceline migrate plan {target}")
    return str(found[0]["id"])


def _waived(text: str) -> tuple[str, str]:
    name, separator, reason = text.partition("=")
    if not separator or not reason.strip():
        raise CommandError(f"--waive {text}: say CLAUSE=REASON")
    return name.strip(), reason.strip()


def _row(item: Any) -> Sequence[RenderableType | str | None]:
    one = as_record(item, Migration)
    return (
        one.id,
        one.pipeline,
        one.goal,
        one.stage.words,
        state(one.state),
        ago(one.started_at),
        one.started_by,
        one.missing or None,
    )


def _plan(item: Any) -> RenderableType:
    head = Text.assemble((item["pipeline"], "bold"), f"  to {item['goal']}: usually {duration_s(item['usually_s'])}")
    head.append(" and an audit" + ("" if item["measured"] else "; the times are not this pipeline's own yet"))
    steps = table(
        ("STAGE", "STEP", "USUALLY#", "WAY BACK"),
        (
            (words(one["stage"]), one["sentence"], duration_s(one["usually_s"]), one["way_back"])
            for one in item["steps"]
        ),
        empty="",
    )
    return Group(head, Text(), _clauses(item["preflight"]), Text(), steps)


def _shown(item: Any) -> RenderableType:
    alarms, gate = item["alarms"], item["gate"]
    migration = as_record({key: value for key, value in item.items() if key not in ("gate", "alarms")}, Migration)
    head = Text.assemble(
        (migration.pipeline, "bold"),
        f" to {migration.goal}  ",
        state(migration.state),
        f"  {migration.stage.words} since {ago(migration.stage_since)}, begun {ago(migration.started_at)} "
        f"by {migration.started_by}",
    )
    for alarm in alarms:
        head.append(f"\nalarm: {alarm['sentence']}", style="bold red")
    if migration.missing:
        head.append(f"\nmissing: {migration.missing}", style="yellow")
    parts: list[RenderableType] = [head]
    if migration.is_open:
        parts += [Text(), _clauses(gate)]
    steps = table(
        ("STEP#", "STAGE", "WHAT", "STATE", "BEGAN", "TOOK#", "MISSING"),
        map(_step, migration.steps),
        empty="No step has begun: the preflight only looks.",
    )
    parts += [Text(), steps]
    if migration.state not in ENDED:
        parts.append(Text(f"\nway back: {WAY_BACK[migration.stage]}"))
    return Group(*parts)


def _clauses(clauses: Sequence[Any]) -> RenderableType:
    marks = {"open": "✔ proven", "closed": "… missing", "unknown": "? unknown"}
    return table(
        ("", "CLAUSE", "WHAT THERE IS"),
        ((marks[one["standing"]], words(one["name"]), one["seen"]) for one in clauses),
        empty="Nobody has looked yet.",
    )


def _step(step: Step) -> Sequence[RenderableType | str | None]:
    took = None if step.ended_at is None else duration_s((step.ended_at - step.began_at).total_seconds())
    return (
        str(step.number),
        step.stage.words,
        step.words,
        state(step.state),
        ago(step.began_at),
        took,
        step.missing or None,
    )
