"""Spans fill the line until now, whatever the clocks say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from app.web.pages.frame.timeline import Point, timeline_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def test_spans_follow_each_other_until_now() -> None:
    found = timeline_of([Point(ago(50), "7:1", "b"), Point(ago(100), "7:0", "a")], [Point(ago(25), "", "m")], now=NOW)
    assert found is not None
    assert [(bar.left, bar.width, bar.label) for bar in found.bars] == [(0, 50, "7:0"), (50, 50, "7:1")]
    assert [(mark.left, mark.title) for mark in found.marks] == [(75, "m")]
    assert found.since == ago(100)


def test_a_span_that_is_too_narrow_has_no_label_and_still_its_title() -> None:
    found = timeline_of([Point(ago(100), "7:0", "a"), Point(ago(5), "7:1", "b")], [], now=NOW)
    assert found is not None
    assert (found.bars[1].label, found.bars[1].title) == ("", "b")


def test_a_clock_that_is_ahead_stays_on_the_line() -> None:
    found = timeline_of([Point(ago(100), "", ""), Point(ago(-30), "", "")], [Point(ago(-60), "", "")], now=NOW)
    assert found is not None
    assert all(0 <= bar.left <= 100 and bar.left + bar.width <= 100 for bar in found.bars)
    assert found.marks[0].left == 100


def test_what_begins_now_has_a_line() -> None:
    found = timeline_of([Point(NOW, "7:0", "a")], [], now=NOW)
    assert found is not None
    assert (found.bars[0].left, found.bars[0].width) == (0, 0)


def test_what_was_before_the_line_is_not_on_it_and_nothing_has_no_line() -> None:
    found = timeline_of([Point(ago(10), "", "")], [Point(ago(20), "", "")], now=NOW)
    assert found is not None
    assert found.marks == ()
    assert timeline_of([], [Point(NOW, "", "")], now=NOW) is None
