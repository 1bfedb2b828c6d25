"""`fenceline demo`: the main job on embedded services, to the end with `--once`, else until Ctrl-C."""

import sys
from typing import Annotated

import typer
from rich.console import Console

from app.edges.embedded.errors import EmbeddedError
from app.kit.cli.errors import CommandError
from app.kit.cli.output import print_json


def demo(
    *,
    once: Annotated[
        bool, typer.Option("--once", help="100,000 flights with a kill in the middle; ends with one line of JSON.")
    ] = False,
) -> None:
    """Run real flights through a real pipeline on embedded Kafka, Postgres and Spark, and check that each counts once.

    Without --once it runs until Ctrl-C and prints the address of the dashboard; then it drains and checks again.
    """
    # Progress goes to standard error, so that --once leaves one line of JSON on standard output.
    console = Console(stderr=True)
    try:
        if once:
            _once(console)
        else:
            from app.products.demo.live import play_live

            play_live(console)
    except EmbeddedError as error:
        raise CommandError(str(error)) from error


def _once(console: Console) -> None:
    from app.products.demo.once import play_once

    outcome = play_once(console)
    for complaint in outcome.complaints:
        console.print(f"[bold red]FAILED[/] {complaint}", highlight=False)
    print_json(outcome.result.as_dict(), is_indented=False)
    sys.stdout.flush()
    if outcome.complaints:
        raise typer.Exit(1)
