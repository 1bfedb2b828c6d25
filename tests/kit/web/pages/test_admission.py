"""For any number of browsers, the database gets one query for their sessions, and each gets its own answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack

import pytest

from app.kit.access import Principal, Role
from app.kit.errors import UnavailableError
from app.kit.web.pages.admission import StreamAdmission

SECRETS = [f"fls_{number}" for number in range(500)]


class Sessions:
    """The sessions that there are, and what was asked."""

    def __init__(self) -> None:
        self.ended: set[str] = set()
        self.asked: list[frozenset[str]] = []
        self.is_away = False

    async def ask(self, secrets: frozenset[str]) -> Mapping[str, Principal]:
        self.asked.append(secrets)
        await asyncio.sleep(0)
        if self.is_away:
            raise UnavailableError("the database does not answer")
        return {secret: Principal(name=secret, role=Role.VIEWER) for secret in secrets - self.ended}


def watched(admission: StreamAdmission, stack: ExitStack, secrets: list[str]) -> None:
    for secret in secrets:
        stack.enter_context(admission.watch(secret))


async def test_five_hundred_browsers_are_one_question_and_each_gets_its_own_answer() -> None:
    sessions = Sessions()
    admission = StreamAdmission(sessions.ask, clock=lambda: 100.0)
    sessions.ended = {SECRETS[7]}
    with ExitStack() as stack:
        watched(admission, stack, SECRETS)
        found = await asyncio.gather(*(admission.principal_of(secret) for secret in SECRETS))
    assert sessions.asked == [frozenset(SECRETS)]
    assert [one and one.name for one in found] == [None if secret == SECRETS[7] else secret for secret in SECRETS]


async def test_a_viewer_that_came_after_the_query_has_not_ended() -> None:
    sessions = Sessions()
    admission = StreamAdmission(sessions.ask, clock=lambda: 100.0)
    with ExitStack() as stack:
        watched(admission, stack, SECRETS[:2])
        await admission.principal_of(SECRETS[0])
        watched(admission, stack, SECRETS[2:3])
        found = await admission.principal_of(SECRETS[2])
    assert found is not None
    assert sessions.asked == [frozenset(SECRETS[:2]), frozenset(SECRETS[:3])]


async def test_an_ended_session_is_noticed_within_a_second() -> None:
    now_s = 100.0
    sessions = Sessions()
    admission = StreamAdmission(sessions.ask, clock=lambda: now_s)
    with admission.watch(SECRETS[0]):
        assert await admission.principal_of(SECRETS[0]) is not None
        sessions.ended = {SECRETS[0]}
        now_s += 1.0
        assert await admission.principal_of(SECRETS[0]) is None


async def test_former_viewers_are_not_queried() -> None:
    sessions = Sessions()
    admission = StreamAdmission(sessions.ask, clock=lambda: 100.0)
    with admission.watch(SECRETS[0]):
        with admission.watch(SECRETS[1]), admission.watch(SECRETS[0]):
            pass
        await admission.principal_of(SECRETS[0])
    assert sessions.asked == [frozenset(SECRETS[:1])]


async def test_a_browser_that_goes_leaves_the_others_their_answer() -> None:
    sessions = Sessions()
    admission = StreamAdmission(sessions.ask, clock=lambda: 100.0)
    with ExitStack() as stack:
        watched(admission, stack, SECRETS[:2])
        going, staying = (asyncio.create_task(admission.principal_of(secret)) for secret in SECRETS[:2])
        await asyncio.sleep(0)
        going.cancel()
        assert await staying is not None
    assert len(sessions.asked) == 1


async def test_without_the_database_no_session_counts_as_ended() -> None:
    sessions = Sessions()
    sessions.is_away = True
    admission = StreamAdmission(sessions.ask, clock=lambda: 100.0)
    with admission.watch(SECRETS[0]), pytest.raises(UnavailableError):
        await admission.principal_of(SECRETS[0])
