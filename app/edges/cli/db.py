"""`fenceline db`: the database's schema. `fenceline serve` upgrades by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from app.kit.cli.client import settings_or_exit
from app.kit.cli.errors import CommandError, ExitCode
from app.kit.cli.output import AsJson, Yes, confirm_or_exit, print_json, say
from app.kit.errors import FencelineError, UnavailableError

if TYPE_CHECKING:
    from app.edges.main import SchemaAction, SchemaState

app = typer.Typer(help="The database's schema; `fenceline serve` upgrades it by itself.", no_args_is_help=True)


def _migrate(action: SchemaAction, revision: str) -> SchemaState:
    from app.edges import main  # here: most commands need neither the database nor what brings it

    try:
        return main.migrate(settings_or_exit(), action, revision)
    except UnavailableError as error:
        raise CommandError(str(error), code=ExitCode.UNREACHABLE) from error
    except (FencelineError, main.StartError) as error:
        raise CommandError(str(error)) from error


@app.command()
def upgrade(revision: Annotated[str, typer.Argument(help="A schema revision, or head.")] = "head") -> None:
    """Upgrade the schema to a revision; the previous release can still use its tables."""
    say(f"the schema is at {_migrate('upgrade', revision).current}")


@app.command()
def downgrade(
    revision: Annotated[str, typer.Argument(help="A schema revision, -1 for one step, or base for none.")],
    yes: Yes = False,
) -> None:
    """Downgrade the schema. Data in newer tables and columns is lost."""
    confirm_or_exit(f"Downgrade the schema to {revision}? Data in newer tables and columns is lost.", is_confirmed=yes)
    say(f"the schema is at {_migrate('downgrade', revision).current or 'base: there is none'}")


@app.command()
def current(as_json: AsJson = False) -> None:
    """Show the schema's revision, and the one that this release requires."""
    found = _migrate("current", "head")
    if as_json:
        print_json({"current": found.current, "newest": found.newest, "is_current": found.current == found.newest})
    elif found.current == found.newest:
        say(f"the schema is at {found.current}, as this release requires")
    else:
        say(f"the schema is at {found.current or 'base'}; this release requires {found.newest}: fenceline db upgrade")
