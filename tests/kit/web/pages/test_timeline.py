"""Spans fill their lane until now, on one timeline for all lanes, with any clocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from app.kit.web.pages.timeline import MAX_LANES, Point, Timeline, Tone, Track, places, timeline_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def drawn(*tracks: Track) -> Timeline:
    found = timeline_of("what is to be seen", tracks, now=NOW)
    assert found is not None
    return found


def test_spans_follow_each_other_until_now() -> None:
    found = drawn(Track("id", [Point(ago(50), "7:1", "b"), Point(ago(100), "7:0", "a")], [Point(ago(50), "", "m")]))
    (lane,) = found.lanes
    assert [(bar.left, bar.width, bar.label) for bar in lane.bars] == [(0, 50, "7:0"), (50, 50, "7:1")]
    assert [bar.tone for bar in lane.bars] == [Tone.PLAIN, Tone.NEWEST]
    assert [(mark.left, mark.title) for mark in lane.marks] == [(50, "m")]
    assert found.since == ago(100)


def test_equal_times_have_equal_places_in_all_lanes() -> None:
    found = drawn(
        Track("group", [Point(ago(3_600), "17", ""), Point(ago(20), "18", "")]),
        Track("id", [Point(ago(20), "7:1", "")], [Point(ago(3_600), "", "")]),
    )
    group, one = found.lanes
    assert group.bars[1].left == one.bars[0].left
    assert one.marks[0].left == group.bars[0].left == 0


def test_a_long_gap_is_shortened_and_stays_the_longest() -> None:
    reached = places([0, 1_000, 1_000_000_000, 1_000_002_000])
    second, hours, two_seconds = (reached[1_000], reached[1_000_000_000] - reached[1_000], 100 - reached[1_000_000_000])
    assert second < two_seconds < hours < 4 * second


def test_a_span_that_is_too_narrow_has_no_label_and_still_its_title() -> None:
    found = drawn(Track("id", [Point(ago(100 - n / 1000), f"7:{n}", "b") for n in range(20)]))
    assert (found.lanes[0].bars[3].label, found.lanes[0].bars[3].title) == ("", "b")
    assert found.lanes[0].bars[-1].label == "7:19"


def test_a_clock_that_is_ahead_stays_on_the_line() -> None:
    found = drawn(Track("id", [Point(ago(100), "", ""), Point(ago(-30), "", "")], [Point(ago(-60), "", "")]))
    (lane,) = found.lanes
    assert all(0 <= bar.left <= 100 and bar.left + bar.width <= 100 for bar in lane.bars)
    assert lane.marks[0].left == 100


def test_a_span_that_begins_now_has_a_timeline() -> None:
    (bar,) = drawn(Track("id", [Point(NOW, "7:0", "a")])).lanes[0].bars
    assert (bar.left, bar.width) == (0, 0)


def test_earlier_marks_are_omitted_and_without_spans_there_is_no_timeline() -> None:
    found = drawn(Track("id", [Point(ago(10), "", "")], [Point(ago(20), "", "")]), Track("nothing", []))
    assert [lane.marks for lane in found.lanes] == [()]
    assert timeline_of("", [Track("id", [], [Point(NOW, "", "")])], now=NOW) is None


def test_lanes_that_are_too_many_are_counted() -> None:
    found = drawn(*(Track(f"{n}", [Point(ago(n), "", "")]) for n in range(MAX_LANES + 3)))
    assert (len(found.lanes), found.left_out) == (MAX_LANES, 3)
