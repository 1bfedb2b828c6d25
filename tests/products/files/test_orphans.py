"""What the collector may conclude of one file."""

from __future__ import annotations

from typing import Any

import pytest

from app.core.pipelines.file_partitions import FilePartitions
from app.core.pipelines.pipeline import ByDate, ByField, FileSink, PipelineDefinition
from app.products.files.orphans import (
    KnownSince,
    LogBegin,
    Margin,
    OrphanStanding,
    Stored,
    form_of,
    judge,
    known_since,
    margin_of,
)

MARGIN = Margin(rotation_ms=30_000, upload_ms=60_000, standstill_ms=300_000, transaction_ms=900_000)
HEX = "0123456789abcdef0123456789abcdef"
NOW_MS = 10_000_000_000
ALWAYS = KnownSince(at_ms=0, why="")
NEVER = KnownSince(at_ms=None, why="")


def standing_of(path: str, *, age_ms: int, since: KnownSince = ALWAYS) -> OrphanStanding:
    stored = Stored(path=path, size_bytes=1, modified_ms=NOW_MS - age_ms)
    return judge(stored, form=form_of("flights"), now_ms=NOW_MS, margin=MARGIN, since=since)


def test_the_margin_is_the_sum_of_its_named_parts() -> None:
    assert MARGIN.total_ms == 30_000 + 60_000 + 300_000 + 900_000 + 300_000
    assert "1590 s: rotation 30, uploads 60" in MARGIN.sentence


def test_the_margin_is_that_of_the_slowest_revision() -> None:
    def definition(files: FileSink | None, **options: Any) -> PipelineDefinition:
        return PipelineDefinition(
            cluster="c", source_topics=("in",), group_id="g", sink_topic="files", files=files, **options
        )

    revisions = [
        definition(FileSink(root="file:///lake", rotate_ms=60_000)),
        definition(
            FileSink(root="file:///lake", upload_timeout_ms=90_000),
            consumer_overrides={"max.poll.interval.ms": "400000"},
        ),
        definition(None, consumer_overrides={"max.poll.interval.ms": "900000"}),
    ]
    margin = margin_of(revisions, transaction_max_timeout_ms=900_000)
    assert margin == Margin(rotation_ms=60_000, upload_ms=90_000, standstill_ms=400_000, transaction_ms=900_000)
    with pytest.raises(ValueError, match=r".+"):
        margin_of([definition(None)], transaction_max_timeout_ms=1)


def test_a_file_is_an_orphan_when_its_margin_has_passed_and_not_before() -> None:
    path = f"flights/user=7/day=2013-01-31/{HEX}.avro"
    assert standing_of(path, age_ms=MARGIN.total_ms - 1) is OrphanStanding.TOO_YOUNG
    assert standing_of(path, age_ms=MARGIN.total_ms) is OrphanStanding.ORPHAN


def test_what_is_older_than_the_references_is_unknown() -> None:
    path = f"flights/{HEX}.avro"
    since = KnownSince(at_ms=NOW_MS - 2_000_000, why="")
    assert standing_of(path, age_ms=2_000_001, since=since) is OrphanStanding.UNKNOWN
    assert standing_of(path, age_ms=2_000_000, since=since) is OrphanStanding.ORPHAN
    assert standing_of(path, age_ms=2_000_000, since=NEVER) is OrphanStanding.UNKNOWN


def test_what_never_got_its_name_needs_no_references() -> None:
    path = f"flights/day=1/.{HEX}.avro.01234567.part"
    assert standing_of(path, age_ms=MARGIN.total_ms, since=NEVER) is OrphanStanding.ORPHAN
    assert standing_of(path, age_ms=0, since=NEVER) is OrphanStanding.TOO_YOUNG


@pytest.mark.parametrize("user", ["", "anna", "1=2", None, "\n/../ñ", "x" * 500])
def test_every_path_that_a_sink_gives_is_ours(user: str | None) -> None:
    partitions = FilePartitions([ByField(name="user", field="user"), ByDate(name="day")], event_time=None)
    folder = partitions.folder(partitions.values({"user": user}, NOW_MS))
    assert standing_of(f"flights/{folder}/{HEX}.avro", age_ms=MARGIN.total_ms) is OrphanStanding.ORPHAN


@pytest.mark.parametrize(
    "path",
    [
        f"flights2/day=1/{HEX}.avro",
        f"other/flights/day=1/{HEX}.avro",
        f"flights/day/{HEX}.avro",
        f"flights/=1/{HEX}.avro",
        f"flights/day=1/{HEX}.avro.bak",
        f"flights/day=1/{HEX.upper()}.avro",
        f"flights/day=1/{HEX[1:]}.avro",
        f"flights/day=1/../{HEX}.avro",
        "flights/day=1/part-00000.avro",
        f"flights/day=1/{HEX}.avro\n",
        f"flights/day=1/.{HEX}.avro.part",
    ],
)
def test_a_name_that_no_sink_of_this_pipeline_gives_is_not_ours(path: str) -> None:
    assert standing_of(path, age_ms=1_000 * MARGIN.total_ms) is OrphanStanding.NOT_OURS


def begin(start: int, first_ms: int | None, *, partition: int = 0, topic: str = "files") -> LogBegin:
    return LogBegin(topic=topic, partition=partition, start_offset=start, first_reference_ms=first_ms)


def since_of(*begins: LogBegin, created_ms: int = 0, is_first_incarnation: bool = True) -> KnownSince:
    return known_since(begins, created_ms=created_ms, margin=MARGIN, is_first_incarnation=is_first_incarnation)


def test_a_log_from_its_beginning_knows_all_since_the_pipeline_was_made() -> None:
    assert since_of(begin(0, 5_000), begin(0, None, partition=1), created_ms=77).at_ms == 77 + MARGIN.clocks_ms


def test_a_log_that_lost_its_beginning_knows_what_came_a_margin_after_its_first_reference() -> None:
    since = since_of(begin(0, 5_000), begin(9, 6_000, partition=1), begin(3, 4_000, partition=2))
    assert since.at_ms == 6_000 + MARGIN.total_ms
    assert "files-1 begins at offset 9" in since.why


def test_a_log_that_lost_all_its_references_knows_nothing() -> None:
    since = since_of(begin(9, None), begin(4, 5_000, partition=1))
    assert since.at_ms is None
    assert "files-0 begins at offset 9" in since.why


def test_a_topic_that_may_have_been_made_anew_knows_nothing_before_its_first_reference() -> None:
    begins = (begin(0, 50_000), begin(0, 40_000, partition=1), begin(0, None, partition=2))
    assert since_of(*begins, is_first_incarnation=False).at_ms == 40_000 + MARGIN.clocks_ms
    assert since_of(begin(0, None), is_first_incarnation=False).at_ms is None


def test_of_several_topics_the_one_that_knows_least_decides() -> None:
    """A pipeline whose sink topic was changed has references in both."""
    old, new = begin(0, 1_000, topic="old"), begin(7, 9_000, topic="new")
    assert since_of(old, new).at_ms == 9_000 + MARGIN.total_ms
    assert since_of(old, begin(7, None, topic="new")).at_ms is None
