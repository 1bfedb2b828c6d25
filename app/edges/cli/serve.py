"""`fenceline serve`: the server, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from app.kit.cli.client import settings_or_exit
from app.kit.cli.errors import CommandError
from app.kit.cli.output import print_json, say

Port = Annotated[int | None, typer.Option(min=0, max=65_535, help="Instead of the setting; 0 takes a free one.")]


def serve(
    users_port: Port = None,
    workers_port: Port = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the addresses as one line of JSON.")] = False,
) -> None:
    """Run the server until SIGTERM or Ctrl-C. Without FENCELINE_DATABASE_URL it starts its own Postgres."""
    given: dict[str, Any] = {"users_port": users_port, "workers_port": workers_port}
    settings = settings_or_exit(**{name: value for name, value in given.items() if value is not None})
    from app.edges import (
        main,  # here: it brings all of the server, which neither a mistake above nor other commands need
    )

    def announce(started: main.Started) -> None:
        if as_json:
            urls = {"users_url": started.users_url, "workers_url": started.workers_url, "login_url": started.login_url}
            print_json(urls, is_indented=False)
            sys.stdout.flush()
            return
        say(f"Fenceline serves people at {started.users_url} and workers at {started.workers_url}")
        if started.login_url is not None:
            say(f"Log in as administrator, once, within {settings.one_time_link_minutes:g} min: {started.login_url}")
        sys.stdout.flush()

    try:
        main.serve(settings, announce=announce)
    except main.StartError as error:
        raise CommandError(str(error)) from error
