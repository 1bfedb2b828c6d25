"""The HTML of a pipeline's offset log, and of its section on the pipeline's page."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from app.core.overview.product_views import Panel
from app.core.wire.offset_events import Event, Teller
from app.kit.web.pages import screen
from app.products.offset_log.check import PipelineCheck, check
from app.products.offset_log.heard import ReportedOffsets
from app.products.offset_log.record import CheckRecord, FindingRecord
from app.products.offset_log.service import OffsetLog
from app.products.offset_log.verdict import OffsetLogStanding
from tests.edges.main.pages.test_rendering import pipeline_page
from tests.support import page_samples as samples
from tests.support.offset_tellers import assigned, at, committed, given_up

NOW = datetime(2026, 11, 22, 5, tzinfo=UTC)
SPANS = ((1, "last hour"), (24, "last day"))


def heard(ordinal: int, *events: Event, is_over: bool) -> ReportedOffsets:
    return ReportedOffsets(
        group="g",
        topic="in",
        partition=0,
        teller=Teller(run=0, ordinal=ordinal, task=0, lease=1, attempt=2),
        run_id=f"0000000{ordinal}-0000-0000-0000-000000000000",
        host=f"w{ordinal}",
        events=events,
        recorded=len(events),
        is_open=False,
        is_over=is_over,
        complete_at=None,
        newest_at=NOW,
    )


def handed_over(*, began: int, is_over: bool = True) -> PipelineCheck:
    first = heard(0, assigned(0, 1), at(1, 0), committed(2, 0, 10), given_up(3), is_over=is_over)
    second = heard(1, assigned(0, 2), at(1, began), committed(2, began, 20), is_over=is_over)
    return check([first, second], unheard=(), since=NOW - timedelta(hours=1), until=NOW)


def log_of(found: PipelineCheck) -> OffsetLog:
    assert found.standing is not None
    last = CheckRecord(
        checked_at=NOW,
        since=found.since,
        standing=found.standing,
        figures=found.figures,
        partitions={found.standing: 1},
        doubts=found.doubts,
    )
    kept = tuple(FindingRecord(id=str(n), found_at=NOW, finding=one) for n, one in enumerate(found.findings))
    return OffsetLog(last=last, findings=kept)


def page(log: OffsetLog | None, found: PipelineCheck | None = None) -> str:
    context: dict[str, Any] = {
        "name": "flights",
        "log": log,
        "check": found,
        "asked": None if found is None else 1,
        "spans": SPANS,
        "links": (),
        "now": NOW,
    }
    return screen.render("pipelines/_offsets", context)


def test_contradiction_is_shown_with_both_sides() -> None:
    found = handed_over(began=15)
    for html in (page(log_of(found)), page(OffsetLog(last=None, findings=()), found)):
        assert "offsets 10 to 14 were not committed" in html
        assert "w0" in html
        assert "w1" in html
        assert "committed from 0 up to 10" in html
        assert "began to read at 15" in html
        assert '<span class="pill bad">contradicted</span>' in html


def test_kept_and_checked_contradiction_have_two_ids_on_the_page() -> None:
    found = handed_over(began=15)
    ids = re.findall(r' id="([^"]+)"', page(log_of(found), found))
    assert len(ids) == len(set(ids)) > 2


def test_section_of_the_pipelines_page_shows_the_newest_contradiction() -> None:
    panel = Panel(template="components/offset_log_panel.html", content=log_of(handed_over(began=15)))
    view = msgspec.structs.replace(samples.pipeline_view(samples.run()), panels=(panel,))
    html = pipeline_page(samples.run(), view=view)
    assert "1 contradiction," in html
    assert "offsets 10 to 14 were not committed" in html
    assert "/pipelines/delayed-flights/offsets" in html


@pytest.mark.parametrize(
    ("log", "word"),
    [
        (None, "at_least_once"),
        (OffsetLog(last=None, findings=()), "no events"),
        (log_of(handed_over(began=10)), "consistent"),
        (log_of(handed_over(began=15, is_over=False)), "cannot be verified"),
    ],
)
def test_unknown_status_is_not_shown_as_consistent(log: OffsetLog | None, word: str) -> None:
    html = page(log)
    assert word in html
    is_consistent = log is not None and log.last is not None and log.last.standing is OffsetLogStanding.CONSISTENT
    assert ('<span class="pill good">' in html) is is_consistent
