"""The command line. One module a noun; each gives a `typer.Typer`, or a function for a command of its own."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import typer

_COMMANDS = {
    "serve": "serve:serve",
    "demo": "demo:demo",
    "doctor": "doctor:doctor",
    "clusters": "clusters:app",
    "pipelines": "pipelines:app",
    "apply": "apply:apply",
    "runs": "runs:app",
    "migrate": "migrations:app",
    "drill": "drills:app",
    "audit": "audits:audit",
    "audits": "audits:app",
    "mappings": "mappings:app",
    "files": "files:app",
    "log": "log:log",
    "transactions": "transactions.listing:transactions",
    "groups": "transactions.groups:groups",
    "fencing": "transactions.fencing:fencing",
    "stuck": "transactions.stuck:stuck",
    "verify": "verify:verify",
    "conformance": "conformance:conformance",
    "fence": "transactions.ending:fence",
    "end": "transactions.ending:end",
    "webhooks": "webhooks:app",
    "tokens": "tokens:app",
    "sessions": "sessions:app",
    "db": "db:app",
    "support-bundle": "support_bundle:support_bundle",
}
"""In the order of the help: the module below this one, and what it calls its command there."""


def build(only: str | None = None) -> typer.Typer:
    """All commands, or one: each brings libraries of its own, which nobody waits for who asked for another."""
    app = typer.Typer(
        name="fenceline",
        help="Exactly-once Kafka pipelines on Spark: define, start, watch and drain them.",
        epilog="First time? `fenceline doctor`, then `fenceline demo`. Exit codes and examples: docs/cli.md.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    # With it, one command alone keeps its name.
    app.callback()(lambda: None)
    for name in (only,) if only in _COMMANDS else _COMMANDS:
        module, _, attribute = _COMMANDS[name].partition(":")
        found = getattr(import_module(f"{__name__}.{module}"), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def main() -> None:
    """The entry point `fenceline`. Errors that a person can mend are said in a sentence, without a traceback."""
    from app.cli.errors import CommandError

    try:
        build(_asked_for())()
    except CommandError as error:
        from app.cli.output import say_error

        say_error(error)
        sys.exit(int(error.code))
    except KeyboardInterrupt:
        sys.exit(130)


def _asked_for() -> str | None:
    """The first word after `fenceline`; a shell that completes says its words elsewhere, bash in the first of these."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS")
    words = sys.argv if line is None else line.split()
    return words[1] if len(words) > 1 else None
