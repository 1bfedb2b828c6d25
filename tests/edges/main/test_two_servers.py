"""Two servers of one database whose machines' clocks are ten minutes apart use the same time."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import pytest

from tests.support.faketime import shifted_environment
from tests.support.serving import Serving
from tests.support.topics import unique_name
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow
_APART_S = 600
_NEAR_S = 60


def _off_s(told: str) -> float:
    return abs((datetime.now(UTC) - datetime.fromisoformat(told)).total_seconds())


def test_servers_with_clocks_apart_order_what_they_do_alike(database_url: str, tmp_path: Path) -> None:
    settings = {"database_url": database_url}
    shifted = shifted_environment(-_APART_S)
    with Serving.start(tmp_path / "right", settings=settings) as right:
        right.wait_until_announced()
        with patch.dict(os.environ, shifted):
            starting = Serving.start(tmp_path / "late", settings=settings)
        with starting as late:
            late.wait_until_announced()
            # The control: its machine's clock is another.
            wait_for(lambda: f"{_APART_S}.0 s behind Postgres" in late.tail(), 60, lambda: late.tail())
            url = late.wait_until_serving()
            with right.client() as first, httpx.Client(base_url=url, headers=first.headers, trust_env=False) as second:
                _tell_one_time(first, second)


def _tell_one_time(first: httpx.Client, second: httpx.Client) -> None:
    names: list[str] = []
    for at, client in enumerate((first, second, first, second)):
        name = unique_name(f"server{at % 2}")
        made = client.post("/api/v1/tokens", json={"name": name, "role": "viewer"})
        assert made.status_code == 201, made.text
        names.append(name)
    for client in (first, second):
        tokens: list[dict[str, Any]] = client.get("/api/v1/tokens").json()["items"]
        created = {token["name"]: token["created_at"] for token in tokens if token["name"] in names}
        assert sorted(names, key=lambda name: created[name]) == names
        assert all(_off_s(told) < _NEAR_S for told in created.values()), created
        commands = client.get("/api/v1/commands").json()["items"]
        logged = [one["target"].removeprefix("token:") for one in commands if one["target"].startswith("token:server")]
        assert logged == names[::-1]
