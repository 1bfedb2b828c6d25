"""`fenceline sessions`: browsers that are logged in. Works directly on the database, as `fenceline tokens` does."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from app.core.access.service import tokens
from app.edges.cli.database import on_database
from app.kit.access import COMMAND_LINE
from app.kit.cli.client import settings_or_exit
from app.kit.cli.output import AsJson, Why, Yes, ago, confirm_or_exit, present, say, table

if TYPE_CHECKING:
    from app.kit.access import Session
    from app.kit.db.unit_of_work import UnitOfWork

app = typer.Typer(
    help="Browsers that are logged in. Uses the database directly: run it on a machine with the server's settings.",
    no_args_is_help=True,
)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """All open sessions, with the token or one-time link that each began with."""

    async def work(uow: UnitOfWork) -> list[Session]:
        return await tokens.list_sessions(uow, by=COMMAND_LINE, now=datetime.now(UTC))

    present(
        lambda: on_database(settings_or_exit(), work),
        lambda found: table(
            ("ID", "NAME", "ROLE", "SINCE", "LAST USED", "LOGGED IN WITH"),
            (
                (s.id, s.principal.name, s.principal.role, ago(s.created_at), ago(s.last_used_at), s.began_with)
                for s in found
            ),
            empty="No browser is logged in.",
        ),
        as_json=as_json,
        document=lambda found: [
            {
                "id": session.id,
                "name": session.principal.name,
                "role": session.principal.role,
                "created_at": session.created_at,
                "last_used_at": session.last_used_at,
                "expires_at": session.expires_at,
                "token": session.token,
                "link_created_at": session.link_created_at,
                "link_created_by": session.link_created_by,
            }
            for session in found
        ],
    )


@app.command()
def end(
    session_id: Annotated[str, typer.Argument(metavar="ID", help="From `fenceline sessions list`.")],
    why: Why = None,
    yes: Yes = False,
) -> None:
    """Log a browser out; its event streams end within seconds."""
    confirm_or_exit(f"End the session {session_id}?", is_confirmed=yes)

    async def work(uow: UnitOfWork) -> Session:
        return await tokens.end_session(uow, session_id, by=COMMAND_LINE, why=why, now=datetime.now(UTC))

    ended = on_database(settings_or_exit(), work)
    say(f"logged {ended.principal.name} out")
