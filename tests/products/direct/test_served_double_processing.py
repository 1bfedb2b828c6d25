"""`fenceline double-processing --cluster`: REST's answer, as JSON, as a table, and as an exit code."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
import typer

from app.core.double_processing.listing import OverlapList
from app.core.double_processing.overlap import SET_BACK
from app.core.double_processing.schemas import OverlapFindings
from app.core.journals.double_processing import OverlapGrade
from app.core.observing.live_cluster import LiveCluster
from app.kit.cli.errors import ExitCode
from app.products.direct import double_processing as command
from tests.products.direct.test_served import printed
from tests.support.double_samples import overlaps
from tests.support.observing import NOW_MS, cluster

NOW = datetime.fromtimestamp(NOW_MS / 1000, UTC)


def answer(*grades: OverlapGrade) -> dict[str, Any]:
    live: LiveCluster = cluster()
    found = OverlapList(
        items=tuple(one for one in overlaps() if one.grade in grades),
        counts=dict.fromkeys(OverlapGrade, 0) | dict.fromkeys(grades, 1),
        journal=live.snapshot(now_ms=NOW_MS).group_journal,
    )
    return OverlapFindings.of_list(found, now=NOW).model_dump(mode="json")


class Server:
    """Answers with these grades, and keeps the requests."""

    def __init__(self, *grades: OverlapGrade) -> None:
        self._grades = grades
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def get(self, path: str, **query: Any) -> dict[str, Any]:
        self.asked.append((path, query))
        return answer(*self._grades)


def run(monkeypatch: pytest.MonkeyPatch, server: Server, **options: Any) -> int:
    monkeypatch.setattr(command, "connect", lambda: server)
    try:
        command.double_processing(cluster="prod/eu", **options)
    except typer.Exit as ended:
        return ended.exit_code
    return 0


@pytest.mark.parametrize(
    ("grade", "code"),
    [
        (OverlapGrade.PROVED, ExitCode.FAILED),
        (OverlapGrade.LIKELY, ExitCode.FAILED),
        (OverlapGrade.POSSIBLE, 0),
        (OverlapGrade.INTENDED, 0),
    ],
)
def test_exit_code_is_1_for_problems_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], grade: OverlapGrade, code: int
) -> None:
    server = Server(grade)
    assert run(monkeypatch, server, group="billing", as_json=True) == code
    assert json.loads(capsys.readouterr().out) == answer(grade)
    assert server.asked == [("/clusters/prod%2Feu/double-processing", {"group": "billing"})]


def test_table_has_the_sentence_and_details_have_each_explanation_once() -> None:
    found = answer(*OverlapGrade)
    text = printed(command.rendered(found, is_detailed=False))
    assert "GROUP PARTITION GRADE TIME FINDING" in text
    assert "1 proved, 1 likely, 1 possible, 1 intended, from the server's reading of __consumer_offsets" in text
    assert SET_BACK not in text
    assert printed(command.rendered(found, is_detailed=True)).count(SET_BACK) == 1


def test_answer_without_findings_says_so() -> None:
    assert "No offset was processed twice, as far as the journal shows." in printed(
        command.rendered(answer(), is_detailed=True)
    )
