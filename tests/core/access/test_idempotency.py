"""A command that is sent twice is carried out once, also if both arrive at the same time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from app.core.access.command import CommandFilter
from app.core.access.service import command_log, idempotency
from app.core.access.store.commands import CommandStore
from app.kit.access import Principal, Role, Verb
from app.kit.errors import InvalidError
from tests.support.control_plane import ANNA, ControlPlane


async def command(plane: ControlPlane, *, key: str = "k", body: str = "one", by: Principal = ANNA) -> int:
    """A command that writes one row and answers with its id; by way of its key."""
    async with plane.uow() as uow:
        stored = await idempotency.recall(uow, key=key, by=by, request_sha256=body, now=plane.now)
        if stored is not None:
            assert stored.status == 201
            return stored.body["id"]
        row = await command_log.record(
            uow, by=by, verb=Verb.START_RUN, target="pipeline:x", why=None, now=plane.now, outcome="done"
        )
        await idempotency.remember(uow, key=key, by=by, status=201, body={"id": row.id})
        await uow.commit()
        return row.id


async def carried_out(plane: ControlPlane) -> int:
    async with plane.uow() as uow:
        return len((await uow.of(CommandStore).list(CommandFilter(), after=None, limit=100)).items)


async def test_the_second_time_gives_the_first_answer(plane: ControlPlane) -> None:
    assert await command(plane) == await command(plane)
    assert await carried_out(plane) == 1


async def test_many_at_once_are_carried_out_once_and_answered_the_same(plane: ControlPlane) -> None:
    answers = await asyncio.gather(*(command(plane) for _ in range(8)))
    assert len(set(answers)) == 1
    assert await carried_out(plane) == 1


async def test_another_request_with_the_same_key_is_refused(plane: ControlPlane) -> None:
    await command(plane)
    with pytest.raises(InvalidError, match="was used for a different request before"):
        await command(plane, body="two")


async def test_keys_belong_to_their_principal(plane: ControlPlane) -> None:
    ben = Principal(name="ben", role=Role.OPERATOR)
    assert await command(plane) != await command(plane, by=ben)


async def test_a_command_that_failed_leaves_its_key_free(plane: ControlPlane) -> None:
    async with plane.uow() as uow:
        assert await idempotency.recall(uow, key="k", by=ANNA, request_sha256="one", now=plane.now) is None
    await command(plane)
    assert await carried_out(plane) == 1


@pytest.mark.parametrize("key", ["", "two words", "x" * 201, "ü"])
async def test_malformed_key_is_refused(plane: ControlPlane, key: str) -> None:
    with pytest.raises(InvalidError, match="1 to 200 printable characters"):
        await command(plane, key=key)


def test_each_route_commits_the_command_that_it_carries_out_once() -> None:
    routes = "".join(path.read_text("utf-8") for path in (Path(__file__).parents[3] / "app").rglob("*.py"))
    command = "answer = await once.do("
    after = [rest.splitlines()[1:3] for rest in routes.split(command)[1:]]
    assert len(after) == routes.count("once.do(") > 20
    assert {tuple(line.strip() for line in lines) for lines in after} == {("await uow.commit()", "return answer")}
