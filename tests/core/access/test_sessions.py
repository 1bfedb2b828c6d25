"""Every session is listed and can be ended, with any kind of login; reserved names are refused."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.core.access.command import CommandFilter
from app.core.access.service import command_log, tokens
from app.kit.access import OWN_ACTORS, Principal, Role, Session, Verb
from app.kit.errors import ForbiddenError, InvalidError, NotFoundError
from tests.support.control_plane import ANNA, ControlPlane

HOUR = timedelta(hours=1)
OTTO = Principal(name="otto", role=Role.AUTHOR)


async def with_a_token(plane: ControlPlane) -> str:
    async with plane.uow() as uow:
        _, secret = await tokens.create_token(uow, name="ci", role=Role.OPERATOR, by=ANNA, why=None, now=plane.now)
        _, cookie = await tokens.create_session(uow, secret, lifetime=HOUR, now=plane.now)
        await uow.commit()
    return cookie


async def with_a_link(plane: ControlPlane) -> str:
    ben = Principal(name="ben", role=Role.AUTHOR)
    async with plane.uow() as uow:
        link = await tokens.create_one_time_link(uow, principal=ben, lifetime=HOUR, by=ANNA, now=plane.now)
        plane.pass_time(5)
        _, cookie = await tokens.redeem_one_time_link(uow, link, session_lifetime=HOUR, now=plane.now)
        await uow.commit()
    return cookie


async def listed(plane: ControlPlane) -> list[Session]:
    async with plane.uow() as uow:
        return await tokens.list_sessions(uow, by=ANNA, now=plane.now)


async def is_open(plane: ControlPlane, cookie: str) -> bool:
    async with plane.uow() as uow:
        session = await tokens.get_session(uow, cookie, now=plane.now)
        await uow.commit()
    return session is not None


async def test_each_session_is_listed_with_what_it_began_with(plane: ControlPlane) -> None:
    began = plane.now
    await with_a_token(plane)
    cookie = await with_a_link(plane)
    of_link, of_token = await listed(plane)
    assert (of_token.principal.name, of_token.token, of_token.began_with) == ("ci", "ci", "token ci")
    assert (of_link.principal.name, of_link.token_id, of_link.began_with) == ("ben", None, "a one-time link of anna")
    assert (of_link.link_created_at, of_link.created_at) == (began, began + timedelta(seconds=5))
    assert of_link.last_used_at is None
    plane.pass_time(30)
    assert await is_open(plane, cookie)
    assert (await listed(plane))[0].last_used_at == plane.now


async def test_session_of_a_link_is_ended_and_the_others_go_on(plane: ControlPlane) -> None:
    kept, cookie = await with_a_token(plane), await with_a_link(plane)
    session = next(one for one in await listed(plane) if one.principal.name == "ben")
    async with plane.uow() as uow:
        await tokens.end_session(uow, session.id, by=ANNA, why="left", now=plane.now)
        await uow.commit()
    assert (await is_open(plane, cookie), await is_open(plane, kept)) == (False, True)
    assert [one.principal.name for one in await listed(plane)] == ["ci"]
    async with plane.uow() as uow:
        (command,) = (await command_log.list_commands(uow, CommandFilter(target=f"session:{session.id}"))).items
        assert (command.who, command.verb, command.why) == ("anna", Verb.END_SESSION, "left")
        for unknown in (session.id, "no-id"):
            with pytest.raises(NotFoundError):
                await tokens.end_session(uow, unknown, by=ANNA, why=None, now=plane.now)


async def test_session_that_has_expired_is_not_listed(plane: ControlPlane) -> None:
    await with_a_token(plane)
    plane.pass_time(3600)
    assert await listed(plane) == []


async def test_sessions_are_the_administrators(plane: ControlPlane) -> None:
    await with_a_token(plane)
    (session,) = await listed(plane)
    async with plane.uow() as uow:
        with pytest.raises(ForbiddenError):
            await tokens.list_sessions(uow, by=OTTO, now=plane.now)
        with pytest.raises(ForbiddenError):
            await tokens.end_session(uow, session.id, by=OTTO, why=None, now=plane.now)


BAD_NAMES = [
    *(actor.name for actor in OWN_ACTORS),
    *("Reconciler", "RECONCILER", "command-line", "commandline", "fenceline", "system"),
    *(
        "",
        " ben",
        "ben ",
        "ben\n",
        "be\nn",
        "\x1b[31mben",
        "be\x00n",
        "be\u202en",
        "b" * 64,
        "1ben",
        "bén",
        "reconciler\n",
    ),
]


@pytest.mark.parametrize("name", BAD_NAMES, ids=ascii)
async def test_reserved_or_odd_name_is_refused_on_every_way_in(plane: ControlPlane, name: str) -> None:
    async with plane.uow() as uow:
        with pytest.raises(InvalidError) as of_token:
            await tokens.create_token(uow, name=name, role=Role.VIEWER, by=ANNA, why=None, now=plane.now)
        principal = Principal(name=name, role=Role.VIEWER)
        with pytest.raises(InvalidError) as of_link:
            await tokens.create_one_time_link(uow, principal=principal, lifetime=HOUR, by=ANNA, now=plane.now)
    for error in (of_token.value, of_link.value):
        assert error.message.isprintable()
        assert error.message.isascii()
        assert error.field == "name"
