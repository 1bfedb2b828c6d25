"""Peer, Host and Origin are looked at before anything else, on loopback too; and what every answer carries."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.core.wiring import Wiring
from app.edges.main.users_app import create_users_app
from app.kit.web.bugs import BugBarrier
from app.kit.web.security.perimeter import Perimeter, hosts_of
from tests.support.wiring import USERS_URL, client_of, settings_for_test


@pytest.fixture
def client(app: FastAPI) -> httpx.AsyncClient:
    return client_of(app)


@pytest.mark.parametrize("host", ["127.0.0.1:8700", "localhost:8700", "LOCALHOST", "[::1]:8700", "localhost"])
async def test_our_own_names_are_taken(client: httpx.AsyncClient, host: str) -> None:
    assert (await client.get("/healthz", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8700", "localhost.evil.example", "a@localhost", "localhost/x", "", "::1", "[::1"],
)
async def test_another_host_is_refused_on_loopback_too(client: httpx.AsyncClient, host: str) -> None:
    response = await client.get("/healthz", headers={"Host": host})
    assert response.status_code == 421
    assert response.headers["content-type"] == "application/problem+json"


async def test_two_hosts_are_refused(client: httpx.AsyncClient) -> None:
    response = await client.get("/healthz", headers=[("Host", "localhost"), ("Host", "localhost")])
    assert response.status_code == 421


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE"])
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:8700", "http://127.0.0.1:9999"])
async def test_a_foreign_origin_is_refused_with_every_method(
    administrator: httpx.AsyncClient, method: str, origin: str
) -> None:
    response = await administrator.request(method, "/api/v1/me", headers={"Origin": origin})
    assert response.status_code == 403


async def test_our_own_origin_is_taken(administrator: httpx.AsyncClient) -> None:
    assert (await administrator.get("/api/v1/me", headers={"Origin": USERS_URL})).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_change_from_another_site_is_refused_without_an_origin_header(
    administrator: httpx.AsyncClient, site: str
) -> None:
    response = await administrator.post(
        "/api/v1/tokens", json={"name": "x", "role": "viewer"}, headers={"Sec-Fetch-Site": site}
    )
    assert response.status_code == 403


async def test_a_change_under_a_session_cookie_needs_an_origin(client: httpx.AsyncClient) -> None:
    refused = await client.post("/logout", headers={"Cookie": "fenceline_session=fls_x"})
    taken = await client.post("/logout", headers={"Cookie": "fenceline_session=fls_x", "Origin": USERS_URL})
    assert refused.status_code == 403
    assert taken.status_code == 303


async def test_every_answer_carries_the_headers_that_bind_a_browser(client: httpx.AsyncClient) -> None:
    for path in ("/healthz", "/login", "/api/v1/nothing", "/static/nothing"):
        headers = (await client.get(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "same-origin"
        assert path.startswith("/static") or headers["cache-control"] == "no-store"


async def test_a_proxy_that_is_named_says_scheme_and_client() -> None:
    app, seen = _recorder()
    guarded = Perimeter(app, hosts=frozenset({"fence.example"}), trusted_proxies=["10.0.0.0/8"])
    async with client_of(guarded, url="http://fence.example", client="10.1.2.3") as client:
        headers = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "6.6.6.6, 192.0.2.7"}
        response = await client.get("/", headers=headers)
    assert response.status_code == 200
    assert seen == [("https", "192.0.2.7")]
    assert "strict-transport-security" in response.headers


@pytest.mark.parametrize(
    "lines",
    [
        [("x-forwarded-for", "6.6.6.6"), ("x-forwarded-for", "192.0.2.7")],
        [("x-forwarded-for", "6.6.6.6, 7.7.7.7"), ("x-forwarded-for", "8.8.8.8, 192.0.2.7")],
        [("x-forwarded-for", "6.6.6.6"), ("X-Forwarded-For", " 192.0.2.7 ")],
    ],
)
async def test_a_client_that_sends_a_forwarded_line_of_its_own_is_not_believed(lines: list[tuple[str, str]]) -> None:
    app, seen = _recorder()
    guarded = Perimeter(app, hosts=frozenset({"fence.example"}), trusted_proxies=["10.0.0.0/8"])
    async with client_of(guarded, url="http://fence.example", client="10.1.2.3") as client:
        protocols = [("x-forwarded-proto", "http"), ("x-forwarded-proto", "https")]
        await client.get("/", headers=[*lines, *protocols])
    assert seen == [("https", "192.0.2.7")]


@pytest.mark.parametrize(
    ("forwarded", "client"),
    [
        ("192.0.2.7, 10.9.9.9", "192.0.2.7"),
        ("6.6.6.6, 192.0.2.7, 10.9.9.9, 10.8.8.8", "192.0.2.7"),
        ("10.7.7.7, 192.0.2.7, 10.9.9.9", "192.0.2.7"),
        ("10.7.7.7, 10.9.9.9", "10.9.9.9"),
    ],
)
async def test_behind_a_chain_of_proxies_the_last_that_is_none_of_them_is_the_client(
    forwarded: str, client: str
) -> None:
    """What stands before it may be the client's own words."""
    app, seen = _recorder()
    guarded = Perimeter(app, hosts=frozenset({"fence.example"}), trusted_proxies=["10.0.0.0/8"])
    async with client_of(guarded, url="http://fence.example", client="10.1.2.3") as asking:
        await asking.get("/", headers={"X-Forwarded-For": forwarded})
    assert seen == [("http", client)]


async def test_with_a_proxy_named_other_peers_are_refused() -> None:
    app, seen = _recorder()
    guarded = Perimeter(app, hosts=frozenset({"fence.example"}), trusted_proxies=["10.0.0.0/8"])
    async with client_of(guarded, url="http://fence.example", client="192.0.2.9") as client:
        response = await client.get("/", headers={"X-Forwarded-Proto": "https"})
    assert response.status_code == 403
    assert seen == []


async def test_without_a_proxy_named_forwarded_headers_mean_nothing() -> None:
    app, seen = _recorder()
    guarded = Perimeter(app, hosts=frozenset({"fence.example"}))
    async with client_of(guarded, url="http://fence.example", client="192.0.2.9") as client:
        await client.get("/", headers={"X-Forwarded-Proto": "https", "X-Forwarded-For": "127.0.0.1"})
    assert seen == [("http", "192.0.2.9")]


def test_hosts_are_loopback_those_of_the_urls_and_those_allowed(tmp_path: Path) -> None:
    settings = settings_for_test(tmp_path, allowed_hosts=("Fence.example",))
    assert hosts_of(settings, ["https://control.example:8443"]) == {
        "localhost",
        "127.0.0.1",
        "::1",
        "fence.example",
        "control.example",
    }


async def test_a_bug_is_a_problem_document_with_the_headers_and_no_details(api_wiring: Wiring) -> None:
    app = create_users_app(api_wiring)

    async def broken() -> None:
        raise RuntimeError("the secret is 42")

    app.add_api_route("/broken", broken)
    async with client_of(app) as client:
        response = await client.get("/broken")
    assert response.status_code == 500
    assert response.headers["content-type"] == "application/problem+json"
    assert "content-security-policy" in response.headers
    assert "42" not in response.text


async def test_a_path_cannot_write_a_line_of_the_log(api_wiring: Wiring, caplog: pytest.LogCaptureFixture) -> None:
    app = create_users_app(api_wiring)

    async def broken() -> None:
        raise RuntimeError

    app.add_api_route("/broken/{rest}", broken)
    async with client_of(app) as client:
        assert (await client.get("/broken/x%0A2026-01-01%20INFO%20all%20is%20well")).status_code == 500
    [line] = [record.getMessage() for record in caplog.records if record.name == "app.kit.web.bugs"]
    assert "\n" not in line
    assert "/broken/x%0A" in line


async def test_a_client_that_goes_away_while_it_asks_is_no_bug(caplog: pytest.LogCaptureFixture) -> None:
    async def reading(scope: Scope, receive: Receive, send: Send) -> None:
        await Request(scope, receive).body()

    async def gone() -> Message:
        return {"type": "http.disconnect"}

    async def answered(message: Message) -> None:
        raise AssertionError(f"{message} is for nobody")

    caplog.set_level("INFO", logger="app.kit.web.bugs")
    await BugBarrier(reading)({"type": "http", "method": "POST", "path": "/workers/v1/heartbeat"}, gone, answered)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "POST /workers/v1/heartbeat: the client closed the connection")
    ]


def _recorder() -> tuple[ASGIApp, list[tuple[str, str]]]:
    """An application, and scheme and client of each request that reached it."""
    seen: list[tuple[str, str]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append((scope["scheme"], scope["client"][0]))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    return app, seen
