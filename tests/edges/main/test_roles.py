"""Every route: open on purpose, or closed to every lower role."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import iter_route_contexts

from app.core.access.signed_in import Allowed
from app.kit.access import NEEDED_ROLE, Role, Verb
from app.kit.web.security.cookies import COOKIE_NAMES
from tests.support.fixtures import AsRole
from tests.support.wiring import USERS_URL

OPEN = {
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/api/v1/openapi.json"),
    ("GET", "/login"),
    ("POST", "/login"),
    ("GET", "/login/{secret}"),
    ("POST", "/login/{secret}"),
    ("POST", "/logout"),
}
"""The routes without a credential, which reveal nothing about pipelines."""
ANYBODY_KNOWN = {("GET", "/api/v1/me")}
GUARDED_BY_A_SETTING = {("GET", "/metrics")}
_VALUES = {
    "run_id": "00000000-0000-0000-0000-000000000000",
    "sha256": "0" * 64,
    "number": "1",
    "partition": "0",
    "ordinal": "0",
    "lease": "1",
    "left": "1",
    "right": "1",
}


def _routes(app: FastAPI) -> Iterator[tuple[str, str, frozenset[Verb]]]:
    """Method, path, and the verbs that the route's dependencies ask for."""
    for context in iter_route_contexts(app.routes):
        dependant: Dependant | None = getattr(context, "dependant", None)
        verbs: frozenset[Verb] = frozenset(() if dependant is None else _verbs(dependant))
        for method in (context.methods or set()) - {"HEAD"}:
            yield method, context.path or "", verbs


def _verbs(dependant: Dependant) -> Iterator[Verb]:
    if isinstance(dependant.call, Allowed):
        yield dependant.call.verb
    for below in dependant.dependencies:
        yield from _verbs(below)


def _address(path: str) -> str:
    return re.sub(r"{(\w+)(?::\w+)?}", lambda match: _VALUES.get(match[1], "something"), path)


def _below(role: Role) -> Role | None:
    """Return the highest role that does not include `role`; None: no role is too low."""
    lower = [other for other in Role if not other.includes(role)]
    return max(lower, key=lambda other: other.rank) if lower else None


async def _ask(client: httpx.AsyncClient, method: str, path: str) -> httpx.Response:
    return await client.request(method, _address(path), headers={"Origin": USERS_URL})


def test_there_are_routes_of_every_kind(app: FastAPI) -> None:
    paths = {path for _, path, _ in _routes(app)}
    assert {"/api/v1/pipelines", "/api/v1/runs/{run_id}/drain", "/healthz", "/metrics", "/login"} <= paths


def test_every_route_asks_for_a_verb_or_is_open_on_purpose(app: FastAPI) -> None:
    unguarded = {(method, path) for method, path, verbs in _routes(app) if not verbs and not path.startswith("/static")}
    assert unguarded == OPEN | ANYBODY_KNOWN | GUARDED_BY_A_SETTING


async def test_no_route_beside_the_open_ones_answers_without_a_credential(app: FastAPI, as_role: AsRole) -> None:
    nobody = await as_role(None)
    answered: list[str] = []
    for method, path, _ in _routes(app):
        if (method, path) in OPEN or path.startswith("/static"):
            continue
        response = await _ask(nobody, method, path)
        is_login = response.status_code == 303 and response.headers["location"].startswith("/login")
        if response.status_code != 401 and not is_login:
            answered.append(f"{method} {path}: {response.status_code}")
    assert answered == []


async def test_every_route_refuses_the_next_lower_role(app: FastAPI, as_role: AsRole) -> None:
    answered: list[str] = []
    asked = 0
    for method, path, verbs in _routes(app):
        for verb in verbs:
            lower = _below(NEEDED_ROLE[verb])
            if lower is None:
                continue
            asked += 1
            response = await _ask(await as_role(lower), method, path)
            if response.status_code != 403:
                answered.append(f"{method} {path} as {lower}: {response.status_code} {response.text[:200]}")
    assert answered == []
    assert asked >= 15


async def test_a_refusal_names_both_roles_and_the_way_out(as_role: AsRole) -> None:
    response = await (await as_role(Role.VIEWER)).post("/api/v1/tokens", json={"name": "x", "role": "viewer"})
    assert response.status_code == 403
    detail = response.json()["detail"]
    assert "viewer" in detail
    assert "administrator" in detail
    assert "fenceline tokens create" in detail


@pytest.mark.parametrize("header", ["Bearer", "Bearer ", "Basic YTpi", "Bearer flt_unknown", "Bearer fls_unknown"])
async def test_a_bad_credential_is_refused_with_a_challenge(as_role: AsRole, header: str) -> None:
    response = await (await as_role(None)).get("/api/v1/me", headers={"Authorization": header})
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("name", COOKIE_NAMES)
async def test_a_token_is_no_session(as_role: AsRole, administrator: httpx.AsyncClient, name: str) -> None:
    token = administrator.headers["authorization"].removeprefix("Bearer ")
    response = await (await as_role(None)).get("/api/v1/me", headers={"Cookie": f"{name}={token}"})
    assert response.status_code == 401
