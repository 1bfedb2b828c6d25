"""The command line. One module a noun; each gives a `typer.Typer`, or a function for a command of its own."""

from __future__ import annotations

import sys

import typer


def build() -> typer.Typer:
    """All commands. They are imported here, so that one command's module can be imported without all the others."""
    from app.cli import apply, clusters, db, demo, doctor, log, pipelines, runs, serve, support_bundle, tokens
    from app.cli.transactions import ending, fencing, groups, listing, stuck

    app = typer.Typer(
        name="fenceline",
        help="Exactly-once Kafka pipelines on Spark: define, start, watch and drain them.",
        epilog="First time? `fenceline doctor`, then `fenceline demo`. Exit codes and examples: docs/cli.md.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.command("serve")(serve.serve)
    app.command("demo")(demo.demo)
    app.command("doctor")(doctor.doctor)
    app.add_typer(clusters.app, name="clusters")
    app.add_typer(pipelines.app, name="pipelines")
    app.command("apply")(apply.apply)
    app.add_typer(runs.app, name="runs")
    app.command("log")(log.log)
    app.command("transactions")(listing.transactions)
    app.command("groups")(groups.groups)
    app.command("fencing")(fencing.fencing)
    app.command("stuck")(stuck.stuck)
    app.command("fence")(ending.fence)
    app.command("end")(ending.end)
    app.add_typer(tokens.app, name="tokens")
    app.add_typer(db.app, name="db")
    app.command("support-bundle")(support_bundle.support_bundle)
    return app


def main() -> None:
    """The entry point `fenceline`. Errors that a person can mend are said in a sentence, without a traceback."""
    from app.cli.client import CommandError
    from app.cli.output import say_error

    try:
        build()()
    except CommandError as error:
        say_error(error)
        sys.exit(int(error.code))
    except KeyboardInterrupt:
        sys.exit(130)
