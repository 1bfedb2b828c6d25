"""Files and time: references lie as far behind their input as the pipeline was, and name their inputs."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from app.core.wire.file_references import FileReference, encode
from app.edges.embedded.kafka import KafkaCluster
from app.products.audits.result import AuditResult, AuditSide, AuditVerdict, FindingTally, GapReason, IdFinding, verdict
from app.products.audits.specification import OffsetRange, OffsetWindow, TimeWindow, Window
from app.products.audits.telling import verdict_sentence
from tests.conftest import MakeTopic
from tests.support.audited_files import a_file_specification, write_ids
from tests.support.audits import Writer, audit_here, ids_of
from tests.support.topics import delete_records

pytestmark = pytest.mark.faults(keep=5, of="audits on a broker")

HOUR_MS = 3_600_000
NOON_MS = 1_790_000_000_000
MINUTE_MS = 60_000
AN_HOUR = TimeWindow(start_ms=NOON_MS, end_ms=NOON_MS + HOUR_MS)
IDS = [f"id-{number}" for number in range(180)]


class Scene:
    """A record came in each minute from 11:00 to 14:00; files of ten of them are committed when the test says so."""

    def __init__(self, kafka: KafkaCluster, source: str, sink: str, writer: Writer, root: Path) -> None:
        self.bootstrap_servers = kafka.bootstrap_servers
        self.source, self.sink, self.root = source, sink, root
        self._writer = writer
        self._added: list[tuple[FileReference, int]] = []
        writer.write(source, IDS, at_ms=lambda index: NOON_MS - HOUR_MS + index * MINUTE_MS)

    def add(self, number: int, *, minutes: int, ids: Sequence[str] | None = None) -> FileReference:
        """The file of ten minutes, referenced so many minutes after 11:00 once that is committed."""
        first = 10 * number
        reference = write_ids(
            self.root,
            number,
            IDS[first : first + 10] if ids is None else ids,
            inputs=[(self.source, 0, first, first + 9)],
        )
        self._added.append((reference, NOON_MS - HOUR_MS + minutes * MINUTE_MS))
        return reference

    def commit(self, *, end: str = "commit") -> None:
        """In one transaction: the brokers find markers by their time as well, and they have that of the test."""
        times = [at_ms for _, at_ms in self._added]
        values = [(reference.path.encode(), encode(reference)) for reference, _ in self._added]
        self._writer.write_values(self.sink, values, at_ms=lambda index: times[index], end=end)
        self._added.clear()

    def commit_all(self, *, behind: int) -> None:
        for number in range(18):
            self.add(number, minutes=10 * number + 10 + behind)
        self.commit()

    def audit(self, window: Window = AN_HOUR, *, padding: int = 20, **changes: Any) -> AuditResult:
        specification = a_file_specification(
            self.root, self.source, self.sink, window=window, padding_ms=padding * MINUTE_MS, **changes
        )
        return audit_here(specification, self.bootstrap_servers)


@pytest.fixture
def scene(kafka: KafkaCluster, make_topic: MakeTopic, tmp_path: Path) -> Generator[Scene]:
    writer = Writer(kafka.bootstrap_servers)
    yield Scene(kafka, make_topic(), make_topic(), writer, tmp_path)
    writer.close()


def test_files_of_an_hour_are_compared_with_its_input(scene: Scene) -> None:
    scene.commit_all(behind=1)
    result = scene.audit()
    assert verdict(result) is AuditVerdict.CLEAN, verdict_sentence(result)
    assert (result.counts.inputs, result.counts.expected, result.counts.outputs) == (60, 60, 60)
    assert result.counts.files == 6
    assert result.counts.late.records == 10, "the last ten minutes' file was committed after the hour"


def test_a_pipeline_further_behind_than_the_padding_is_audited_by_the_inputs_of_its_files(scene: Scene) -> None:
    """Files committed in the hour have their input read, and input of the hour has its files read, however late."""
    scene.commit_all(behind=95)
    result = scene.audit(padding=5)
    assert verdict(result) is AuditVerdict.CLEAN, verdict_sentence(result)
    assert result.counts.late.records == 60
    [source] = [one for one in result.ranges if one.side is AuditSide.SOURCE]
    assert source.read_start == 0
    assert result.counts.unexplained == FindingTally()


def test_lost_and_duplicated_are_proven_however_late_the_pipeline_was(scene: Scene) -> None:
    for number in range(18):
        ids = IDS[10 * number : 10 * number + 10]
        if number == 7:
            ids = [*ids[1:], ids[1], "stranger"]
        scene.add(number, minutes=10 * number + 105, ids=ids)
    scene.commit()
    result = scene.audit(padding=5)
    assert verdict(result) is AuditVerdict.BROKEN
    assert ids_of(result, IdFinding.LOST) == ["id-70"]
    assert ids_of(result, IdFinding.DUPLICATED) == ["id-71"]
    assert result.counts.missing == FindingTally()
    # It lies in the window of another hour, by when it was committed.
    assert ids_of(result, IdFinding.UNEXPECTED) == []


def test_files_of_an_aborted_checkpoint_are_none(scene: Scene) -> None:
    scene.commit_all(behind=1)
    scene.add(18, minutes=95, ids=IDS[80:90])
    scene.commit(end="abort")
    assert verdict(scene.audit()) is AuditVerdict.CLEAN


def test_named_offsets_are_searched_in_the_files_that_name_them(scene: Scene) -> None:
    scene.commit_all(behind=200)
    named = OffsetWindow(ranges=(OffsetRange(topic=scene.source, partition=0, start=65, end=95),))
    result = scene.audit(named, padding=5)
    assert verdict(result) is AuditVerdict.CLEAN, verdict_sentence(result)
    assert result.counts.expected == 30


def test_references_deleted_by_retention_are_reported_and_nothing_is_called_lost(scene: Scene) -> None:
    scene.commit_all(behind=1)
    delete_records(scene.bootstrap_servers, scene.sink, before=8)
    result = scene.audit()
    assert verdict(result) is AuditVerdict.NOT_SHOWN
    assert [(gap.side, gap.reason, gap.end) for gap in result.gaps] == [(AuditSide.SINK, GapReason.DELETED, 8)]
    assert "references to files" in result.gaps[0].sentence
    assert result.counts.lost == FindingTally()
    assert result.counts.missing.records == 20
