"""Tokens are shown once, and end with all of their sessions."""

from __future__ import annotations

import httpx
from fastapi import FastAPI

from app.kit.access import Role
from tests.support.fixtures import AsRole
from tests.support.wiring import USERS_URL, client_of


async def _new(administrator: httpx.AsyncClient, name: str, role: str = "viewer") -> str:
    response = await administrator.post("/api/v1/tokens", json={"name": name, "role": role})
    assert response.status_code == 201, response.text
    secret: str = response.json()["secret"]
    return secret


async def test_a_token_is_good_until_it_is_revoked(administrator: httpx.AsyncClient, as_role: AsRole) -> None:
    nobody = await as_role(None)
    headers = {"Authorization": f"Bearer {await _new(administrator, 'bob', 'operator')}"}
    me = await nobody.get("/api/v1/me", headers=headers)
    assert me.json() == {"name": "bob", "role": "operator", "kind": "user"}
    assert (await administrator.delete("/api/v1/tokens/bob")).status_code == 204
    assert (await nobody.get("/api/v1/me", headers=headers)).status_code == 401


async def test_a_secret_is_in_no_list_and_no_log(administrator: httpx.AsyncClient) -> None:
    secret = await _new(administrator, "bob")
    assert secret not in (await administrator.get("/api/v1/tokens")).text
    assert secret not in (await administrator.get("/api/v1/commands")).text


async def test_it_is_seen_whether_a_token_is_used(administrator: httpx.AsyncClient, as_role: AsRole) -> None:
    secret = await _new(administrator, "bob")

    async def last_used() -> str | None:
        tokens = (await administrator.get("/api/v1/tokens")).json()["items"]
        return {token["name"]: token["last_used_at"] for token in tokens}["bob"]

    assert await last_used() is None
    await (await as_role(None)).get("/api/v1/me", headers={"Authorization": f"Bearer {secret}"})
    assert await last_used() is not None


async def test_a_name_is_taken_while_its_token_is_valid(administrator: httpx.AsyncClient) -> None:
    await _new(administrator, "bob")
    again = await administrator.post("/api/v1/tokens", json={"name": "bob", "role": "viewer"})
    assert again.status_code == 409
    await administrator.delete("/api/v1/tokens/bob")
    await _new(administrator, "bob")


async def test_a_session_ends_with_the_token_that_it_began_with(
    administrator: httpx.AsyncClient, as_role: AsRole
) -> None:
    browser = await as_role(None)
    form = {"token": await _new(administrator, "bob"), "next": "/"}
    logged_in = await browser.post("/login", data=form, headers={"Origin": USERS_URL})
    cookie = logged_in.headers["set-cookie"]
    assert logged_in.status_code == 303, logged_in.text
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert form["token"] not in cookie
    assert (await browser.get("/api/v1/me")).json()["name"] == "bob"
    await administrator.delete("/api/v1/tokens/bob")
    assert (await browser.get("/api/v1/me")).status_code == 401


async def test_too_many_failures_make_an_address_wait_even_with_a_good_token(
    administrator: httpx.AsyncClient, as_role: AsRole
) -> None:
    browser = await as_role(None)
    good = await _new(administrator, "bob")
    statuses: list[int] = []
    for _ in range(11):
        response = await browser.post("/login", data={"token": "flt_wrong"}, headers={"Origin": USERS_URL})
        statuses.append(response.status_code)
    assert statuses == [401] * 10 + [429]
    assert (await browser.post("/login", data={"token": good}, headers={"Origin": USERS_URL})).status_code == 429


async def test_a_lower_role_cannot_give_out_tokens(as_role: AsRole) -> None:
    author = await as_role(Role.AUTHOR)
    refused = await author.post("/api/v1/tokens", json={"name": "mine", "role": "administrator"})
    assert refused.status_code == 403


async def test_under_tls_the_cookie_is_secure_and_bound_to_this_host(
    administrator: httpx.AsyncClient, app: FastAPI
) -> None:
    url = USERS_URL.replace("http", "https")
    async with client_of(app, url=url) as browser:
        form = {"token": await _new(administrator, "bob")}
        cookie = (await browser.post("/login", data=form, headers={"Origin": url})).headers["set-cookie"]
    assert cookie.startswith("__Host-")
    assert "Secure" in cookie
    assert "Path=/" in cookie
    assert "Domain" not in cookie


async def test_a_plain_cookie_is_no_session_under_tls(administrator: httpx.AsyncClient, app: FastAPI) -> None:
    """Otherwise another host on the network could plant one over HTTP."""
    form = {"token": await _new(administrator, "bob")}
    async with client_of(app) as plain:
        response = await plain.post("/login", data=form, headers={"Origin": USERS_URL})
        cookie = response.headers["set-cookie"].partition(";")[0]
        assert (await plain.get("/api/v1/me")).status_code == 200
    async with client_of(app, url=USERS_URL.replace("http", "https")) as secure:
        assert (await secure.get("/api/v1/me", headers={"Cookie": cookie})).status_code == 401
