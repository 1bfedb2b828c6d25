"""`fenceline drill`: deliberate failures on pipelines that allow them, observed until their verdict."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from app.kit.cli.client import Client, as_record, connect
from app.kit.cli.errors import CommandError
from app.kit.cli.listing import Limit, OfPipeline, show_list
from app.kit.cli.names import PipelineName
from app.kit.cli.output import AsJson, Watch, Why, Yes, ago, confirm_or_exit, present, print_json, say, state, table
from app.kit.cli.watching import watching
from app.products.drills.drill import DEFAULT_S, LONGEST_S, SHORTEST_S, Drill, DrillKind, DrillVerdict

app = typer.Typer(
    help="Drills: freeze or kill an instance, or freeze the server, and observe the recovery.", no_args_is_help=True
)

Instance = Annotated[int, typer.Option("--instance", "-i", min=0, help="The instance's ordinal.")]
Seconds = Annotated[
    float, typer.Option("--for", min=SHORTEST_S, max=LONGEST_S, metavar="SECONDS", help="Duration of the freeze.")
]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the verdict; exit code 1 unless survived.")]
DrillId = Annotated[str, typer.Argument(metavar="DRILL", help="A drill's id.")]
ASK_EVERY_S = 1.0


@app.command()
def freeze(
    pipeline: PipelineName,
    instance: Instance = 0,
    for_s: Seconds = DEFAULT_S,
    why: Why = None,
    yes: Yes = False,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Freeze the Python workers of an instance, or the driver of a query (SIGSTOP). A watchdog thaws them."""
    _begin(
        f"Freeze instance {instance} of {pipeline} for {for_s:g} s?",
        pipeline,
        DrillKind.FREEZE_INSTANCE,
        ordinal=instance,
        for_s=for_s,
        why=why,
        yes=yes,
        wait=wait,
        as_json=as_json,
    )


@app.command()
def kill(
    pipeline: PipelineName,
    instance: Instance = 0,
    why: Why = None,
    yes: Yes = False,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Kill the Python workers of an instance, or the driver of a query (SIGKILL). Their successors begin."""
    _begin(
        f"Kill the processes of instance {instance} of {pipeline}?",
        pipeline,
        DrillKind.KILL_INSTANCE,
        ordinal=instance,
        for_s=DEFAULT_S,
        why=why,
        yes=yes,
        wait=wait,
        as_json=as_json,
    )


@app.command()
def server(
    pipeline: PipelineName,
    for_s: Seconds = DEFAULT_S,
    why: Why = None,
    yes: Yes = False,
    wait: Wait = False,
    as_json: AsJson = False,
) -> None:
    """Freeze the server. A watchdog on its host thaws it; pipelines continue without it."""
    _begin(
        f"Freeze the server for {for_s:g} s, for all users?",
        pipeline,
        DrillKind.FREEZE_SERVER,
        ordinal=None,
        for_s=for_s,
        why=why,
        yes=yes,
        wait=wait,
        as_json=as_json,
    )


@app.command()
def stop(drill: DrillId, why: Why = None, as_json: AsJson = False) -> None:
    """Stop a drill: no further action begins, and frozen processes are thawed."""
    item = connect().post(f"/drills/{drill}/stop", {"why": why})
    if as_json:
        print_json(item)
    else:
        say(f"stopping drill {drill} of {item['pipeline']}, it is {item['state']}")


@app.command()
def show(drill: DrillId, as_json: AsJson = False, watch_it: Watch = False) -> None:
    """Show one drill with its expectations, events and result."""
    client = connect()
    present(
        lambda: client.get(f"/drills/{drill}"),
        lambda item: _shown(as_record(item, Drill)),
        as_json=as_json,
        watch_it=watch_it,
    )


@app.command("list")
def list_(pipeline: OfPipeline = None, limit: Limit = 20, as_json: AsJson = False, watch_it: Watch = False) -> None:
    """List drills, newest first."""
    client = connect()
    show_list(
        lambda: client.items("/drills", limit=limit, pipeline=pipeline),
        ("DRILL", "PIPELINE", "KIND", "INSTANCE#", "STATE", "STARTED", "USER", "RESULT"),
        _row,
        empty="No drills yet: fenceline drill freeze PIPELINE",
        record=Drill,
        as_json=as_json,
        watch_it=watch_it,
    )


def _row(one: Drill) -> Sequence[RenderableType | str | None]:
    return (
        one.id,
        one.pipeline,
        one.kind.replace("_", " "),
        None if one.ordinal is None else str(one.ordinal),
        state(one.verdict or one.state),
        ago(one.ordered_at),
        one.ordered_by,
        one.sentence,
    )


def _begin(
    question: str,
    pipeline: str,
    kind: DrillKind,
    *,
    ordinal: int | None,
    for_s: float,
    why: str | None,
    yes: bool,
    wait: bool,
    as_json: bool,
) -> None:
    confirm_or_exit(question, is_confirmed=yes)
    client = connect()
    body = {"kind": kind, "ordinal": ordinal, "for_s": for_s, "why": why}
    item = client.post(f"/pipelines/{pipeline}/drills", body)
    if not as_json:
        say(f"started drill {item['id']}; stop it with: fenceline drill stop {item['id']}")
        for expected in as_record(item, Drill).plan.expected:
            within = "" if expected.within_s is None else f" (within {expected.within_s:g} s)"
            say(f"  expected: {expected.sentence}{within}")
    if wait:
        item = _wait(client, item)
    if as_json:
        print_json(item)
    if wait and item["verdict"] != DrillVerdict.SURVIVED:
        raise CommandError(f"{str(item['verdict']).replace('_', ' ')}: {item['sentence']}")
    if wait and not as_json:
        say(f"survived: {item['sentence']}")


def _wait(client: Client, item: Any) -> Any:
    """Wait for the end of a drill. A frozen server does not answer meanwhile."""
    with watching():
        while item["ended_at"] is None:
            time.sleep(ASK_EVERY_S)
            item = client.get(f"/drills/{item['id']}")
    return item


def _shown(drill: Drill) -> RenderableType:
    head = Text.assemble(
        (drill.pipeline, "bold"),
        "  ",
        state(drill.verdict or drill.state),
        f"  {drill.kind.replace('_', ' ')}, started {ago(drill.ordered_at)} by {drill.ordered_by}",
    )
    if drill.sentence:
        head.append(f"\n{drill.sentence}")
    expected = table(
        ("EXPECTED", "WITHIN#", "REASON"),
        (
            (one.sentence, "–" if one.within_s is None else f"{one.within_s:g} s", one.because)
            for one in drill.plan.expected
        ),
        empty="",
    )
    start = drill.begun_at or drill.ordered_at
    happened = table(
        ("AFTER#", "EVENT"),
        ((f"{(entry.at - start).total_seconds():.1f} s", entry.sentence) for entry in drill.entries),
        empty="No events yet.",
    )
    parts: list[RenderableType] = [head, Text(), expected, Text(), happened]
    frozen = [one for one in drill.targets if drill.is_open and one.state in ("claimed", "frozen")]
    if frozen:
        hosts = ", ".join(f"kill -CONT {' '.join(map(str, one.pids))} on {one.host}" for one in frozen)
        parts.append(Text(f"\nto stop it: fenceline drill stop {drill.id}; without a server: {hosts}"))
    return Group(*parts)
