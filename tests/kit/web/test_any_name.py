"""A name with any characters keeps them in an address."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest
from fastapi import FastAPI

from app.kit.web.api.any_name import ANY_NAME
from tests.support.observing import ODD


@pytest.mark.parametrize("name", ["a", ODD, "two\nlines", "\r\n/x/", "\x1b[2J", "\x00", "\u2028"])
async def test_every_name_is_found_below_its_noun(name: str) -> None:
    app = FastAPI()

    async def named(name: str) -> dict[str, str]:
        return {"name": name}

    app.get(f"/ids/{{name:{ANY_NAME}}}")(named)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as client:
        answer = await client.get(f"/ids/{quote(name, safe='')}")
    assert answer.json() == {"name": name}
    assert list(_paths(app)) == ["/ids/{name}"]


def _paths(app: FastAPI) -> Iterator[str]:
    yield from app.openapi()["paths"]
