"""Watching commands survive a server, or its database, that does not answer for a minute; others fail at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
from typer.testing import CliRunner

from app.core.runs import cli as runs
from app.kit.cli import output
from app.kit.cli.client import Client
from app.kit.cli.errors import CommandError, ExitCode
from app.kit.cli.watching import watching
from app.kit.patience import AWAY_S, Patience
from app.products.audits.cli import audits
from app.products.drills import cli as drills
from app.products.migrations import cli as migrations

Answer = Callable[[httpx.Request], httpx.Response]


def refused(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("[Errno 111] Connection refused", request=request)


def cut_off(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout("timed out", request=request)


def database_away(_: httpx.Request) -> httpx.Response:
    problem = {"status": 503, "detail": "the database does not answer"}
    return httpx.Response(503, json=problem)


def behind_a_proxy(_: httpx.Request) -> httpx.Response:
    return httpx.Response(502, text="<html>Bad Gateway</html>")


ABSENCES = (refused, cut_off, database_away, behind_a_proxy)


def client_of(tmp_path: Path, answers: Iterator[Answer]) -> Client:
    return Client(
        url="http://server",
        token="t",
        token_file=tmp_path / "token",
        transport=httpx.MockTransport(lambda request: next(answers)(request)),
    )


def saying(value: Any) -> Answer:
    return lambda _: httpx.Response(200, json=value)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Time passes by sleeping only."""
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(time, "sleep", sleep)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Patience.__init__, "__kwdefaults__", {**_DEFAULTS, "clock": lambda: now[0]})
    return now


_DEFAULTS: dict[str, Any] = dict(Patience.__init__.__kwdefaults__ or {})


@pytest.mark.parametrize("absence", ABSENCES)
def test_watching_commands_retry_for_more_than_a_minute(tmp_path: Path, clock: list[float], absence: Answer) -> None:
    answers = iter([absence] * 90 + [saying({"state": "running"})])
    with watching():
        assert client_of(tmp_path, answers).get("/runs/r") == {"state": "running"}
    assert clock[0] > 60


@pytest.mark.parametrize("absence", ABSENCES)
def test_other_commands_report_a_missing_server_at_once(tmp_path: Path, absence: Answer) -> None:
    with pytest.raises(CommandError):
        client_of(tmp_path, iter([absence, absence])).get("/runs/r")


def test_a_permanent_absence_is_reported(tmp_path: Path, clock: list[float]) -> None:
    with watching(), pytest.raises(CommandError, match="database does not answer") as raised:
        client_of(tmp_path, iter(lambda: database_away, None)).get("/runs/r")
    assert raised.value.code is ExitCode.UNREACHABLE
    assert AWAY_S <= clock[0] < AWAY_S + 5


def test_several_short_absences_are_no_long_one(tmp_path: Path, clock: list[float]) -> None:
    answers = iter(([refused] * 100 + [saying({})]) * 5)
    client = client_of(tmp_path, answers)
    with watching():
        for _ in range(5):
            client.get("/runs/r")
    assert clock[0] > AWAY_S


def test_a_wait_ends_at_its_own_limit_without_a_server(tmp_path: Path, clock: list[float]) -> None:
    with watching(deadline_s=20), pytest.raises(CommandError):
        client_of(tmp_path, iter(lambda: refused, None)).get("/runs/r")
    assert clock[0] <= 21


def test_a_refusal_is_an_answer(tmp_path: Path, clock: list[float]) -> None:
    def gone(_: httpx.Request) -> httpx.Response:
        return httpx.Response(404, json={"status": 404, "detail": "there is no run r"})

    with watching(), pytest.raises(CommandError, match="no run r"):
        client_of(tmp_path, iter([gone])).get("/runs/r")
    assert clock[0] == 0


R = "0b0b0b0b-0000-4000-8000-000000000000"
RUN = {"id": R, "pipeline": "p", "end_reason": None}
DRILL = {"id": R, "ended_at": None, "kind": "kill_instance", "sentence": ""}
STARTED = saying({**RUN, "state": "pending"})
COMMANDS: dict[str, tuple[Any, Any, list[str], list[Answer], Answer]] = {
    "runs start": (runs, runs.start, ["p", "--wait", "300"], [STARTED], saying({**RUN, "state": "running"})),
    "runs drain": (runs, runs.drain, [R, "--wait", "300"], [STARTED], saying({**RUN, "state": "stopped"})),
    "audit": (
        audits,
        audits.audit,
        ["p", "--wait", "300"],
        [saying({"id": R})],
        saying({"id": R, "state": "done", "verdict": "clean"}),
    ),
    "migrate resume": (
        migrations,
        migrations.resume,
        [R, "--wait"],
        [saying({"id": R, "state": "active"})],
        saying({"id": R, "state": "done"}),
    ),
    "drill kill": (
        drills,
        drills.kill,
        ["p", "--yes", "--wait"],
        [saying(DRILL)],
        saying({**DRILL, "ended_at": "2026-01-01T00:00:00Z", "verdict": "survived"}),
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("absence", ABSENCES)
def test_every_command_that_waits_outlives_a_minute_without_an_answer(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch, name: str, absence: Answer
) -> None:
    module, command, arguments, begun, ended = COMMANDS[name]
    client = client_of(tmp_path, iter([*begun, *[absence] * 75, ended]))
    monkeypatch.setattr(module, "connect", lambda: client)
    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert result.exit_code == 0
    assert clock[0] > 60


def test_refreshed_output_survives_an_absence(clock: list[float]) -> None:
    looks = iter([None, *[CommandError("no broker answers", code=ExitCode.UNREACHABLE)] * 90, None])
    left = [92]

    def render() -> str:
        left[0] -= 1
        error = next(looks)
        if error is not None:
            raise error
        return "a table"

    output.watch(render, until=lambda: left[0] == 0)
    assert clock[0] > 60


def test_a_refusal_ends_refreshed_output(clock: list[float]) -> None:
    looks = iter([None, CommandError("there is no run r", code=ExitCode.FAILED, status=404)])

    def render() -> str:
        error = next(looks)
        if error is not None:
            raise error
        return "a table"

    with pytest.raises(CommandError, match="no run r"):
        output.watch(render)
    assert clock[0] == 1


def task(state: str, error: str | None) -> Any:
    return {"last": {"ordinal": 0, "task": 0, "state": state, "last_error": error}}


@pytest.mark.parametrize("state", ["starting", "backing_off", "failed"])
def test_a_wait_for_a_start_ends_with_the_reason_why_a_task_does_not_join(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    error = "INCONSISTENT_GROUP_PROTOCOL: JoinGroup failed"

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/tasks"):
            return httpx.Response(200, json={"items": [task("running", None), task(state, error)]})
        return httpx.Response(200, json={**RUN, "state": "starting", "instances": []})

    client = client_of(tmp_path, iter(lambda: answer, None))
    monkeypatch.setattr(runs, "connect", lambda: client)
    with pytest.raises(CommandError, match=error):
        runs.start("p", wait=300)
    assert 15 <= clock[0] < 20


def test_a_wait_for_a_start_goes_on_while_nothing_is_wrong(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/tasks"):
            # An error that comes and goes is none that keeps it.
            return httpx.Response(200, json={"items": [task("starting", "away" if clock[0] % 10 < 5 else None)]})
        return httpx.Response(200, json={**RUN, "state": "starting" if clock[0] < 100 else "running", "instances": []})

    client = client_of(tmp_path, iter(lambda: answer, None))
    monkeypatch.setattr(runs, "connect", lambda: client)
    runs.start("p", wait=300)
    assert clock[0] >= 100
