"""What the demo asks its server while people take it away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from app.embedded.demo.server import DemoServer
from app.embedded.errors import EmbeddedError
from app.embedded.processes import ChildProcess


def _server(tmp_path: Path, answer: Callable[[httpx.Request], httpx.Response]) -> DemoServer:
    process = ChildProcess(name="none", argv=["none"], log_path=tmp_path / "server.log", env={}, cwd=tmp_path)
    client = httpx.Client(base_url="http://server/api/v1", transport=httpx.MockTransport(answer))
    return DemoServer(process, "http://server", None, client)


def _reset_after_a_freeze(asked: list[str]) -> Callable[[httpx.Request], httpx.Response]:
    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.method)
        if len(asked) == 1:
            raise httpx.ReadError("[Errno 104] Connection reset by peer", request=request)
        return httpx.Response(200, json={"items": []})

    return answer


def test_a_question_to_a_server_that_was_frozen_is_asked_again(tmp_path: Path) -> None:
    asked: list[str] = []
    assert _server(tmp_path, _reset_after_a_freeze(asked)).tasks("r") == []
    assert asked == ["GET", "GET"]


def test_an_order_whose_answer_is_not_known_is_not_given_twice(tmp_path: Path) -> None:
    asked: list[str] = []
    with pytest.raises(EmbeddedError, match="reset by peer"):
        _server(tmp_path, _reset_after_a_freeze(asked)).start_run("p")
    assert asked == ["POST"]
