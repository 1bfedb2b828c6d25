"""`fenceline commands`: who changed what, when and why."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from app.core.access.command import Command
from app.kit.cli.client import connect
from app.kit.cli.listing import Limit, show_list
from app.kit.cli.moments import moment_option
from app.kit.cli.output import AsJson, Watch, ago

_WHEN = "2h, 1d ago, or 2026-01-31T12:00:00Z."


def commands(
    who: Annotated[str | None, typer.Option("--user", help="Only of this user, or of a loop: reconciler.")] = None,
    verb: Annotated[str | None, typer.Option("--command", help="Only these: start_run, reset_offsets, …")] = None,
    target: Annotated[
        str | None, typer.Option(help="Only on this: pipeline:NAME, cluster:NAME; or pipeline for all of them.")
    ] = None,
    outcome: Annotated[str | None, typer.Option(help="Only with this in the text of the outcome.")] = None,
    since: Annotated[str | None, typer.Option("--since", help=f"Then or later: {_WHEN}")] = None,
    until: Annotated[str | None, typer.Option("--until", help=f"Before: {_WHEN}")] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
    watch_it: Watch = False,
) -> None:
    """List every change by a user or one of Fenceline's own loops, with its reason, newest first."""
    client, now = connect(), datetime.now(UTC)
    wanted = {
        "who": who,
        "verb": verb,
        "target": target,
        "outcome": outcome,
        "since": None if since is None else moment_option(since, "--since", now=now).isoformat(),
        "until": None if until is None else moment_option(until, "--until", now=now).isoformat(),
    }
    is_filtered = any(value is not None for value in wanted.values())
    show_list(
        lambda: client.items("/commands", limit=limit, **wanted),
        ("TIME", "USER", "COMMAND", "TARGET", "REASON", "OUTCOME"),
        lambda c: (ago(c.at), f"{c.who} ({c.role})", c.verb, c.target, c.why, c.outcome),
        record=Command,
        empty="No command matches." if is_filtered else "No command yet.",
        as_json=as_json,
        watch_it=watch_it,
    )
