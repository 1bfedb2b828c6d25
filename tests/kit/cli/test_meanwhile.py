"""The messages of a waiting command on standard error; quick answers cause none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from app.core.clusters import cli as clusters
from app.edges.cli import doctor
from app.edges.embedded.doctor import DoctorFinding, DoctorVerdict
from app.kit.cli import meanwhile
from tests.support.waiting import wait_for

BROKERS: dict[str, object] = {"cluster_id": "k", "controller_id": 1, "brokers": [], "kafka_cluster_id": "k"}
COMMANDS = {
    "register": (["register", "far", "--bootstrap-servers", "h:1"], "still waiting for the brokers at h:1, 10 ms"),
    "probe": (["probe", "far"], "still waiting for the brokers of far, 10 ms"),
}


class Slow:
    """A server that answers at once, or after the first message."""

    def __init__(self, said: list[str], *, is_slow: bool) -> None:
        self._said, self._is_slow = said, is_slow

    def post(self, path: str, body: object = None) -> object:
        del path, body
        if self._is_slow:
            wait_for(lambda: bool(self._said), 30, "something being said")
        return BROKERS


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    echo = typer.echo

    def kept(sentence: str, *, err: bool) -> None:
        assert err
        found.append(sentence)
        echo(sentence, err=err)

    monkeypatch.setattr(meanwhile, "SAID_EVERY_S", 0.01)
    monkeypatch.setattr(meanwhile.typer, "echo", kept)
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_wait_for_brokers_is_reported_on_standard_error(
    said: list[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    arguments, sentence = COMMANDS[name]
    monkeypatch.setattr(clusters, "connect", lambda: Slow(said, is_slow=True))
    result = CliRunner().invoke(clusters.app, [*arguments, "--json"], catch_exceptions=False)
    assert said[0] == sentence
    assert sentence in result.stderr
    assert json.loads(result.stdout) == BROKERS


def test_quick_answers_cause_no_report(said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meanwhile, "SAID_EVERY_S", 60)
    monkeypatch.setattr(clusters, "connect", lambda: Slow(said, is_slow=False))
    result = CliRunner().invoke(clusters.app, ["probe", "far", "--json"], catch_exceptions=False)
    assert (said, result.stderr) == ([], "")


def test_doctor_says_that_it_waits(said: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def examine(*_: object) -> list[DoctorFinding]:
        wait_for(lambda: bool(said), 30, "something being said")
        return [DoctorFinding("Python", DoctorVerdict.FOUND, "3.12")]

    monkeypatch.setattr(doctor, "examine", examine)
    monkeypatch.setenv("FENCELINE_STATE_DIR", str(tmp_path))
    app = typer.Typer()
    app.command()(doctor.doctor)
    result = CliRunner().invoke(app, ["--json"], catch_exceptions=False)
    assert said[0] == "still waiting for the database and the Spark masters, 10 ms"
    assert json.loads(result.stdout)["ready"]
