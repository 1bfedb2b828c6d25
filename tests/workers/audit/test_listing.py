"""Before files are read: each is one task's, and of the source all is read that they are made of."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.wire.file_references import FileReference, InputRange
from app.products.audits.result import AuditSide, Gap, GapReason, RangeRead
from app.products.audits.specification import AuditBounds
from tests.support.audited_files import a_file_specification, reference_message, write_ids
from workers.audit.listing import FilesListed, list_files, with_files
from workers.audit.references import ReferenceScope
from workers.audit.splits import FileWork, Split, SplitPlan, splits_of, splits_of_references

ALL = ReferenceScope(window={}, late_from={})
SOURCE = RangeRead(side=AuditSide.SOURCE, topic="in", partition=0, read_start=400, start=500, end=600, read_end=700)
REFERENCES = RangeRead(side=AuditSide.SINK, topic="out", partition=0, read_start=10, start=20, end=30, read_end=50)


def a_split(start: int, end: int) -> Split:
    return Split(
        number=1,
        side=AuditSide.SINK,
        topic="out",
        partition=0,
        start=start,
        end=end,
        window_start=start,
        window_end=end,
        is_of_files=True,
    )


def listed(root: Path, references: list[FileReference | bytes | None], *, scope: ReferenceScope = ALL) -> FilesListed:
    bounds = AuditBounds(offsets_per_task=100, files_per_task=3)
    messages = [reference_message(one, offset) for offset, one in enumerate(references, start=10)]
    split = a_split(10, 10 + len(references))
    return list_files(a_file_specification(root, bounds=bounds), scope, split, [messages[:2], messages[2:]])


@pytest.fixture(scope="module")
def some(tmp_path_factory: pytest.TempPathFactory) -> FileReference:
    return write_ids(tmp_path_factory.mktemp("files"), 1, ["a"])


def of_records(some: FileReference, records: int, *inputs: tuple[int, int]) -> FileReference:
    spans = tuple(InputRange(topic="in", partition=0, first_offset=a, last_offset=b) for a, b in inputs)
    return msgspec.structs.replace(some, records=records, inputs=spans)


@given(sizes=st.lists(st.integers(0, 250), max_size=30))
def test_pieces_cover_every_reference_once_and_hold_no_more_than_a_task_reads(
    sizes: list[int], some: FileReference
) -> None:
    found = listed(Path("/data"), [of_records(some, size) for size in sizes])
    offsets = [offset for start, end in found.pieces for offset in range(start, end)]
    assert offsets == list(range(10, 10 + len(sizes)))
    assert found.records == sum(sizes)
    for start, end in found.pieces:
        held = sizes[start - 10 : end - 10]
        assert len(held) <= 3
        assert sum(held) <= 100 or len(held) == 1, "only a single file may hold more"


def test_other_records_stay_in_a_piece_and_other_pipelines_files_count_for_nothing(some: FileReference) -> None:
    other = msgspec.structs.replace(some, pipeline="another", records=1_000_000)
    found = listed(Path("/data"), [of_records(some, 5, (7, 9)), b"{}", None, other, of_records(some, 6, (3, 4))])
    assert found.pieces == [(10, 15)]
    assert found.records == 11
    assert found.inputs == {"in-0": (3, 9)}


def test_behind_the_padding_only_references_to_inputs_of_the_window_are_read(some: FileReference) -> None:
    scope = ReferenceScope(window={"in-0": (500, 600), "in-1": (0, 0)}, late_from={"out-0": 12})
    late = [of_records(some, 1, (599, 640)), of_records(some, 2, (600, 700)), of_records(some, 4, (450, 499))]
    early = [of_records(some, 8, (0, 1)), of_records(some, 16, (0, 1))]
    found = listed(Path("/data"), [*early, *late], scope=scope)
    assert found.records == 8 + 16 + 1
    elsewhere = msgspec.structs.replace(
        some, inputs=(InputRange(topic="in", partition=1, first_offset=0, last_offset=9),)
    )
    assert not scope.names_window(elsewhere)


def plan(*, limits: tuple[int, int] = (0, 1_000)) -> SplitPlan:
    files = FileWork(numbers=frozenset({1}), scope=ALL, limits={"in-0": limits})
    return SplitPlan(ranges=(SOURCE, REFERENCES), files=files)


def reaching(first: int, last: int, *, limits: tuple[int, int] = (0, 1_000)) -> SplitPlan:
    before = plan(limits=limits)
    assert before.files is not None
    one = FilesListed(number=1, pieces=[(10, 40), (40, 50)], records=70, inputs={"in-0": (first, last)})
    return with_files(before, before.files, [one, FilesListed(number=1, inputs={"in-0": (550, 560)})])


def test_the_source_is_read_as_far_as_the_files_reach() -> None:
    assert reaching(550, 560).ranges == (SOURCE, REFERENCES)
    reached = reaching(120, 810)
    assert (reached.ranges[0].read_start, reached.ranges[0].read_end) == (120, 811)
    assert (reached.ranges[0].start, reached.ranges[0].end) == (500, 600), "what is judged stays the same"
    assert reached.gaps == ()
    assert reached.offsets == (811 - 120) + 40 + 70


def test_deleted_inputs_of_files_are_a_gap() -> None:
    reached = reaching(120, 1_500, limits=(300, 1_000))
    assert (reached.ranges[0].read_start, reached.ranges[0].read_end) == (300, 1_000)
    assert [(gap.side, gap.reason, gap.end) for gap in reached.gaps] == [(AuditSide.SOURCE, GapReason.DELETED, 300)]


def test_a_topic_that_begins_within_the_inputs_of_files_may_have_been_recreated() -> None:
    assert [gap.reason for gap in reaching(0, 560).suspicions] == [GapReason.BEGINS]
    assert reaching(1, 560).suspicions == ()


def test_once_files_have_inputs_behind_the_window_later_references_are_not_missed(some: FileReference) -> None:
    later = Gap(side=AuditSide.SINK, topic="out", partition=None, reason=GapReason.TIME_OF_WRITING, sentence="not read")
    scope = ReferenceScope(window={"in-0": (500, 600), "in-1": (7, 7)}, late_from={"out-0": 0})
    files = FileWork(numbers=frozenset({1}), scope=scope, limits={"in-0": (0, 1_000)})
    before = SplitPlan(ranges=(SOURCE, REFERENCES), files=files, suspicions=(later,))

    def left(*spans: tuple[int, int]) -> tuple[Gap, ...]:
        found = listed(Path("/data"), [of_records(some, 1, span) for span in spans], scope=scope)
        return with_files(before, files, [found]).suspicions

    assert left((550, 599)) == (later,)
    assert left((550, 599), (600, 600)) == ()
    assert left() == (later,)


def test_references_are_split_twice_to_be_listed_and_to_be_followed() -> None:
    reached = reaching(550, 560)
    looked_at = list(splits_of_references(reached, references_per_task=15))
    assert [(split.start, split.end) for split in looked_at] == [(10, 24), (24, 38), (38, 50)]
    followed = [split for split in splits_of(reached, offsets_per_task=1_000) if split.is_of_files]
    assert [(split.start, split.end, split.window_start, split.window_end) for split in followed] == [
        (10, 40, 20, 30),
        (40, 50, 20, 30),
    ]
    assert list(splits_of_references(SplitPlan(ranges=(SOURCE,)), references_per_task=15)) == []
