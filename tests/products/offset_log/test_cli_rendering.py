"""The output of `fenceline verify`."""

from __future__ import annotations

import io
from datetime import UTC, datetime

from rich.console import Console

from app.core.wire.offset_events import Event, Teller
from app.kit.web.api.shown import model_of
from app.products.offset_log.check import PipelineCheck, check
from app.products.offset_log.cli import rendered
from app.products.offset_log.heard import ReportedOffsets
from tests.support.offset_tellers import assigned, at, committed, given_up

NOW = datetime(2026, 11, 22, 5, tzinfo=UTC)


def heard(ordinal: int, *events: Event, is_over: bool = True) -> ReportedOffsets:
    return ReportedOffsets(
        group="g",
        topic="in",
        partition=0,
        teller=Teller(run=0, ordinal=ordinal, task=0, lease=1, attempt=2),
        run_id="r",
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
    second = heard(1, assigned(0, 2), at(1, began), committed(2, began, 20))
    return check([first, second], unheard=(), since=None, until=NOW)


def printed(found: PipelineCheck) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(rendered("flights", model_of(PipelineCheck).model_validate(found).model_dump(mode="json")))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_contradiction_is_printed_with_both_sides() -> None:
    text = printed(handed_over(began=15))
    assert "flights: contradicted once" in text
    assert "in-0  gap  offsets 10 to 14 were not committed, but later ones were" in text
    assert "committed from 0 up to 10" in text
    assert "began to read at 15: committed" in text
    assert "w0" in text
    assert "w1" in text


def test_contradictions_of_every_checkpoint_are_counted_and_not_all_shown() -> None:
    twice = [committed(2 + index, 5 * index, 5 * index + 10) for index in range(300)]
    found = check([heard(0, assigned(0, 1), at(1, 0), *twice)], unheard=(), since=None, until=NOW)
    assert (found.contradictions, len(found.findings)) == (299, 100)
    assert {found.findings[0].start, found.findings[-1].start} == {5, 5 * 299}
    text = printed(found)
    assert "contradicted 299 times" in text
    assert "and 199 more" in text


def test_unverifiable_gap_is_not_printed_as_consistent() -> None:
    text = printed(handed_over(began=15, is_over=False))
    assert "cannot be verified" in text
    assert "cannot be verified: in-0: offsets 10 to 14" in text


def test_range_without_events_is_not_printed_as_consistent() -> None:
    text = printed(check([], unheard=(), since=None, until=NOW))
    assert "flights has no offset events in this range" in text
    assert "consistent" not in text


def test_consistent_log_is_printed_with_figures() -> None:
    text = printed(handed_over(began=10))
    assert "flights: consistent: no contradiction, no missing events" in text
    assert "1 partition, 2 checkpoints committed" in text
