"""The command line. One module a noun; each gives a `typer.Typer`, or a function for a command of its own."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import typer

_COMMANDS = {
    "serve": "app.edges.cli.serve:serve",
    "demo": "app.products.demo.cli:demo",
    "doctor": "app.edges.cli.doctor:doctor",
    "clusters": "app.core.clusters.cli:app",
    "pipelines": "app.core.pipelines.cli.pipelines:app",
    "apply": "app.core.pipelines.cli.apply:apply",
    "runs": "app.core.runs.cli:app",
    "migrate": "app.products.migrations.cli:app",
    "drill": "app.products.drills.cli:app",
    "audit": "app.products.audits.cli:audit",
    "audits": "app.products.audits.cli:app",
    "mappings": "app.core.mappings.cli.mappings:app",
    "files": "app.products.files.cli:app",
    "log": "app.products.partition_log.cli:log",
    "transactions": "app.products.direct.listing:transactions",
    "groups": "app.products.direct.groups:groups",
    "fencing": "app.products.direct.fencing:fencing",
    "stuck": "app.products.direct.stuck:stuck",
    "verify": "app.products.offset_log.cli:verify",
    "conformance": "app.products.conformance.cli:conformance",
    "fence": "app.products.direct.ending:fence",
    "end": "app.products.direct.ending:end",
    "webhooks": "app.products.webhooks.cli:app",
    "tokens": "app.edges.cli.tokens:app",
    "sessions": "app.edges.cli.sessions:app",
    "db": "app.edges.cli.db:app",
    "support-bundle": "app.products.support_bundle.cli:support_bundle",
}
"""In the order of the help: module and name of each command. Strings, so that a command loads its own modules only."""


def build(only: str | None = None) -> typer.Typer:
    """Make all commands, or the requested one only, as each imports libraries of its own."""
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
        found = getattr(import_module(module), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name)
        else:
            app.command(name)(found)
    return app


def main() -> None:
    """The entry point `fenceline`. Expected errors are printed as a sentence, without a traceback."""
    from app.kit.cli.errors import CommandError

    try:
        build(_asked_for())()
    except CommandError as error:
        from app.kit.cli.output import say_error

        say_error(error)
        sys.exit(int(error.code))
    except KeyboardInterrupt:
        sys.exit(130)


def _asked_for() -> str | None:
    """Return the first word after `fenceline`; a completing shell gives its words elsewhere."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS")
    words = sys.argv if line is None else line.split()
    return words[1] if len(words) > 1 else None
