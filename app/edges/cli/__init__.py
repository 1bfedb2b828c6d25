"""The command line. One module a noun; each gives a `typer.Typer`, or a function for a command of its own."""

from __future__ import annotations

import os
import sys
from importlib import import_module

import typer

from app.products.audits import commands as audits
from app.products.conformance import commands as conformance
from app.products.dataframes import commands as dataframes
from app.products.demo import commands as demo
from app.products.direct import commands as direct
from app.products.drills import commands as drills
from app.products.files import commands as files
from app.products.migrations import commands as migrations
from app.products.offset_log import commands as offset_log
from app.products.partition_log import commands as partition_log
from app.products.support_bundle import commands as support_bundle
from app.products.topics import commands as topics
from app.products.webhooks import commands as webhooks

_PRODUCTS = (
    audits,
    conformance,
    dataframes,
    demo,
    direct,
    drills,
    files,
    migrations,
    offset_log,
    partition_log,
    support_bundle,
    topics,
    webhooks,
)
_OWN = {
    "serve": "app.edges.cli.serve:serve",
    "doctor": "app.edges.cli.doctor:doctor",
    "problems": "app.core.overview.cli:problems",
    "clusters": "app.core.clusters.cli:app",
    "pipelines": "app.core.pipelines.cli.pipelines:app",
    "apply": "app.core.pipelines.cli.apply:apply",
    "runs": "app.core.runs.cli:app",
    "mappings": "app.core.mappings.cli.mappings:app",
    "commands": "app.core.access.cli:commands",
    "tokens": "app.edges.cli.tokens:app",
    "sessions": "app.edges.cli.sessions:app",
    "db": "app.edges.cli.db:app",
}
_ORDER = (
    "serve",
    "demo",
    "doctor",
    "problems",
    "clusters",
    "pipelines",
    "apply",
    "runs",
    "migrate",
    "drill",
    "audit",
    "compare",
    "audits",
    "mappings",
    "files",
    "batches",
    "new-checkpoint",
    "topics",
    "log",
    "transactions",
    "groups",
    "double-processing",
    "fencing",
    "stuck",
    "verify",
    "conformance",
    "fence",
    "end",
    "commands",
    "webhooks",
    "tokens",
    "sessions",
    "db",
    "support-bundle",
)
"""The order of the help. A command that is missing here comes last; one that no product has is left out."""


def commands() -> dict[str, str]:
    """Module and name of each command in the order of the help, as strings: a command loads its own modules only."""
    found = dict(_OWN)
    for product in _PRODUCTS:
        found.update(product.COMMANDS)
    return {name: found[name] for name in (*_ORDER, *found) if name in found}


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
    known = commands()
    for name in (only,) if only in known else known:
        module, _, attribute = known[name].partition(":")
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
