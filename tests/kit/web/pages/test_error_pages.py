"""An unknown address is a page for a user's browser, and a problem document for a program."""

from __future__ import annotations

from typing import Any, Literal

import httpx
import pytest
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse

from app.kit.errors import IllegalTransitionError
from app.kit.web import errors
from tests.support.wiring import client_of


def said(request: Request, *, status: int, title: str, detail: str, headers: Any = None) -> Response:
    return HTMLResponse(f"{title}: {detail}", status_code=status)


@pytest.fixture
def client() -> httpx.AsyncClient:
    app = FastAPI()
    errors.install(app, page=said)

    @app.get("/fencing")
    def fencing(within: Literal["day", "week"]) -> str:  # pyright: ignore[reportUnusedFunction] - by its route
        return within

    @app.get("/api/v1/fencing")
    def api(within: Literal["day", "week"]) -> str:  # pyright: ignore[reportUnusedFunction] - by its route
        return within

    @app.post("/pause")
    def pause() -> str:  # pyright: ignore[reportUnusedFunction] - by its route
        raise IllegalTransitionError("a stopped run cannot pause")

    return client_of(app)


PERSON = {"accept": "text/html,application/xhtml+xml"}


async def test_an_address_with_a_wrong_value_is_explained_on_a_page(client: httpx.AsyncClient) -> None:
    answer = await client.get("/fencing", params={"within": "year"}, headers=PERSON)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "text/html; charset=utf-8")
    assert "within: input should be 'day' or 'week'" in answer.text


async def test_a_late_request_is_explained_on_a_page(client: httpx.AsyncClient) -> None:
    answer = await client.post("/pause", headers=PERSON)
    assert (answer.status_code, answer.headers["content-type"]) == (409, "text/html; charset=utf-8")
    assert "check it before another try" in answer.text


@pytest.mark.parametrize(("path", "headers"), [("/fencing", {}), ("/api/v1/fencing", PERSON)])
async def test_a_program_gets_the_fields(client: httpx.AsyncClient, path: str, headers: dict[str, str]) -> None:
    answer = await client.get(path, params={"within": "year"}, headers=headers)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["problems"][0]["field"] == "within"
