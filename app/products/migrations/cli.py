"""`fenceline migrate`: from exactly_once to exactly_once_v2 and back, with evidence for each stage."""

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
from app.products.migrations.migration import ENDED, Migration, MigrationState, MigrationStep
from app.products.migrations.plan import WAY_BACK

app = typer.Typer(
    help="Migrations: from exactly_once to exactly_once_v2 and back, with evidence for each stage.",
    no_args_is_help=True,
)

Goal = Annotated[Mode, typer.Option("--to", help="The mode that every instance ends in.")]
BackTo = Annotated[Mode, typer.Option("--to", help="generation, or group_only, which includes generation.")]
Waived = Annotated[
    list[str] | None,
    typer.Option("--waive", metavar="CHECK=REASON", help="Waive a condition; may be given several times."),
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
    """Show the preflight and the steps of a migration. Changes nothing."""
    client = connect()
    present(lambda: client.get(f"/pipelines/{pipeline}/migrations/plan", goal=goal), _plan, as_json=as_json)


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
    """Start a migration. The first stage only checks; the others follow as each gate opens."""
    waived = dict(map(_waived, waive or []))
    confirm_or_exit(f"Migrate {pipeline} to {goal}, one instance at a time?", is_confirmed=yes)
    client = connect()
    item = client.post(f"/pipelines/{pipeline}/migrations", {"goal": goal, "waived": waived, "why": why})
    if not as_json:
        say(f"started, migration {item['id']}; watch it: fenceline migrate status {pipeline} --watch")
    _told(client, item, wait=wait, as_json=as_json)


@app.command()
def status(target: Target, as_json: AsJson = False, watch_it: Watch = False) -> None:
    """Show the stage, the evidence, the missing conditions and the rollback."""
    client = connect()
    migration_id = _id_of(client, target)
    path = f"/migrations/{migration_id}"

    def data() -> Any:
        return {
            **client.get(path),
            "gate": client.get(f"{path}/gate")["clauses"],
            "alarms": client.get(f"{path}/alarms")["items"],
        }

    present(data, _shown, as_json=as_json, watch_it=watch_it)


@app.command("list")
def list_(pipeline: OfPipeline = None, limit: Limit = 20, as_json: AsJson = False, watch_it: Watch = False) -> None:
    """Migrations, newest first."""
    client = connect()
    show_list(
        lambda: client.items("/migrations", limit=limit, pipeline=pipeline),
        ("MIGRATION", "PIPELINE", "TO", "STAGE", "STATE", "STARTED", "USER", "MISSING"),
        _row,
        empty="No migration yet: fenceline migrate plan PIPELINE",
        record=Migration,
        as_json=as_json,
        watch_it=watch_it,
    )


@app.command()
def pause(target: Target, why: Why = None, as_json: AsJson = False) -> None:
    """Begin no further step. An instance between two leases still gets its next lease."""
    _act(target, "pause", {"why": why}, as_json=as_json)


@app.command()
def resume(target: Target, why: Why = None, wait: Wait = False, as_json: AsJson = False) -> None:
    """Resume. Check every condition again, and give a late step its full time limit."""
    _act(target, "resume", {"why": why}, wait=wait, as_json=as_json)


@app.command()
def retry(target: Target, why: Why = None, wait: Wait = False, as_json: AsJson = False) -> None:
    """Retry the late step of a stopped migration; the same as resume."""
    client = connect()
    migration_id = _id_of(client, target)
    if client.get(f"/migrations/{migration_id}")["state"] != MigrationState.STOPPED:
        raise CommandError("the migration is not stopped: nothing to retry")
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
    """Roll back: first to generation, and from there to group_only."""
    confirm_or_exit(f"Roll back the migration of {target} to {to}?", is_confirmed=yes)
    _act(target, "rollback", {"to": to, "why": why}, wait=wait, as_json=as_json)


@app.command()
def abort(target: Target, why: Why = None, yes: Yes = False, as_json: AsJson = False) -> None:
    """Abort it. Every instance keeps its mode, and another migration may continue from there."""
    confirm_or_exit(f"Abort the migration of {target}? Its instances keep their modes.", is_confirmed=yes)
    _act(target, "abort", {"why": why}, as_json=as_json)


@app.command()
def fence(
    target: Target,
    transactional_id: Annotated[
        str, typer.Argument(metavar="ID", help="The id of a partition that no live task owns.")
    ],
    why: Why = None,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Fence an id that no task takes over, in the first bounce."""
    confirm_or_exit(f"Fence {transactional_id}? Its older producers are fenced.", is_confirmed=yes)
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
        raise CommandError(f"--waive {text}: expected CHECK=REASON")
    return name.strip(), reason.strip()


def _row(one: Migration) -> Sequence[RenderableType | str | None]:
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
    head.append(" and an audit" + ("" if item["measured"] else "; not measured in this pipeline yet"))
    steps = table(
        ("STAGE", "STEP", "USUALLY#", "ROLLBACK"),
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
        f"  {migration.stage.words} since {ago(migration.stage_since)}, started {ago(migration.started_at)} "
        f"by {migration.started_by}",
    )
    for alarm in alarms:
        head.append(f"\nalert: {alarm['sentence']}", style="bold red")
    if migration.missing:
        head.append(f"\nmissing: {migration.missing}", style="yellow")
    parts: list[RenderableType] = [head]
    if migration.is_open:
        parts += [Text(), _clauses(gate)]
    steps = table(
        ("NUMBER#", "STAGE", "STEP", "STATE", "STARTED", "DURATION#", "MISSING"),
        map(_step, migration.steps),
        empty="No step has begun: the preflight only checks.",
    )
    parts += [Text(), steps]
    if migration.state not in ENDED:
        parts.append(Text(f"\nrollback: {WAY_BACK[migration.stage]}"))
    return Group(*parts)


def _clauses(clauses: Sequence[Any]) -> RenderableType:
    marks = {"open": "✔ proven", "closed": "… missing", "unknown": "? unknown"}
    return table(
        ("STATUS", "CHECK", "FOUND"),
        ((marks[one["standing"]], words(one["name"]), one["seen"]) for one in clauses),
        empty="Not checked yet.",
    )


def _step(step: MigrationStep) -> Sequence[RenderableType | str | None]:
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
