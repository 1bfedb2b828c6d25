"""How far a sink topic is read: where it goes on, when it begins again, and what is said of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from app.products.files.reading import (
    LEFT_AFTER,
    STALE_AFTER,
    FileWatchState,
    LogPlace,
    TopicReading,
    asked_offset,
    behind_of,
    is_whole,
    moved,
    notes_of,
    read_now,
    standing_sentence,
    topics_to_read,
)
from tests.support.written_files import message, portion, written

NOW = written().seen_at
PLACE = LogPlace("cluster", "out", "id-1")


def reading(**fields: Any) -> TopicReading:
    return replace(moved(None, portion(message(0), message(1)), place=PLACE, now=NOW), **fields)


def test_first_reading_says_from_where_it_began() -> None:
    begun = moved(None, portion(message(7)), place=PLACE, now=NOW)
    assert (begun.begun_offset, begun.next_offset, begun.begun_again) == (7, 9, "")
    assert any("from offset 7 on" in note for note in notes_of([begun], None))


def test_next_portion_goes_on_and_keeps_since_when() -> None:
    later = NOW + timedelta(seconds=9)
    known = reading()
    assert asked_offset(known, "id-1") == 3
    after = moved(known, portion(message(3)), place=PLACE, now=later)
    assert (after.next_offset, after.begun_at, after.moved_at) == (5, NOW, later)


def test_look_that_brings_nothing_changes_nothing() -> None:
    known = reading()
    assert moved(known, portion(start=3), place=PLACE, now=NOW + timedelta(hours=1)) == known


def test_end_that_was_not_told_stays_as_it_was_told() -> None:
    known = reading(end_offset=9)
    after = moved(known, portion(message(3), end_offset=None), place=PLACE, now=NOW)
    assert (after.end_offset, after.behind) == (9, 4)


def test_topic_made_anew_is_begun_again_and_says_so() -> None:
    """Though the old position may be in the new one's log: it is another message's."""
    known = reading()
    assert asked_offset(known, "id-2") == 0
    after = moved(known, portion(message(0)), place=PLACE._replace(topic_id="id-2"), now=NOW)
    assert (after.topic_id, after.next_offset) == ("id-2", 2)
    assert "recreated" in after.begun_again


def test_log_that_ends_before_where_it_was_read_is_begun_again() -> None:
    after = moved(reading(next_offset=500), portion(start=0), place=PLACE, now=NOW)
    assert after.next_offset == 0
    assert "ends before the read offset 500" in after.begun_again


def test_what_was_deleted_unread_is_counted_and_said() -> None:
    known = reading()
    after = moved(known, portion(start=103), place=PLACE, now=NOW)
    assert (after.unread_offsets, after.next_offset, after.begun_again) == (100, 103, "")
    again = moved(after, portion(start=110), place=PLACE, now=NOW)
    assert again.unread_offsets == 107
    assert any("107 offsets of out-0 were deleted" in note for note in notes_of([again], None))


def test_former_sink_topic_is_read_on_until_nothing_has_come_for_a_day() -> None:
    former = reading(topic="before")
    elsewhere = reading(topic="elsewhere", kafka_cluster_id="another")
    known = [former, reading(), elsewhere]
    soon, late = NOW + timedelta(hours=1), NOW + LEFT_AFTER
    assert topics_to_read("out", "cluster", known, now=soon) == ["out", "before"]
    assert topics_to_read("out", "cluster", known, now=late) == ["out"]
    assert read_now(known, "out", "cluster", now=late) == (reading(),)


def test_what_is_behind_is_not_known_as_long_as_it_is_not_of_one_partition() -> None:
    assert behind_of([reading(end_offset=5), reading(end_offset=3)]) == 2
    assert behind_of([reading(end_offset=5), reading(end_offset=None)]) is None
    assert behind_of([]) is None


def test_only_an_answer_of_just_now_with_nothing_to_come_is_whole() -> None:
    fresh = FileWatchState(since=NOW, looked_at=NOW)
    done = [reading(end_offset=3)]
    assert is_whole(fresh, done, now=NOW)
    for watch, readings, now in (
        (None, done, NOW),
        (FileWatchState(since=NOW), done, NOW),
        (replace(fresh, problem="no broker answers"), done, NOW),
        (fresh, done, NOW + STALE_AFTER + timedelta(seconds=1)),
        (fresh, [reading(end_offset=4)], NOW),
        (fresh, [reading(end_offset=None)], NOW),
        (fresh, [], NOW),
    ):
        assert not is_whole(watch, readings, now=now)
        assert "Every reference" not in standing_sentence(watch, readings, now=now)
    assert "Every reference" in standing_sentence(fresh, done, now=NOW)


def test_sentence_names_the_problem_and_how_much_is_to_come() -> None:
    fresh = FileWatchState(since=NOW, looked_at=NOW)
    assert "no broker answers" in standing_sentence(replace(fresh, problem="no broker answers"), [], now=NOW)
    assert "1,000 offsets" in standing_sentence(fresh, [reading(end_offset=1003)], now=NOW)


def test_notes_tell_what_is_no_file() -> None:
    watch = FileWatchState(
        since=NOW,
        strangers=3,
        stranger="out-0 at offset 4: no JSON",
        of_others=2,
        repeated=1,
        repetition="The newest: x.",
    )
    notes = " ".join(notes_of([], watch))
    for words in ("no references: 3", "out-0 at offset 4", "other pipelines: 2", "earlier one names: 1"):
        assert words in notes
