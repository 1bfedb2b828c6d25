"""The demo's requests while its server does not answer."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path

import httpx
import pytest

from app.edges.embedded.errors import EmbeddedError
from app.edges.embedded.processes import ChildProcess
from app.kit.patience import AWAY_S, Patience
from app.products.demo.server import LONGEST_DRILL_S, DemoServer
from app.products.drills.drill import LONGEST_S


class Living(ChildProcess):
    """A server with prepared answers."""

    @property
    def is_running(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.products.demo.server.ASK_AGAIN_AFTER_S", 0)


def _server(
    tmp_path: Path, answer: Callable[[httpx.Request], httpx.Response], *, kind: type[ChildProcess] = Living
) -> DemoServer:
    process = kind(name="none", argv=["none"], log_path=tmp_path / "server.log", env={}, cwd=tmp_path)
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


def test_an_order_whose_answer_is_not_known_is_repeated_under_the_same_key(tmp_path: Path) -> None:
    keys: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["Idempotency-Key"])
        if len(keys) == 1:
            raise httpx.ReadError("reset by peer", request=request)
        return httpx.Response(200, json={"id": "r", "state": "pending"})

    assert _server(tmp_path, answer).start_run("p").id == "r"
    assert len(keys) == 2
    assert keys[0] == keys[1]


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_database_that_is_away_does_not_end_the_demo(tmp_path: Path, status: int) -> None:
    """It did: Postgres was slow for six seconds, one request was answered 503, and everything was stopped."""
    answers = [status] * 60 + [200]
    server = _server(tmp_path, lambda _: httpx.Response(answers.pop(0), json={"items": [], "detail": "away"}))
    assert server.tasks("r") == []


def test_a_permanently_absent_server_ends_the_demo_with_its_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(0, 10)
    monkeypatch.setattr("app.products.demo.server.Patience", partial(Patience, clock=lambda: next(clock)))
    with pytest.raises(EmbeddedError, match="refused \\(503\\)"):
        _server(tmp_path, lambda _: httpx.Response(503, json={"detail": "the database is away"})).tasks("r")
    assert next(clock) >= AWAY_S


@pytest.mark.parametrize("status", [400, 404, 409, 500])
def test_a_refusal_is_no_absence(tmp_path: Path, status: int) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.method)
        return httpx.Response(status, json={"detail": "no"})

    with pytest.raises(EmbeddedError, match=str(status)):
        _server(tmp_path, answer).tasks("r")
    assert len(asked) == 1


def test_a_server_that_has_ended_is_not_waited_for(tmp_path: Path) -> None:
    asked: list[str] = []
    server = _server(tmp_path, _reset_after_a_freeze(asked), kind=ChildProcess)
    with pytest.raises(EmbeddedError, match="reset by peer"):
        server.tasks("r")
    assert asked == ["GET"]


def test_a_pipeline_never_started_has_no_run(tmp_path: Path) -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url.query, "ascii"))
        return httpx.Response(200, json={"items": []})

    assert _server(tmp_path, answer).latest_run("flights-by-day") is None
    assert asked == ["pipeline=flights-by-day&limit=1"]


def test_runs_that_end_together_are_all_asked_before_one_is_waited_for(tmp_path: Path) -> None:
    ordered: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        run = request.url.path.split("/")[4]
        if request.method == "POST":
            ordered.append(request.url.path.removeprefix("/api/v1/runs/"))
        state = "stopped" if run == "ended" or len(ordered) == 2 else "running"
        return httpx.Response(200, json={"id": run, "state": state})

    ended = _server(tmp_path, answer).end_runs(["a", "ended", "b"], "drain", timeout_s=60)
    assert [(run.id, run.state) for run in ended] == [(name, "stopped") for name in ("a", "ended", "b")]
    assert ordered == ["a/drain", "b/drain"]


def test_a_run_that_does_not_end_in_time_is_named_by_its_state(tmp_path: Path) -> None:
    server = _server(tmp_path, lambda _: httpx.Response(200, json={"id": "a", "state": "draining"}))
    with pytest.raises(EmbeddedError, match="the run is still draining 0 s after its drain"):
        server.end_run("a", "drain", timeout_s=0)


def test_requests_outlast_the_longest_drill_of_the_server() -> None:
    assert LONGEST_DRILL_S >= LONGEST_S
