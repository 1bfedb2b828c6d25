"""The report of a standalone master, from its page."""

from __future__ import annotations

import json
from collections.abc import Generator

import pytest

from app.core.allow_lists.spark_master import parse
from app.core.runs.observation import MasterWord
from app.edges.spark import master_state
from tests.support.worker_listener import WorkerListener

NAMED = "spark://127.0.0.1:7077"


@pytest.fixture
def page() -> Generator[WorkerListener]:
    listener = WorkerListener()
    yield listener
    listener.close()


def word(page: WorkerListener, *, application_id: str | None = "app-1") -> MasterWord:
    return master_state.word(
        parse(NAMED), named=NAMED, web_urls={NAMED: page.url}, application_id=application_id, name="fenceline r-0-1"
    )


def says(page: WorkerListener, *, status: str = "ALIVE", active: str = "", completed: str = "") -> None:
    def application(state: str) -> list[dict[str, str]]:
        return [{"id": "app-1", "name": "fenceline r-0-1", "state": state}] if state else []

    state = {
        "status": status,
        "activeapps": application(active),
        "completedapps": application(completed),
        "workers": [],
    }
    page.answer_with("/json/", json.dumps(state).encode())


@pytest.mark.parametrize(
    ("active", "completed", "expected"),
    [
        ("RUNNING", "", MasterWord.RUNNING),
        ("WAITING", "", MasterWord.RUNNING),
        ("UNKNOWN", "", MasterWord.RUNNING),
        ("FINISHED", "", MasterWord.FINISHED),
        ("", "FINISHED", MasterWord.FINISHED),
        ("", "KILLED", MasterWord.FINISHED),
        ("", "", MasterWord.UNKNOWN),
    ],
)
def test_a_master_that_is_alive_says(page: WorkerListener, active: str, completed: str, expected: MasterWord) -> None:
    says(page, active=active, completed=completed)
    assert word(page) is expected
    assert word(page, application_id=None) is expected, "before the claim it is known by its name"
    assert word(page, application_id="app-2") is MasterWord.UNKNOWN


@pytest.mark.parametrize("status", ["STANDBY", "RECOVERING", "COMPLETING_RECOVERY"])
def test_a_master_that_is_not_the_leader_or_still_recovers_says_nothing(page: WorkerListener, status: str) -> None:
    says(page, status=status)
    assert word(page) is MasterWord.UNREACHABLE


@pytest.mark.parametrize("answer", [b"", b"<html>", b"{}", b'{"status": 3}'])
def test_a_page_that_is_none_says_nothing(page: WorkerListener, answer: bytes) -> None:
    page.answer_with("/json/", answer)
    assert word(page) is MasterWord.UNREACHABLE


def test_an_absent_master_says_nothing(page: WorkerListener) -> None:
    page.close()
    assert word(page) is MasterWord.UNREACHABLE
