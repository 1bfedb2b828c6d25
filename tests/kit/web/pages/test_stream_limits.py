"""Event streams are limited: equal pages share a view, and one user has a limited number of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack, ExitStack
from typing import Any

import pytest
from fastapi import FastAPI

from app.core.wiring import Wiring
from app.edges.main.users_app import create_users_app
from app.kit.access import Role
from app.kit.web.pages import screen, stream_limit
from app.kit.web.pages.stream_limit import StreamLimit
from tests.support.event_streams import streamed
from tests.support.wiring import client_of, token_of

_STREAMS = 40


async def _first_frame(app: FastAPI, stack: AsyncExitStack, path: str, query: str, token: str) -> str:
    frames = streamed(app, path, query=query, token=token)
    stack.push_async_callback(frames.aclose)
    while True:
        part = await asyncio.wait_for(anext(frames), 30)
        if "data:" in part:
            return part


async def test_streams_that_differ_in_unused_parameters_share_one_view(
    wiring: Wiring, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered: list[str] = []
    render = screen.render

    def counted(template: str, context: Mapping[str, Any]) -> str:
        rendered.append(template)
        return render(template, context)

    monkeypatch.setattr(screen, "render", counted)
    app, token = create_users_app(wiring), await token_of(wiring, Role.VIEWER)
    async with AsyncExitStack() as stack:
        opened = [
            _first_frame(app, stack, "/commands/stream", f"target=t&x={number}&said=logged-out", token)
            for number in range(_STREAMS)
        ]
        frames = await asyncio.gather(*opened)
        assert len(set(frames)) == 1
        # Viewed again for later viewers, at the interval of one view.
        assert 1 <= len(rendered) < _STREAMS / 2
        # Used parameters distinguish them.
        other = await _first_frame(app, stack, "/commands/stream", "target=other", token)
        assert "data:" in other
        shared = {query for _, query, _ in app.state.looks.watched}
        assert shared == {(("target", "t"),), (("target", "other"),)}


@pytest.mark.parametrize(
    ("name", "status", "queries"),
    [
        ("LOOKS_OF_ONE", 429, ("target=a", "target=b", "target=c")),
        ("STREAMS_OF_ONE", 429, ("", "", "")),
        ("LOOKS", 503, ("target=a", "target=b", "target=c")),
        ("STREAMS", 503, ("", "", "")),
    ],
)
async def test_streams_beyond_a_limit_are_refused_until_others_end(
    name: str, status: int, queries: tuple[str, str, str], wiring: Wiring, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_limit, name, 2)
    token = await token_of(wiring, Role.VIEWER)
    app = create_users_app(wiring)
    async with client_of(app, token=token) as browser:
        async with AsyncExitStack() as stack:
            for query in queries[:2]:
                await _first_frame(app, stack, "/commands/stream", query, token)
            refused = await asyncio.wait_for(browser.get(f"/commands/stream?{queries[2]}"), 30)
            assert refused.status_code == status
            assert refused.headers["content-type"] == "application/problem+json"
            assert int(refused.headers["retry-after"]) > 0
        async with AsyncExitStack() as stack:
            assert await _first_frame(app, stack, "/commands/stream", queries[2], token)


def test_streams_that_have_ended_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_limit, "STREAMS_OF_ONE", 3)
    monkeypatch.setattr(stream_limit, "LOOKS_OF_ONE", 2)
    limit = StreamLimit(connections=1_000)
    for _ in range(3):
        with limit.held("ada", "a") as first, limit.held("ada", "a") as same, limit.held("ada", "b") as last:
            assert (first, same, last) == (None, None, None)
            with limit.held("ada", "b") as refused, limit.held("eve", "b") as of_another:
                assert refused is not None
                assert of_another is None


def test_viewers_of_one_view_count_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They share it, so a whole team may watch the same pages."""
    monkeypatch.setattr(stream_limit, "LOOKS", 2)
    limit = StreamLimit(connections=1_000)
    with ExitStack() as stack:
        of_team = [stack.enter_context(limit.held(f"user {number}", look)) for number in range(9) for look in "ab"]
        assert of_team == [None] * 18
        assert stack.enter_context(limit.held("eve", "c")) is not None
    with limit.held("eve", "c") as refused:
        assert refused is None


@pytest.mark.parametrize("connections", [8, 128, 2_048])
def test_streams_leave_connections_to_requests(connections: int) -> None:
    """An address may be a proxy, before which all users are: streams alone must not take all of its connections."""
    limit = StreamLimit(connections=connections)
    with ExitStack() as stack:
        taken = 0
        for number in range(connections):
            one = f"user {number // 4}"
            taken += stack.enter_context(limit.held(one, number // 100)) is None
        assert 0 < taken <= connections // 2
    with limit.held("ada", "a") as refused:
        assert refused is None
