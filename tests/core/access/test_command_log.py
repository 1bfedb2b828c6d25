"""The command log is narrowed by user, command, target, outcome and time: on its page, by REST and as a command."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from app.core.access.command import CommandFilter
from app.core.access.service import command_log
from app.core.wiring import Wiring
from app.kit.access import RECONCILER, Principal, Role, Verb
from tests.support.fixtures import Fenceline, json_of
from tests.support.wiring import browser_of

BEN = Principal(name="ben", role=Role.OPERATOR)
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
WRITTEN = (
    (0, BEN, Verb.START_RUN, "pipeline:flights", "started run 1"),
    (1, RECONCILER, Verb.END_RUN, "pipeline:flights", "ended run 1: 50% of its tasks failed"),
    (2, BEN, Verb.START_RUN, "pipeline:orders", "started run 2"),
    (3, BEN, Verb.REGISTER_CLUSTER, "cluster:flights", "registered"),
)
"""Hours after noon, and the parts of a row."""


@pytest.fixture
async def log(wiring: Wiring) -> None:
    async with wiring.unit_of_work() as uow:
        for hours, by, verb, target, outcome in WRITTEN:
            now = NOON + timedelta(hours=hours)
            await command_log.record(uow, by=by, verb=verb, target=target, why=None, now=now, outcome=outcome)
        await uow.commit()


@pytest.fixture
async def viewer(wiring: Wiring) -> AsyncGenerator[httpx.AsyncClient]:
    async with browser_of(wiring, Role.VIEWER) as made:
        yield made


CASES: tuple[tuple[Mapping[str, str], list[int]], ...] = (
    ({}, [3, 2, 1, 0]),
    ({"who": "ben"}, [3, 2, 0]),
    ({"who": "reconciler"}, [1]),
    ({"who": "be"}, []),
    ({"verb": "start_run"}, [2, 0]),
    ({"target": "pipeline:flights"}, [1, 0]),
    ({"target": "pipeline"}, [2, 1, 0]),
    ({"target": "pipe"}, []),
    ({"outcome": "STARTED"}, [2, 0]),
    ({"outcome": "50% of"}, [1]),
    ({"outcome": "5%s"}, []),
    ({"since": "2026-01-31T13:00:00Z"}, [3, 2, 1]),
    ({"until": "2026-01-31T13:00:00Z"}, [0]),
    ({"since": "2026-01-31T13:00:00Z", "until": "2026-01-31T15:00:00Z", "who": "ben"}, [2]),
)


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize(("query", "rows"), CASES)
async def test_the_page_and_rest_show_the_commands_of_the_filter(
    viewer: httpx.AsyncClient, query: Mapping[str, str], rows: list[int]
) -> None:
    items = (await viewer.get("/api/v1/commands", params=query)).json()["items"]
    by_rest = [(one["verb"], one["target"]) for one in items if one["verb"] != "create_token"]
    assert by_rest == [WRITTEN[row][2:4] for row in rows], "without the viewer's own token"
    form = {{"since": "from", "until": "to"}.get(name, name): value for name, value in query.items()}
    page = await viewer.get("/commands", params=form)
    assert page.status_code == 200
    shown = [row for row in (3, 2, 1, 0) if f">{WRITTEN[row][4]}<" in page.text]
    assert shown == rows
    assert ("No command matches" in page.text) == (not rows)


@pytest.mark.usefixtures("log")
async def test_the_next_page_keeps_the_filter(wiring: Wiring) -> None:
    wanted = CommandFilter(who="ben")
    async with wiring.unit_of_work() as uow:
        first = await command_log.list_commands(uow, wanted, limit=2)
        rest = await command_log.list_commands(uow, wanted, after=first.next_cursor, limit=2)
    assert [one.target for one in (*first.items, *rest.items)] == [
        "cluster:flights",
        "pipeline:orders",
        "pipeline:flights",
    ]
    assert rest.next_cursor is None


@pytest.mark.usefixtures("log")
async def test_a_wrong_time_is_marked_at_its_field_and_nothing_is_shown(viewer: httpx.AsyncClient) -> None:
    page = await viewer.get("/commands", params={"from": "yesterday", "who": "ben"})
    assert page.status_code == 422
    assert "`yesterday`: expected a time" in page.text.replace("<code>", "`").replace("</code>", "`")
    assert 'value="ben"' in page.text
    assert "started run 1" not in page.text


@pytest.mark.usefixtures("log")
async def test_an_unknown_command_is_marked_at_its_field_and_nothing_is_shown(viewer: httpx.AsyncClient) -> None:
    page = await viewer.get("/commands", params={"verb": "do_harm"})
    assert page.status_code == 422
    assert "there is no command" in page.text
    assert "started run 1" not in page.text


async def test_an_unknown_command_is_refused_by_rest(viewer: httpx.AsyncClient) -> None:
    answer = await viewer.get("/api/v1/commands", params={"verb": "do_harm"})
    assert answer.status_code == 422
    assert answer.json()["problems"][0]["field"] == "verb"


@pytest.mark.slow
def test_the_command_line_has_the_filters(fenceline: Fenceline, cluster: str) -> None:
    chosen = ("--target", "cluster", "--command", "register_cluster", "--outcome", "regist", "--since", "1h")
    found = json_of(fenceline("commands", *chosen, "--json"))
    assert [one["target"] for one in found] == [f"cluster:{cluster}"]
    assert "No command matches." in fenceline("commands", *chosen, "--user", "nobody").stdout
    wrong = fenceline("commands", "--since", "yesterday")
    assert wrong.returncode == 2
    assert "--since `yesterday`: expected a time" in wrong.stderr
