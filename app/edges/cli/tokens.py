"""`fenceline tokens`: the tokens of users. Works directly on the database, so it needs no token itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from app.core.access.service import tokens
from app.edges.cli.database import on_database
from app.kit.access import COMMAND_LINE, Principal, Role
from app.kit.cli.client import running_server_url, settings_or_exit
from app.kit.cli.output import AsJson, Why, Yes, ago, confirm_or_exit, present, print_json, say, table
from app.kit.state_files import write_private

if TYPE_CHECKING:
    from app.kit.access import Token
    from app.kit.db.unit_of_work import UnitOfWork

app = typer.Typer(
    help="Tokens of people and programs. Uses the database directly: run it on a machine with the server's settings.",
    no_args_is_help=True,
)
RoleOption = Annotated[Role, typer.Option("--role", "-r", help="Its role; each role includes those before it.")]


@app.command()
def create(
    name: str,
    role: RoleOption,
    save: Annotated[bool, typer.Option("--save", help="Also save it as this user's own token for the CLI.")] = False,
    why: Why = None,
    as_json: AsJson = False,
) -> None:
    """Create a token and print it once."""
    settings = settings_or_exit()

    async def work(uow: UnitOfWork) -> tuple[Token, str]:
        return await tokens.create_token(uow, name=name, role=role, by=COMMAND_LINE, why=why, now=datetime.now(UTC))

    _, secret = on_database(settings, work)
    if save:
        write_private(settings.token_file, secret + "\n")
    if as_json:
        print_json({"name": name, "role": role, "token": secret})
        return
    # Alone on standard output, so that a script can take it.
    typer.echo(secret)
    kept = f"; kept in {settings.token_file}" if save else "; it is not shown again"
    typer.echo(f"token {name}, {role}{kept}", err=True)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """All tokens, never their secrets."""

    async def work(uow: UnitOfWork) -> list[Token]:
        return await tokens.list_tokens(uow, by=COMMAND_LINE)

    present(
        lambda: on_database(settings_or_exit(), work),
        lambda found: table(
            ("NAME", "ROLE", "CREATED", "USER", "LAST USED", "REVOKED"),
            ((t.name, t.role, ago(t.created_at), t.created_by, ago(t.last_used_at), ago(t.revoked_at)) for t in found),
            empty="No token yet: fenceline tokens create NAME --role ROLE",
        ),
        as_json=as_json,
        document=lambda found: [
            {
                "name": token.name,
                "role": token.role,
                "created_at": token.created_at,
                "created_by": token.created_by,
                "last_used_at": token.last_used_at,
                "revoked_at": token.revoked_at,
            }
            for token in found
        ],
    )


@app.command()
def revoke(name: str, why: Why = None, yes: Yes = False) -> None:
    """Revoke a token; sessions that began with it end at once, their event streams too."""
    confirm_or_exit(f"Revoke the token {name}?", is_confirmed=yes)

    async def work(uow: UnitOfWork) -> Token:
        return await tokens.revoke_token(uow, name=name, by=COMMAND_LINE, why=why, now=datetime.now(UTC))

    on_database(settings_or_exit(), work)
    say(f"revoked {name}")


@app.command()
def link(
    name: Annotated[str, typer.Argument(help="The name of the user, for the command log.")] = "administrator",
    role: RoleOption = Role.ADMINISTRATOR,
    as_json: AsJson = False,
) -> None:
    """Print a link that logs a browser in, once."""
    settings = settings_or_exit()

    async def work(uow: UnitOfWork) -> str:
        return await tokens.create_one_time_link(
            uow,
            principal=Principal(name=name, role=role),
            lifetime=timedelta(minutes=settings.one_time_link_minutes),
            by=COMMAND_LINE,
            now=datetime.now(UTC),
        )

    secret = on_database(settings, work)
    url = f"{running_server_url(settings)}/login/{secret}"
    if as_json:
        print_json({"name": name, "role": role, "url": url, "minutes": settings.one_time_link_minutes})
    else:
        typer.echo(url)
