"""`fenceline runs`: start, watch, pause, drain and restart runs; reset the offsets of a stopped pipeline."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Group, RenderableType
from rich.text import Text

from app.core.runs.bad_records import BadRecordSummary
from app.core.runs.instance import Instance
from app.core.runs.offset_reset import OffsetChange, effects_of, parse_partition_offset
from app.core.runs.run import Run
from app.core.runs.task import TaskStatus
from app.kit.cli.client import Client, as_record, connect
from app.kit.cli.errors import CommandError, ExitCode
from app.kit.cli.listing import Limit, OfPipeline, show_list
from app.kit.cli.names import PipelineName, names_of
from app.kit.cli.output import (
    AsJson,
    Watch,
    Why,
    Yes,
    ago,
    confirm_or_exit,
    console,
    present,
    print_json,
    say,
    state,
    table,
)
from app.kit.cli.watching import watching
from app.kit.words import moment, number

app = typer.Typer(help="Runs: start, watch, pause, drain, restart.", no_args_is_help=True)

Target = Annotated[
    str,
    typer.Argument(
        metavar="PIPELINE|RUN",
        help="A pipeline's name (its current run) or a run's id.",
        autocompletion=names_of("pipelines"),
    ),
]
Wait = Annotated[
    float | None,
    typer.Option("--wait", metavar="SECONDS", help="Wait for the state at most this long; exit 1 after it."),
]
ENDED = frozenset({"stopped", "failed"})
_KEPT_FOR_S = 15.0
"""Errors of a rebalance or a new leader end sooner; an error that lasts longer is reported as the reason."""


@app.command("list")
def list_(pipeline: OfPipeline = None, limit: Limit = 20, as_json: AsJson = False, watch_it: Watch = False) -> None:
    """List runs, newest first."""
    client = connect()
    show_list(
        lambda: client.items("/runs", limit=limit, pipeline=pipeline),
        ("RUN", "PIPELINE", "STATE", "REVISION#", "STARTED", "USER", "ENDED", "REASON"),
        _row,
        empty="No run yet: fenceline runs start PIPELINE",
        record=Run,
        as_json=as_json,
        watch_it=watch_it,
    )


def _row(run: Run) -> Sequence[RenderableType | str | None]:
    return (
        run.id,
        run.pipeline,
        state(run.state),
        str(run.revision),
        ago(run.started_at),
        run.started_by,
        ago(run.ended_at),
        run.end_reason,
    )


@app.command()
def show(target: Target, as_json: AsJson = False, watch_it: Watch = False) -> None:
    """Show one run with its instances and tasks."""
    client = connect()
    run_id = _run_id(client, target)

    def data() -> Any:
        return {**client.get(f"/runs/{run_id}"), "tasks": client.get(f"/runs/{run_id}/tasks")["items"]}

    present(data, _shown, as_json=as_json, watch_it=watch_it)


def _shown(item: Any) -> RenderableType:
    run, tasks = as_record(item, Run), [as_record(task, TaskStatus) for task in item["tasks"]]
    head = Text.assemble(
        (run.pipeline, "bold"),
        "  ",
        state(run.state),
        f"  run {run.id} · revision {run.revision} · started {ago(run.started_at)} by {run.started_by}",
    )
    if run.end_reason:
        head.append(f"\n{run.end_reason}")
    instances = table(
        ("INSTANCE#", "LEASE#", "STATE", "REVISION#", "HOST", "APPLICATION", "LAST HEARTBEAT", "REASON"),
        (
            (
                str(i.ordinal),
                str(i.lease),
                state(i.state),
                str(i.revision),
                i.host,
                i.application_id,
                ago(i.last_heartbeat_at),
                _why(i),
            )
            for i in run.instances
        ),
        empty="No instance has been leased yet.",
    )
    listed = table(
        (
            "TASK",
            "ATTEMPT#",
            "STATE",
            "GENERATION#",
            "IN/s#",
            "OUT/s#",
            "COMMITTED#",
            "ABORTED#",
            "P99 ms#",
            "LAST HEARTBEAT",
            "ERROR",
        ),
        (
            (
                f"{t.ordinal}.{t.task}",
                str(t.attempt),
                state(t.last.state if t.last.not_progressing_ms is None else "not progressing"),
                number(t.last.generation),
                number(t.rates.records_in_per_s),
                number(t.rates.records_out_per_s),
                number(t.last.counters.transactions_committed),
                number(t.last.counters.transactions_aborted),
                number(t.last.commit_latency_p99_ms),
                ago(t.received_at),
                t.last.last_error,
            )
            for t in tasks
        ),
        empty="No task has reported yet.",
    )
    return Group(head, Text(), instances, Text(), listed)


def _why(instance: Instance) -> str | None:
    return instance.reason or instance.slots_sentence()


@app.command("bad-records")
def list_bad_records(target: Target, as_json: AsJson = False, watch_it: Watch = False) -> None:
    """Show a run's records that could not be processed, by error and partition."""
    client = connect()
    run_id = _run_id(client, target)
    present(lambda: client.get(f"/runs/{run_id}/bad-records"), _bad_records, as_json=as_json, watch_it=watch_it)


def _bad_records(item: Any) -> RenderableType:
    found = as_record(item, BadRecordSummary)
    head = Text(
        f"last hour: {found.skipped_last_hour:,} skipped, {found.dead_lettered_last_hour:,} dead letters",
    )
    rows = (
        (
            one.error,
            f"{one.topic}-{one.partition}",
            number(one.records),
            str(one.first_offset),
            str(one.last_offset),
            ago(moment(one.first_at_ms)),
            ago(moment(one.last_at_ms)),
        )
        for one in found.causes
    )
    titles = ("ERROR", "PARTITION", "RECORDS#", "FIRST OFFSET#", "LAST OFFSET#", "FIRST", "LAST")
    return Group(head, Text(), table(titles, rows, empty="No bad record."))


@app.command()
def start(pipeline: PipelineName, why: Why = None, wait: Wait = None, as_json: AsJson = False) -> None:
    """Start a pipeline at its current revision."""
    client = connect()
    item = client.post(f"/pipelines/{pipeline}/runs", {"why": why})
    _finish(
        client,
        item,
        f"started {pipeline}, run {item['id']}",
        wait=wait,
        until=lambda s: s == "running",
        as_json=as_json,
    )


@app.command()
def drain(target: Target, why: Why = None, wait: Wait = None, as_json: AsJson = False) -> None:
    """Stop cleanly: finish open checkpoints, commit, leave the group."""
    _command(target, "drain", "draining", why=why, wait=wait, until=lambda s: s in ENDED, as_json=as_json)


@app.command()
def kill(target: Target, why: Why = None, yes: Yes = False, wait: Wait = None, as_json: AsJson = False) -> None:
    """End the applications at once; open transactions are aborted, and at_least_once may duplicate records."""
    confirm_or_exit(f"Kill the run of {target}? A drain would commit open checkpoints first.", is_confirmed=yes)
    _command(target, "kill", "killing", why=why, wait=wait, until=lambda s: s in ENDED, as_json=as_json)


@app.command()
def pause(target: Target, why: Why = None, wait: Wait = None, as_json: AsJson = False) -> None:
    """Stop reading; keep membership and partitions, with no transaction open."""
    _command(target, "pause", "pausing", why=why, wait=wait, until=lambda s: s == "paused", as_json=as_json)


@app.command()
def resume(target: Target, why: Why = None, wait: Wait = None, as_json: AsJson = False) -> None:
    """Continue after a pause."""
    _command(target, "resume", "resuming", why=why, wait=wait, until=lambda s: s == "running", as_json=as_json)


@app.command()
def restart(
    target: Target,
    full: Annotated[
        bool, typer.Option("--full", help="Drain all, then start again, instead of one at a time.")
    ] = False,
    why: Why = None,
    as_json: AsJson = False,
) -> None:
    """Restart every instance at the current revision, one at a time."""
    client = connect()
    run_id = _run_id(client, target)
    item = client.post(f"/runs/{run_id}/restart", {"rolling": not full, "why": why})
    how = "it drains, then the next run starts" if full else "one instance at a time"
    _finish(client, item, f"restarting {item['pipeline']}: {how}", wait=None, until=lambda _: True, as_json=as_json)


@app.command()
def offsets(
    pipeline: PipelineName,
    to: Annotated[
        str,
        typer.Option(
            help="earliest, latest, recorded (the last confirmed offset, if lost), or a time such as 2026-01-31T12:00Z."
        ),
    ] = "",
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="TOPIC:PARTITION=OFFSET, the next offset; may be repeated.")
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Reset the offsets; without it, show the changes.")
    ] = False,
    why: Why = None,
    as_json: AsJson = False,
) -> None:
    """Show an offset reset; with --execute, carry it out. It requires that no run lives."""
    target = _target(to, set_ or [])
    if execute and not (why or "").strip():
        raise CommandError("--execute needs a reason: add --why", code=ExitCode.USAGE)
    client = connect()
    changes = client.post(f"/pipelines/{pipeline}/offsets/preview", target)["items"]
    if execute:
        expected = [{name: change[name] for name in ("topic", "partition", "committed")} for change in changes]
        body = {**target, "expected": expected, "why": why}
        changes = client.post(f"/pipelines/{pipeline}/offsets/reset", body)["items"]
    if as_json:
        print_json({"executed": execute, "changes": changes})
        return
    console.print(
        table(
            ("PARTITION", "COMMITTED#", "NEW#", "EARLIEST#", "END#", "MORE RECORDS#"),
            (
                (
                    f"{change['topic']}-{change['partition']}",
                    number(change["committed"]),
                    number(change["target"]),
                    number(change["earliest"]),
                    number(change["end"]),
                    f"{change['records']:+,}",
                )
                for change in changes
            ),
            empty="No partition would change.",
        )
    )
    for sentence in effects_of([as_record(change, OffsetChange) for change in changes]):
        say(sentence)
    say("done" if execute else "nothing was changed; add --execute to reset the offsets")


def _target(to: str, named: list[str]) -> dict[str, Any]:
    """Return the body of a reset. Raises CommandError unless the options name one target."""
    if bool(to) == bool(named):
        raise CommandError("no target: add either --to or --set", code=ExitCode.USAGE)
    if to in ("earliest", "latest", "recorded"):
        return {"kind": to}
    if to:
        return {"kind": "timestamp", "timestamp": to}
    found: list[dict[str, Any]] = []
    for pair in named:
        read = parse_partition_offset(pair)
        if read is None:
            raise CommandError(f"--set {pair}: expected TOPIC:PARTITION=OFFSET", code=ExitCode.USAGE)
        found.append(msgspec.to_builtins(read))
    return {"kind": "offsets", "offsets": found}


def _run_id(client: Client, target: str) -> str:
    """Return the run of that id, or the current run of the pipeline of that name."""
    try:
        return str(uuid.UUID(target))
    except ValueError:
        run = client.get(f"/pipelines/{target}")["current_run"]
    if run is None:
        raise CommandError(f"{target} was never started: fenceline runs start {target}")
    return str(run["id"])


def _command(
    target: str,
    verb: str,
    participle: str,
    *,
    why: str | None,
    wait: float | None,
    until: Callable[[str], bool],
    as_json: bool,
) -> None:
    client = connect()
    run_id = _run_id(client, target)
    item = client.post(f"/runs/{run_id}/{verb}", {"why": why})
    _finish(client, item, f"{participle} {item['pipeline']}, run {run_id}", wait=wait, until=until, as_json=as_json)


def _finish(
    client: Client, item: Any, sentence: str, *, wait: float | None, until: Callable[[str], bool], as_json: bool
) -> None:
    if not as_json:
        say(sentence)
    if wait is not None:
        deadline_s = time.monotonic() + wait
        with watching(deadline_s=deadline_s):
            item = _wait(client, str(item["id"]), deadline_s=deadline_s, until=until)
    if as_json:
        print_json(item)
    elif wait is not None:
        say(f"it is {item['state']}")


def _wait(client: Client, run_id: str, *, deadline_s: float, until: Callable[[str], bool]) -> Any:
    kept_since: float | None = None
    while True:
        item = client.get(f"/runs/{run_id}")
        if until(str(item["state"])):
            return item
        if item["state"] in ENDED:
            raise CommandError(f"run {run_id} has ended as {item['state']}: {item['end_reason'] or 'no reason given'}")
        now, reason = time.monotonic(), _what_keeps(client, item)
        kept_since = (kept_since if reason is not None else None) or now
        if reason is not None and now - kept_since > _KEPT_FOR_S:
            raise CommandError(f"run {run_id} is {item['state']} and does not progress: {reason}")
        if now > deadline_s:
            why = "" if reason is None else f": {reason}"
            raise CommandError(f"timed out; run {run_id} is {item['state']}{why}")
        time.sleep(0.5)


def _what_keeps(client: Client, item: Any) -> str | None:
    """Return why a starting run does not run: the error of a task that is not running, or of an instance."""
    if item["state"] not in ("starting", "crash-looping"):
        return None
    for task in client.get(f"/runs/{item['id']}/tasks")["items"]:
        last = task["last"]
        if last["state"] in ("starting", "backing_off", "failed") and last["last_error"]:
            return f"task {last['ordinal']}.{last['task']}: {last['last_error']}"
    reasons = (f"instance {one['ordinal']}: {one['reason']}" for one in item["instances"] if one["failures"])
    return next(reasons, None)
