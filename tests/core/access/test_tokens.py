"""Secrets are shown once, stored as hashes, and end when they are revoked, used or expired."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from app.core.access.service import tokens
from app.edges.main.tables import metadata
from app.kit.access import Principal, Role
from app.kit.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError, UnauthenticatedError
from tests.support.control_plane import ANNA, ControlPlane

HOUR = timedelta(hours=1)


async def make_token(plane: ControlPlane, name: str = "ci", role: Role = Role.OPERATOR) -> str:
    async with plane.uow() as uow:
        _, secret = await tokens.create_token(uow, name=name, role=role, by=ANNA, why=None, now=plane.now)
        await uow.commit()
    return secret


async def who(plane: ControlPlane, secret: str) -> Principal | None:
    async with plane.uow() as uow:
        return await tokens.authenticate(uow, secret, now=plane.now)


async def login(plane: ControlPlane, secret: str) -> str:
    async with plane.uow() as uow:
        _, cookie = await tokens.create_session(uow, secret, lifetime=HOUR, now=plane.now)
        await uow.commit()
    return cookie


async def in_session(plane: ControlPlane, cookie: str) -> Principal | None:
    async with plane.uow() as uow:
        session = await tokens.get_session(uow, cookie, now=plane.now)
    return None if session is None else session.principal


async def make_link(plane: ControlPlane) -> str:
    async with plane.uow() as uow:
        link = await tokens.create_one_time_link(
            uow, principal=Principal(name="ben", role=Role.AUTHOR), lifetime=HOUR, by=ANNA, now=plane.now
        )
        await uow.commit()
    return link


async def redeem(plane: ControlPlane, link: str) -> str:
    async with plane.uow() as uow:
        _, cookie = await tokens.redeem_one_time_link(uow, link, session_lifetime=HOUR, now=plane.now)
        await uow.commit()
    return cookie


async def test_a_token_is_its_principal_until_it_is_revoked(plane: ControlPlane) -> None:
    secret = await make_token(plane)
    assert await who(plane, secret) == Principal(name="ci", role=Role.OPERATOR)
    async with plane.uow() as uow:
        await tokens.revoke_token(uow, name="ci", by=ANNA, why="leaked", now=plane.now)
        await uow.commit()
    assert await who(plane, secret) is None


async def test_when_a_token_was_used_is_noted_once_a_minute(plane: ControlPlane) -> None:
    secret = await make_token(plane)

    async def use_after(seconds: float) -> datetime | None:
        plane.pass_time(seconds)
        async with plane.uow() as uow:
            await tokens.authenticate(uow, secret, now=plane.now)
            await uow.commit()
        async with plane.uow() as uow:
            (token,) = await tokens.list_tokens(uow, by=ANNA)
        return token.last_used_at

    first = await use_after(0)
    assert first == plane.now
    assert await use_after(30) == first
    assert await use_after(31) == plane.now


@pytest.mark.parametrize("secret", ["", "flt_", "flt_wrong", "nonsense", "fls_" + "x" * 43])
async def test_unknown_token_has_no_owner(plane: ControlPlane, secret: str) -> None:
    await make_token(plane)
    assert await who(plane, secret) is None


async def test_one_valid_token_a_name(plane: ControlPlane) -> None:
    await make_token(plane)
    with pytest.raises(ConflictError, match="a valid token with this name exists already"):
        await make_token(plane)
    async with plane.uow() as uow:
        await tokens.revoke_token(uow, name="ci", by=ANNA, why=None, now=plane.now)
        await uow.commit()
    assert await who(plane, await make_token(plane)) is not None
    async with plane.uow() as uow:
        with pytest.raises(NotFoundError, match="no valid token nobody"):
            await tokens.revoke_token(uow, name="nobody", by=ANNA, why=None, now=plane.now)


async def test_names_of_tokens_are_plain(plane: ControlPlane) -> None:
    with pytest.raises(InvalidError, match="is not a valid name: use 1 to 63 letters"):
        await make_token(plane, name="two words")


async def test_only_an_administrator_makes_tokens(plane: ControlPlane) -> None:
    async with plane.uow() as uow:
        with pytest.raises(ForbiddenError, match="requires the role administrator; ann is author"):
            await tokens.create_token(
                uow,
                name="x",
                role=Role.VIEWER,
                by=Principal(name="ann", role=Role.AUTHOR),
                why=None,
                now=plane.now,
            )


async def test_a_session_ends_with_its_time_its_logout_and_its_token(plane: ControlPlane) -> None:
    secret = await make_token(plane)
    cookie, other, third = [await login(plane, secret) for _ in range(3)]
    assert await in_session(plane, cookie) == Principal(name="ci", role=Role.OPERATOR)
    async with plane.uow() as uow:
        await tokens.revoke_session(uow, other, now=plane.now)
        await uow.commit()
    assert await in_session(plane, other) is None
    plane.pass_time(HOUR.total_seconds() - 1)
    assert await in_session(plane, cookie) is not None
    async with plane.uow() as uow:
        await tokens.revoke_token(uow, name="ci", by=ANNA, why=None, now=plane.now)
        await uow.commit()
    assert await in_session(plane, cookie) is None
    assert await in_session(plane, third) is None


async def test_a_session_does_not_outlive_its_time(plane: ControlPlane) -> None:
    cookie = await login(plane, await make_token(plane))
    plane.pass_time(HOUR.total_seconds())
    assert await in_session(plane, cookie) is None


async def test_a_bad_token_does_not_log_in(plane: ControlPlane) -> None:
    with pytest.raises(UnauthenticatedError, match="not valid"):
        await login(plane, "flt_wrong")


async def test_one_of_two_browsers_with_one_link_is_logged_in(plane: ControlPlane) -> None:
    link = await make_link(plane)
    outcomes = await asyncio.gather(*(redeem(plane, link) for _ in range(4)), return_exceptions=True)
    cookies = [outcome for outcome in outcomes if isinstance(outcome, str)]
    assert len(cookies) == 1
    assert all(isinstance(outcome, (str, UnauthenticatedError)) for outcome in outcomes)
    assert await in_session(plane, cookies[0]) == Principal(name="ben", role=Role.AUTHOR)


async def test_a_link_expires(plane: ControlPlane) -> None:
    link = await make_link(plane)
    plane.pass_time(HOUR.total_seconds())
    with pytest.raises(UnauthenticatedError, match="has expired"):
        await redeem(plane, link)


async def test_first_start_is_over_after_the_first_credential(plane: ControlPlane) -> None:
    async with plane.uow() as uow:
        assert await tokens.is_first_start(uow)
    await make_link(plane)
    async with plane.uow() as uow:
        assert not await tokens.is_first_start(uow)


async def test_no_secret_is_anywhere_in_the_database(plane: ControlPlane) -> None:
    token = await make_token(plane)
    link = await make_link(plane)
    planted = [token, link, await redeem(plane, link), await login(plane, token)]
    await plane.pipeline()
    planted.append(await plane.submit((await plane.run()).id))
    async with plane.database.engine.connect() as connection:
        for table in metadata.sorted_tables:
            text = str((await connection.execute(sa.select(table))).all())
            assert not [secret for secret in planted if secret in text], f"a secret stands in {table.name}"
