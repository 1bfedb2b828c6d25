"""The current user, tokens, one-time login links, and the command log."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from app.core.access import schemas as access
from app.core.access.command import Command, CommandFilter
from app.core.access.service import command_log, tokens
from app.core.access.signed_in import CurrentPrincipal, Viewer, may
from app.core.wiring import WiringDep
from app.kit.access import Principal, Session, Token, Verb
from app.kit.page import Page
from app.kit.web.api.documented import refusals
from app.kit.web.api.paging import After, Limit
from app.kit.web.api.shown import Items, Shown
from app.kit.web.api.words import NO_NUL, IdInPath, Moment, NameInPath, Why
from app.kit.web.dependencies import Uow

router = APIRouter()


@router.get("/me", responses=refusals(), tags=["access"])
async def who_am_i(principal: CurrentPrincipal) -> Shown[Principal]:
    """Return the user and role of this credential."""
    return principal


@router.get("/tokens", responses=refusals(), tags=["access"])
async def list_tokens(uow: Uow, by: Annotated[Principal, may(Verb.VIEW_TOKENS)]) -> Shown[Items[Token]]:
    """List all tokens, revoked ones too, newest first; never their secrets."""
    return Items(await tokens.list_tokens(uow, by=by))


@router.post("/tokens", status_code=201, responses=refusals(409, 413), tags=["access"])
async def create_token(
    body: access.TokenGiven, uow: Uow, wiring: WiringDep, by: Annotated[Principal, may(Verb.CREATE_TOKEN)]
) -> access.NewToken:
    """Create a token. Its secret is in this answer and nowhere else, so there is no idempotency key here."""
    token, secret = await tokens.create_token(
        uow, name=body.name, role=body.role, by=by, why=body.why, now=wiring.clock.now()
    )
    await uow.commit()
    return access.NewToken(token=token, secret=secret)


@router.delete("/tokens/{name}", status_code=204, responses=refusals(404), tags=["access"])
async def revoke_token(
    name: NameInPath,
    uow: Uow,
    wiring: WiringDep,
    by: Annotated[Principal, may(Verb.REVOKE_TOKEN)],
    why: Annotated[Why, Query()] = None,
) -> None:
    """Revoke the valid token of this name; its sessions end, with their event streams."""
    await tokens.revoke_token(uow, name=name, by=by, why=why, now=wiring.clock.now())
    await uow.commit()


@router.get("/sessions", responses=refusals(), tags=["access"])
async def list_sessions(
    uow: Uow, wiring: WiringDep, by: Annotated[Principal, may(Verb.VIEW_SESSIONS)]
) -> Shown[Items[Session]]:
    """List every browser that is logged in, newest first, with the token or one-time link of its login."""
    found = await tokens.list_sessions(uow, by=by, now=wiring.clock.now())
    return Items(found)


@router.delete("/sessions/{id}", status_code=204, responses=refusals(404), tags=["access"])
async def end_session(
    id: IdInPath,  # noqa: A002 - the path's name
    uow: Uow,
    wiring: WiringDep,
    by: Annotated[Principal, may(Verb.END_SESSION)],
    why: Annotated[Why, Query()] = None,
) -> None:
    """Log a browser out; its event streams end too."""
    await tokens.end_session(uow, id, by=by, why=why, now=wiring.clock.now())
    await uow.commit()


@router.get("/commands", responses=refusals(), tags=["command log"])
async def list_commands(
    uow: Uow,
    _: Viewer,
    who: Annotated[
        str | None, Query(max_length=100, pattern=NO_NUL, description="A user, or one of Fenceline's own loops.")
    ] = None,
    verb: Verb | None = None,
    target: Annotated[
        str | None,
        Query(
            max_length=200,
            pattern=r"^[a-z_]+(:[A-Za-z0-9._-]+)?$",
            description="One thing, or all of a noun such as `pipeline`.",
            examples=["pipeline:delayed-flights"],
        ),
    ] = None,
    outcome: Annotated[str | None, Query(max_length=200, pattern=NO_NUL, description="A part of its sentence.")] = None,
    since: Annotated[Moment | None, Query(description="Then or later.")] = None,
    until: Annotated[Moment | None, Query(description="Before.")] = None,
    after: After = None,
    limit: Limit = 50,
) -> Shown[Page[Command]]:
    """List commands with user, target, reason and time, newest first."""
    wanted = CommandFilter(who=who, verb=verb, target=target, outcome=outcome, since=since, until=until)
    return await command_log.list_commands(uow, wanted, after=after, limit=limit)
