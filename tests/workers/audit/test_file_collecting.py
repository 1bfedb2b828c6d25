"""From references to ids: of files as they were committed, and of nothing else; a missing file is reported as such."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import msgspec
import pytest

from app.core.transforms.field_path import FieldPathError
from app.core.wire.file_references import FileReference
from app.products.audits.result import AuditSide, IdFinding
from app.products.audits.specification import AuditBounds, RecordKey
from tests.support.audited_files import a_file_specification, reference_message, write_ids
from workers.audit.collecting import SplitReport
from workers.audit.file_collecting import FileCollector
from workers.audit.reading import AuditReadError
from workers.audit.references import ReferenceScope
from workers.audit.rows import ROW, hash_of, place_of
from workers.audit.splits import Split
from workers.audit.stores import FileStores

SPLIT = Split(
    number=1,
    side=AuditSide.SINK,
    topic="out",
    partition=0,
    start=0,
    end=100,
    window_start=10,
    window_end=20,
    is_of_files=True,
)
SCOPE = ReferenceScope(window={"in-0": (500, 600)}, late_from={"out-0": 30})


def collected(
    root: Path, *references: tuple[int, FileReference | bytes | None], examples: int = 20
) -> tuple[SplitReport, list[tuple[bytes, int, bool]]]:
    """The report, and of each row its hash, its offset, and whether it is of the window."""
    specification = a_file_specification(root, bounds=AuditBounds(examples=examples))
    stores = FileStores(specification.file_roots, stall_s=0)
    collector = FileCollector(specification, SPLIT, buckets=3, scope=SCOPE, stores=stores)
    collector.collect([[reference_message(one, offset) for offset, one in references]])
    rows = [
        (key[:14], place_of(word)[1], bool(word & 2))
        for _, piece in collector.pieces.by_bucket()
        for key, word in ROW.iter_unpack(piece)
    ]
    return collector.report, sorted(rows, key=lambda row: row[1])


def test_every_record_of_a_file_has_the_place_of_its_reference(tmp_path: Path) -> None:
    report, rows = collected(tmp_path, (12, write_ids(tmp_path, 1, ["a", "b"])), (25, write_ids(tmp_path, 2, ["c"])))
    assert sorted(rows[:2]) == sorted([(hash_of(b"a"), 12, True), (hash_of(b"b"), 12, True)])
    assert rows[2:] == [(hash_of(b"c"), 25, False)]
    assert (report.files, report.window_records, report.records) == (1, 2, 2)
    assert report.examples == []


def test_a_file_counts_as_often_as_it_is_referenced(tmp_path: Path) -> None:
    twice = write_ids(tmp_path, 1, ["a"])
    report, rows = collected(tmp_path, (12, twice), (13, twice))
    assert [row[0] for row in rows] == [hash_of(b"a")] * 2
    assert report.files == 2


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ("gone", "is not there"),
        ("longer", r"has \d+ bytes, not \d+"),
        ("other", "has the SHA-256 [0-9a-f]{64}, not [0-9a-f]{64}"),
    ],
)
def test_a_missing_or_different_file_is_a_dangling_reference_and_gives_no_row(
    tmp_path: Path, damage: str, why: str
) -> None:
    reference = write_ids(tmp_path, 1, ["a", "b"])
    place = tmp_path / reference.path
    content = place.read_bytes()
    place.unlink()
    if damage == "longer":
        place.write_bytes(content + b"x")
    if damage == "other":
        place.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    report, rows = collected(tmp_path, (12, reference))
    assert rows == []
    assert (report.dangling, report.dangling_records, report.files) == (1, 2, 0)
    [example] = report.examples
    assert (example.finding, example.expected, example.found) == (IdFinding.DANGLING, 2, 0)
    assert [(one.offset, one.file) for one in example.outputs] == [(12, reference.path)]
    assert example.why is not None
    assert re.fullmatch(why, example.why)


def test_a_file_with_other_records_than_its_reference_says_dangles(tmp_path: Path) -> None:
    report, rows = collected(tmp_path, (12, msgspec.structs.replace(write_ids(tmp_path, 1, ["a"]), records=2)))
    assert report.dangling == 1
    assert report.examples[0].why == "has 1 records, not 2"
    assert len(rows) == 1, "what can be read of it is there"


def test_a_dangling_reference_of_the_padding_is_reported_where_the_window_lost_by_it(tmp_path: Path) -> None:
    of_window = write_ids(tmp_path, 1, ["a"], inputs=[("in", 0, 590, 610)])
    of_others = write_ids(tmp_path, 2, ["b"], inputs=[("in", 0, 610, 620)])
    shutil.rmtree(tmp_path / "pipeline")
    report, _ = collected(tmp_path, (25, of_window), (26, of_others))
    assert [one.offset for example in report.examples for one in example.outputs] == [25]
    assert report.dangling == 1


def test_a_late_file_without_an_input_of_the_window_is_not_opened(tmp_path: Path) -> None:
    late = write_ids(tmp_path, 1, ["a"], inputs=[("in", 0, 700, 800)])
    in_question = write_ids(tmp_path, 2, ["b"], inputs=[("in", 0, 599, 800)])
    report, rows = collected(tmp_path, (40, late), (41, in_question))
    assert rows == [(hash_of(b"b"), 41, False)]
    assert report.files == 0


def test_a_record_that_is_no_reference_is_reported_and_another_pipelines_skipped(tmp_path: Path) -> None:
    other = write_ids(tmp_path, 1, ["a"], pipeline="another")
    report, rows = collected(tmp_path, (12, other), (13, b"{}"), (14, None), (40, b"no JSON"))
    assert rows == []
    assert (report.unreadable, report.dangling) == (2, 0)
    assert [example.finding for example in report.examples] == [IdFinding.UNREADABLE_OUTPUT] * 2


def test_nothing_is_opened_below_another_root_or_outside_of_it(tmp_path: Path) -> None:
    """A client with permission to write to the sink topic may write any reference."""
    elsewhere = tmp_path / "elsewhere"
    foreign = write_ids(elsewhere, 1, ["a"])
    outside = msgspec.structs.replace(foreign, root=(tmp_path / "own").as_uri(), path=f"../elsewhere/{foreign.path}")
    (tmp_path / "own").mkdir()
    report, rows = collected(tmp_path / "own", (12, foreign), (13, outside))
    assert rows == []
    assert report.dangling == 2
    first, second = [str(example.why) for example in report.examples]
    assert first == f"is below {elsewhere.as_uri()}, where the pipeline never wrote, and was not opened"
    assert second.startswith("was not opened: ")


def test_a_root_that_is_not_there_is_no_finding_but_fails_the_audit(tmp_path: Path) -> None:
    """A folder that is not mounted on an executor says nothing of the files in it."""
    root = tmp_path / "mounted-elsewhere"
    reference = write_ids(root, 1, ["a"])
    shutil.rmtree(root)
    with pytest.raises(AuditReadError, match=r"there is no file:.*mounted-elsewhere for this executor"):
        collected(root, (12, reference))


def test_a_store_that_refuses_fails_the_audit(tmp_path: Path) -> None:
    reference = write_ids(tmp_path, 1, ["a"])
    (tmp_path / reference.path).unlink()
    (tmp_path / reference.path).mkdir()
    with pytest.raises(AuditReadError, match=r"cannot be read: .*directory"):
        collected(tmp_path, (12, reference))


def test_only_the_first_dangling_references_are_kept_and_all_counted(tmp_path: Path) -> None:
    references = [write_ids(tmp_path, number, ["a"]) for number in range(9)]
    shutil.rmtree(tmp_path / "pipeline")
    report, _ = collected(tmp_path, *((10 + number, one) for number, one in enumerate(references)), examples=3)
    assert report.dangling == 9
    assert len(report.examples) == 3


def test_records_of_files_are_not_known_by_a_key(tmp_path: Path) -> None:
    specification = a_file_specification(tmp_path, id=RecordKey())
    with pytest.raises(FieldPathError, match="neither a key nor headers"):
        FileCollector(specification, SPLIT, buckets=1, scope=SCOPE, stores=FileStores((), stall_s=0))
