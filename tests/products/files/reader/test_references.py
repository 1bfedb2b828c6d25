"""References of a topic in memory; test_on_a_broker.py reads real ones."""

from __future__ import annotations

import msgspec

from app.products.files.reader.references import (
    Located,
    ReferenceReading,
    ReferenceWindow,
    committed_references,
    references_between,
)
from tests.support.file_worlds import MemoryTopic, World, reference_to


def topic_of(*times_ms: int) -> MemoryTopic:
    """One reference at each time, `p/0`, `p/1`, …"""
    world = World()
    topic = MemoryTopic(world)
    for number, at_ms in enumerate(times_ms):
        world.now_ms = at_ms
        topic.write(number, reference_to(f"p/{number}"))
        topic.mark(number)
    return topic


def paths(found: list[Located]) -> list[str]:
    return [located.reference.path for located in found]


def test_what_is_committed_is_given_with_its_place() -> None:
    topic = topic_of(10, 20)
    topic.write(7, reference_to("p/aborted"))
    topic.mark(7, is_commit=False)
    topic.write(8, reference_to("p/open"))
    found = list(committed_references(topic))
    assert paths(found) == ["p/0", "p/1"]
    assert [located.place for located in found] == ["files-0@0", "files-0@2"]


def test_a_window_is_by_timestamps_which_need_not_be_in_order() -> None:
    topic = topic_of(10, 40, 20, 30, 15)
    assert paths(list(committed_references(topic, ReferenceWindow(from_ms=20)))) == ["p/1", "p/2", "p/3"]
    assert paths(list(committed_references(topic, ReferenceWindow(to_ms=20)))) == ["p/0", "p/4"]
    assert paths(list(committed_references(topic, ReferenceWindow(from_ms=15, to_ms=30)))) == ["p/2", "p/4"]
    assert paths(list(committed_references(topic, ReferenceWindow(from_ms=50)))) == []


def test_a_record_without_a_timestamp_is_in_no_window_but_the_whole() -> None:
    assert ReferenceWindow().has(None)
    assert not ReferenceWindow(from_ms=0).has(None)
    assert not ReferenceWindow(to_ms=99).has(None)


def test_a_path_that_is_referenced_twice_is_given_once_and_counted() -> None:
    topic = topic_of(10)
    topic.write(5, reference_to("p/0"))
    topic.mark(5)
    told: list[ReferenceReading] = []
    assert paths(list(committed_references(topic, heard=told.append))) == ["p/0"]
    assert told[-1].repeated == 1


def test_other_pipelines_and_other_records_are_passed_over_and_told_apart() -> None:
    topic = topic_of(10)
    for value in (reference_to("q/0", pipeline="other"), b"no reference", b'{"format": "fenceline.file/2"}', None):
        topic.write(5, value)
    topic.mark(5)
    told: list[ReferenceReading] = []
    assert paths(list(committed_references(topic, pipeline="flights", heard=told.append))) == ["p/0"]
    reading = told[-1]
    assert (reading.records, reading.references, reading.others) == (5, 1, 3)
    assert reading.other == "files-0@5: no value"
    assert (reading.passed, reading.expected) == (7, 7)


def test_a_topic_without_records_has_no_references() -> None:
    assert list(committed_references(MemoryTopic(World()))) == []


def test_what_was_deleted_is_passed_over() -> None:
    topic = topic_of(10, 20, 30)
    topic.delete_records(before=2)
    assert paths(list(committed_references(topic))) == ["p/1", "p/2"]
    assert paths(list(committed_references(topic, ReferenceWindow(from_ms=5)))) == ["p/1", "p/2"]


def test_a_topic_that_was_copied_into_another_gives_each_path_once() -> None:
    first, second, seen = topic_of(10, 20), topic_of(10, 20, 30), set[str]()
    told: list[ReferenceReading] = []
    assert paths(list(committed_references(first, seen=seen))) == ["p/0", "p/1"]
    assert paths(list(committed_references(second, seen=seen, heard=told.append))) == ["p/2"]
    assert told[-1].repeated == 2


def test_what_says_it_is_a_reference_and_is_none_that_is_known_is_told_apart() -> None:
    known = msgspec.to_builtins(reference_to("p/0"))
    topic, named = MemoryTopic(World()), list[tuple[str, str]]()
    del known["sha256"]
    values = [
        msgspec.json.encode(known),
        b'{"format": "other", "x": "fenceline.file/1"}',
        b"fenceline.file/1, no JSON",
        b'{"format": "fenceline.file/2", "path": "p/1"}',
    ]

    def note(path: str, place: str) -> None:
        named.append((path, place))

    def read() -> ReferenceReading:
        reading = ReferenceReading(topic=topic.name)
        assert list(references_between(topic, {0: 0}, topic.ends(), reading=reading, named=note)) == []
        return reading

    for number, value in enumerate(values[:3]):
        topic.write(number, value)
        topic.mark(number)
    assert (read().others, read().doubtful) == (3, "")
    assert set(named) == {("p/0", "files-0@0")}
    topic.write(3, values[3])
    topic.mark(3)
    assert read().doubtful == "files-0@6 (fenceline.file/2)"


def test_a_record_that_is_nested_too_deeply_does_not_end_the_reading() -> None:
    topic = topic_of(10)
    topic.write(5, b'{"other":' + b"[" * 100_000)
    topic.mark(5)
    told: list[ReferenceReading] = []
    assert paths(list(committed_references(topic, heard=told.append))) == ["p/0"]
    assert "nested too deeply" in told[-1].other
