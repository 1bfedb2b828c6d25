"""JSON that is nested deeper than a parser recurses is refused by every operation with a body, and never a 5xx."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from fastapi import FastAPI

DEPTH = 40_000
DEEP = {
    "lists": "[" * DEPTH + "]" * DEPTH,
    "objects": '{"a":' * DEPTH + "1" + "}" * DEPTH,
    "a field within a field": '{"definition":{"transform":' + '{"a":' * DEPTH + "1" + "}" * DEPTH + "}}",
    "short enough for the parser": '{"definition":{"transform":' + '{"a":' * 900 + "1" + "}" * 900 + "}}",
}


def _operations(described: dict[str, Any]) -> list[tuple[str, str]]:
    return [
        (method.upper(), path)
        for path, item in described["paths"].items()
        for method, operation in item.items()
        if "requestBody" in operation
    ]


@pytest.mark.parametrize("form", DEEP)
async def test_deep_json_is_refused_by_every_operation(
    form: str, administrator: httpx.AsyncClient, app: FastAPI
) -> None:
    operations = _operations(app.openapi())
    assert len(operations) > 20
    for method, path in operations:
        filled = path.replace("{", "").replace("}", "")
        response = await administrator.request(
            method, filled, content=DEEP[form], headers={"Content-Type": "application/json"}
        )
        assert 400 <= response.status_code < 500, f"{method} {path}: {response.status_code} {response.text[:300]}"
        assert len(response.content) < 20_000, f"{method} {path}: {len(response.content)} bytes"
