"""What the collector tells, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from app.products.files.orphans import Margin, OrphanStanding, Stored
from app.products.files.reader.collecting import OrphanCollector
from app.products.files.reader.errors import ReferencesUnreadableError
from app.products.files.reader.open_upload import OpenUpload
from app.products.files.reader.store import open_store
from tests.support.file_worlds import MemoryStore, MemoryTopic, World, reference_to
from tests.support.object_store import serving_s3

MARGIN = Margin(rotation_ms=1_000, upload_ms=1_000, standstill_ms=1_000, transaction_ms=1_000, clocks_ms=60_000)


def path(number: int) -> str:
    return f"flights/day=1/{number:032x}.avro"


class Lake:
    """A store with files of each kind, and the topic."""

    def __init__(self) -> None:
        self.world = World()
        self.store = MemoryStore(self.world)
        self.topic = MemoryTopic(self.world)

    def referenced(self, number: int, *, transaction: int | None = None) -> None:
        self.store.put(path(number))
        at = number if transaction is None else transaction
        self.topic.write(at, reference_to(path(number), uploaded_at_ms=self.world.now_ms))
        self.topic.mark(at)

    def grow_old(self) -> None:
        self.world.now_ms += MARGIN.total_ms + 60_000

    def collector(self, **options: Any) -> OrphanCollector:
        given: dict[str, Any] = {
            "store": self.store,
            "topics": [self.topic],
            "pipeline": "flights",
            "margin": MARGIN,
            "created_ms": 0,
            "is_first_incarnation": True,
            "patience_s": 0,
            "now_ms": lambda: self.world.now_ms,
            **options,
        }
        return OrphanCollector(given.pop("store"), given.pop("topics"), **given)


@pytest.fixture
def lake() -> Lake:
    return Lake()


def test_files_are_told_by_what_they_are_and_a_look_changes_nothing(lake: Lake) -> None:
    lake.referenced(1)
    lake.store.put(path(2), size_bytes=77)
    lake.store.put("flights/readme.txt")
    lake.store.put("elsewhere/x.avro")
    lake.grow_old()
    lake.store.put(path(3))
    before = dict(lake.store.files)

    findings = lake.collector().look()

    assert [stored.path for stored in findings.orphans] == [path(2)]
    assert findings.orphans[0].size_bytes == 77
    counts = {standing: tally.files for standing, tally in findings.tallies.items()}
    assert counts == {
        OrphanStanding.REFERENCED: 1,
        OrphanStanding.TOO_YOUNG: 1,
        OrphanStanding.ORPHAN: 1,
        OrphanStanding.UNKNOWN: 0,
        OrphanStanding.NOT_OURS: 1,
    }
    assert findings.references == 1
    assert lake.store.files == before


def test_a_file_that_another_pipelines_reference_names_is_kept(lake: Lake) -> None:
    """As after a rename: a path that is referenced is kept, whoever refers to it."""
    lake.store.put(path(1))
    lake.topic.write(1, reference_to(path(1), pipeline="formerly", root="memory://formerly"))
    lake.topic.mark(1)
    lake.grow_old()
    findings = lake.collector().look()
    assert findings.orphans == ()
    assert findings.references == 0


def test_an_open_transaction_is_told_with_its_writer_and_nothing_is_an_orphan(lake: Lake) -> None:
    lake.store.put(path(1))
    lake.topic.write(1, reference_to(path(2)))
    began_ms = lake.world.now_ms
    lake.grow_old()

    findings = lake.collector().look()

    (blocked,) = findings.blocked
    assert (blocked.topic, blocked.partition, blocked.offset, blocked.since_ms) == ("files", 0, 0, began_ms)
    assert blocked.transactional_id == "fl.t.flights.0.0"
    assert findings.orphans == ()
    lake.topic.mark(1, is_commit=False)
    assert [stored.path for stored in lake.collector().look().orphans] == [path(1)]


def test_a_transaction_that_ends_in_time_is_waited_for(lake: Lake) -> None:
    lake.store.put(path(1))
    lake.topic.write(1, reference_to(path(1)))
    lake.grow_old()

    def pause(_: float) -> None:
        lake.topic.mark(1)

    findings = lake.collector(patience_s=60, pause=pause).look()
    assert findings.blocked == ()
    assert findings.orphans == ()


def test_what_the_topic_forgot_is_unknown_and_said_so(lake: Lake) -> None:
    lake.referenced(1)
    lake.store.put(path(2))
    lake.topic.delete_records()
    lake.grow_old()
    findings = lake.collector().look()
    assert findings.orphans == ()
    assert findings.tallies[OrphanStanding.UNKNOWN].files == 2
    assert "files-0 begins at offset 2" in findings.since.why


def test_what_is_younger_than_a_forgotten_beginning_is_collected_again(lake: Lake) -> None:
    lake.referenced(1)
    lake.topic.delete_records()
    lake.referenced(2)
    lake.grow_old()
    lake.store.put(path(3))
    lake.grow_old()
    findings = lake.collector().look()
    assert [stored.path for stored in findings.orphans] == [path(3)]
    assert findings.tallies[OrphanStanding.UNKNOWN].files == 1


def test_files_from_before_the_pipeline_are_unknown(lake: Lake) -> None:
    lake.store.put(path(1))
    lake.grow_old()
    lake.referenced(2)
    lake.grow_old()
    findings = lake.collector(created_ms=lake.world.now_ms - MARGIN.total_ms - 60_000).look()
    assert findings.orphans == ()
    assert findings.tallies[OrphanStanding.UNKNOWN].files == 1


def test_every_topic_counts_to_which_references_were_ever_written(lake: Lake) -> None:
    former = MemoryTopic(lake.world, "former")
    lake.referenced(1)
    lake.store.put(path(2))
    former.write(1, reference_to(path(2)))
    former.mark(1)
    lake.grow_old()
    assert [stored.path for stored in lake.collector().look().orphans] == [path(2)]
    assert lake.collector(topics=[lake.topic, former]).look().orphans == ()


def test_without_a_topic_there_is_no_collector(lake: Lake) -> None:
    with pytest.raises(ValueError, match="every file would be an orphan"):
        lake.collector(topics=[])


def test_ages_are_by_the_stores_clock_and_a_clock_that_is_far_off_is_not_compared_with_ours(lake: Lake) -> None:
    lake.referenced(1)
    lake.store.put(path(2))
    lake.grow_old()
    lake.store.skew_ms = -60_000
    findings = lake.collector().look()
    assert findings.skew_ms == -60_000
    assert len(findings.orphans) == 1
    lake.store.skew_ms = -60_001
    findings = lake.collector().look()
    assert findings.orphans == ()
    assert "the store's clock differs by -60.001 s" in findings.since.why
    lake.store.skew_ms = -120_001
    assert lake.collector().look().tallies[OrphanStanding.TOO_YOUNG].files == 1
    lake.store.skew_ms = None
    findings = lake.collector().look()
    assert findings.skew_ms is None
    assert len(findings.orphans) == 1


def test_uploads_in_parts_that_nobody_finished_are_aborted_when_they_are_old(lake: Lake) -> None:
    old = OpenUpload(path=path(1), upload_id="a", begun_ms=lake.world.now_ms)
    stranger = OpenUpload(path="flights/readme.txt", upload_id="b", begun_ms=0)
    lake.grow_old()
    young = OpenUpload(path=path(2), upload_id="c", begun_ms=lake.world.now_ms)
    lake.store.uploads = [old, stranger, young]
    collector = lake.collector()
    findings = collector.look()
    assert findings.open_uploads == (old,)
    assert collector.delete(findings).aborted_uploads == 1
    assert lake.store.uploads == [stranger, young]
    assert collector.delete(findings).aborted_uploads == 0


def test_a_reference_without_its_file_is_told(lake: Lake) -> None:
    lake.referenced(1)
    lake.referenced(2)
    lake.referenced(2, transaction=3)
    del lake.store.files[path(1)]
    lake.grow_old()
    lake.topic.write(4, reference_to(path(4), uploaded_at_ms=lake.world.now_ms))
    lake.topic.mark(4)
    findings = lake.collector().look()
    assert [(one.path, one.place) for one in findings.missing] == [(path(1), "files-0@0")]


def test_records_that_are_no_references_are_counted(lake: Lake) -> None:
    for value in (b"{}", b"hello", None):
        lake.topic.write(1, value)
    lake.topic.mark(1)
    assert lake.collector().look().others == 3


def test_orphans_are_deleted_and_those_that_changed_or_went_are_kept(lake: Lake) -> None:
    lake.referenced(1)
    for number in (2, 3, 4):
        lake.store.put(path(number))
    lake.grow_old()
    collector = lake.collector()
    findings = collector.look()
    del lake.store.files[path(3)]
    lake.store.put(path(4), size_bytes=99)
    told: list[str] = []

    outcome = collector.delete(findings, told=lambda stored: told.append(stored.path))

    assert told == lake.store.deleted == [path(2)]
    assert (outcome.deleted.files, outcome.deleted.size_bytes) == (1, 10)
    assert [(stored.path, why) for stored, why in outcome.kept] == [
        (path(3), "it is gone"),
        (path(4), "it has changed since it was listed"),
    ]


@pytest.mark.parametrize("victim", [3, 4, 5])
def test_what_is_committed_between_two_batches_ends_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, victim: int
) -> None:
    """Also when the file is in none of these two, but in a later one."""
    monkeypatch.setattr("app.products.files.reader.collecting.BATCH", 1)
    lake.referenced(1)
    for number in (2, 3, 4, 5):
        lake.store.put(path(number))
    lake.grow_old()
    collector = lake.collector()
    findings = collector.look()

    def meanwhile(_: Any) -> None:
        lake.topic.write(9, reference_to(path(victim)))
        lake.topic.mark(9)

    with pytest.raises(ReferencesUnreadableError, match=f"{path(victim)} has a new reference at files-0@2"):
        collector.delete(findings, told=meanwhile)
    assert lake.store.deleted == [path(2)]


def test_a_bucket_is_collected_as_a_folder_is(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """With files and uploads in parts that are there for real, a day later."""
    with serving_s3() as s3:
        s3.client.create_bucket(Bucket="lake")
        for number in (1, 2):
            s3.client.put_object(Bucket="lake", Key=f"raw/{path(number)}", Body=b"records")
        s3.client.create_multipart_upload(Bucket="lake", Key=f"raw/{path(3)}")
        lake.topic.write(1, reference_to(path(1)))
        lake.topic.mark(1)
        files = open_store("s3://lake/raw", s3.options())
        told = files.now_ms()
        assert told is not None
        lake.world.now_ms = told + 86_400_000
        monkeypatch.setattr(files, "now_ms", lambda: lake.world.now_ms)
        collector = lake.collector(store=files)
        findings = collector.look()
        assert [stored.path for stored in findings.orphans] == [path(2)]
        outcome = collector.delete(findings)
        assert (outcome.deleted.files, outcome.aborted_uploads, outcome.kept) == (1, 1, ())
        assert s3.keys("lake") == [f"raw/{path(1)}"]
        assert s3.open_uploads("lake") == []


def test_a_reference_of_a_newer_version_keeps_everything(lake: Lake) -> None:
    """Which file it names is not known here: that file looks like an orphan."""
    lake.store.put(path(1))
    lake.topic.write(1, b'{"format": "fenceline.file/2", "files": ["' + path(1).encode() + b'"]}')
    lake.topic.mark(1)
    lake.grow_old()
    with pytest.raises(ReferencesUnreadableError, match=r"files-0@0 \(fenceline\.file/2\).*nothing is judged"):
        lake.collector().look()


def test_a_reference_with_something_wrong_keeps_the_file_that_it_names(lake: Lake) -> None:
    lake.store.put(path(1))
    lake.topic.write(1, b'{"format": "fenceline.file/1", "path": "' + path(1).encode() + b'"}')
    lake.topic.mark(1)
    lake.topic.write(2, b"a note")
    lake.topic.mark(2)
    lake.grow_old()
    findings = lake.collector().look()
    assert (findings.orphans, findings.others) == ((), 2)
    assert findings.tallies[OrphanStanding.REFERENCED].files == 1


@pytest.mark.parametrize("is_known", [True, False])
def test_what_comes_before_a_batch_and_cannot_be_read_ends_the_deleting(lake: Lake, is_known: bool) -> None:
    lake.store.put(path(1))
    lake.grow_old()
    collector = lake.collector()
    findings = collector.look()
    assert findings.orphans
    number = b"1" if is_known else b"2"
    lake.topic.write(1, b'{"format": "fenceline.file/' + number + b'", "path": "' + path(1).encode() + b'"}')
    lake.topic.mark(1)
    with pytest.raises(ReferencesUnreadableError):
        collector.delete(findings)
    assert lake.store.deleted == []


@pytest.mark.parametrize("rounded_ms", [999_999_789 // 1_000 * 1_000, 1_000_000_000])
def test_a_store_that_tells_milliseconds_only_in_its_listing_tells_of_the_same_file(
    lake: Lake, rounded_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As MinIO does: else each orphan would have changed since it was listed, and none would ever be deleted."""
    lake.world.now_ms = 999_999_789
    lake.store.put(path(1))
    lake.grow_old()
    collector = lake.collector()
    findings = collector.look()
    stat = lake.store.stat

    def rounded(at: str) -> Stored:
        return msgspec.structs.replace(stat(at), modified_ms=rounded_ms)

    monkeypatch.setattr(lake.store, "stat", rounded)
    outcome = collector.delete(findings)
    assert (outcome.deleted.files, outcome.kept) == (1, ())
