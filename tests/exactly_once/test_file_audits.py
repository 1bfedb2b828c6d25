"""The audit of a file pipeline is clean when it may be, and each protection that is taken away it sees."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.core.pipelines.pipeline import (
    ErrorHandling,
    FailurePolicy,
    Filter,
    ProcessingGuarantee,
    SchemaConflict,
    StepOperator,
    Steps,
)
from app.products.audits.result import AuditResult, AuditVerdict, FindingTally, IdFinding, verdict
from app.products.audits.specification import AuditSpecification, JsonField, TimeWindow, specification_of
from app.products.audits.telling import verdict_sentence
from tests.exactly_once.conftest import MakePipeline
from tests.support import verifier
from tests.support.audits import QUICK, Writer, audit_here, examples_of, ids_of
from tests.support.file_pipelines import assert_whole, audit_files, file_sink, json_value
from tests.support.pipelines import TestPipeline
from tests.support.tasks import running
from tests.support.topics import create_topic, delete_topics, unique_name
from workers.sinks.file_sink import Dated, FileSinkWriter
from workers.sinks.parts import Source

ONE_SECOND_MS = 1_000


def a_specification(pipeline: TestPipeline, **changes: Any) -> AuditSpecification:
    """An audit of the window in which all of it was fed."""
    times = [found.timestamp_ms for found in verifier.read_all(pipeline.bootstrap_servers, pipeline.source)]
    specification = specification_of(
        pipeline.definition,
        audit_id=unique_name("audit"),
        pipeline=pipeline.definition.group_id,
        revision=1,
        window=TimeWindow(start_ms=min(times), end_ms=max(times) + 1),
        id=JsonField(path="id"),
        padding_ms=ONE_SECOND_MS,
    )
    return msgspec.structs.replace(specification, bounds=QUICK, **changes)


def audited(pipeline: TestPipeline, **changes: Any) -> AuditResult:
    return audit_here(a_specification(pipeline, **changes), pipeline.bootstrap_servers)


def processed(pipeline: TestPipeline, each: int = 100) -> None:
    pipeline.feed(each)
    with running(pipeline.specification()) as task:
        task.wait_for_position(2 * each)
        task.drain()


@pytest.mark.parametrize("guarantee", [ProcessingGuarantee.EXACTLY_ONCE_V2, ProcessingGuarantee.EXACTLY_ONCE])
def test_every_record_of_a_window_is_in_a_file_once(
    make_pipeline: MakePipeline, tmp_path: Path, guarantee: ProcessingGuarantee
) -> None:
    pipeline = make_pipeline(value_of=json_value, processing_guarantee=guarantee, files=file_sink(tmp_path))
    processed(pipeline)
    judge = assert_whole(pipeline, tmp_path)
    result = audited(pipeline)
    assert verdict(result) is AuditVerdict.CLEAN, verdict_sentence(result)
    counts = result.counts
    assert (counts.inputs, counts.expected) == (200, 200)
    assert (counts.outputs + counts.late.records) >= 200
    assert counts.files is not None
    assert 0 <= counts.files <= len(judge.references)
    assert result.gaps == ()


def test_records_that_steps_drop_or_files_refuse_are_not_expected(make_pipeline: MakePipeline, tmp_path: Path) -> None:
    """A user that is an object names no partition: such a record goes to the dead letters, and is expected there."""
    letters = unique_name("letters")
    pipeline = make_pipeline(
        value_of=json_value,
        files=file_sink(tmp_path),
        transform=Steps(steps=(Filter(field="amount", operator=StepOperator.GE, value=10),)),
        errors=ErrorHandling(policy=FailurePolicy.DEAD_LETTER, dead_letter_topic=letters),
    )
    create_topic(pipeline.bootstrap_servers, letters, partitions=1)
    try:
        pipeline.feed_value(b'{"id": "bad", "user": {"name": "u"}, "amount": 99}')
        pipeline.feed(50)
        with running(pipeline.specification()) as task:
            task.wait_for_position(101)
            task.drain()
        result = audited(pipeline)
        assert verdict(result) is AuditVerdict.CLEAN, verdict_sentence(result)
        assert (result.counts.dropped, result.counts.dead_lettered, result.counts.expected) == (20, 1, 81)
    finally:
        delete_topics(pipeline.bootstrap_servers, [letters])


def test_outputs_that_a_file_refuses_for_their_types_are_among_the_dead_letters(
    make_pipeline: MakePipeline, tmp_path: Path
) -> None:
    letters = unique_name("letters")
    pipeline = make_pipeline(
        partitions=1,
        value_of=json_value,
        files=file_sink(tmp_path, partition_by=(), conflict=SchemaConflict.BAD_RECORD),
        errors=ErrorHandling(policy=FailurePolicy.DEAD_LETTER, dead_letter_topic=letters),
    )
    create_topic(pipeline.bootstrap_servers, letters, partitions=1)
    try:
        pipeline.feed(10)
        pipeline.feed_value(b'{"id": "other", "user": "u1", "amount": "many", "pad": "x"}')
        with running(pipeline.specification()) as task:
            task.wait_for_position(11)
            task.drain()
        result = audited(pipeline)
        assert verdict(result) is AuditVerdict.CLEAN, verdict_sentence(result)
        assert (result.counts.expected, result.counts.undelivered, result.counts.lost) == (11, 1, FindingTally())
    finally:
        delete_topics(pipeline.bootstrap_servers, [letters])


def test_a_deleted_file_is_a_dangling_reference_and_its_records_are_lost(
    make_pipeline: MakePipeline, tmp_path: Path
) -> None:
    pipeline = make_pipeline(value_of=json_value, files=file_sink(tmp_path))
    processed(pipeline)
    gone = assert_whole(pipeline, tmp_path).references[0]
    (tmp_path / gone["path"]).unlink()
    result = audited(pipeline)
    assert verdict(result) is AuditVerdict.BROKEN
    assert result.counts.dangling == FindingTally(ids=1, records=gone["records"])
    assert result.counts.lost == FindingTally(ids=gone["records"], records=gone["records"])
    [dangling] = examples_of(result, IdFinding.DANGLING)
    assert [one.file for one in dangling.outputs] == [gone["path"]]
    assert dangling.why == "is not there"
    assert set(ids_of(result, IdFinding.LOST)) <= set(audit_files(pipeline, tmp_path).lost)


def test_a_file_that_is_referenced_twice_is_read_twice(make_pipeline: MakePipeline, tmp_path: Path) -> None:
    pipeline = make_pipeline(value_of=json_value, files=file_sink(tmp_path))
    processed(pipeline)
    first = verifier.read_all(pipeline.bootstrap_servers, pipeline.sink)[0]
    reference = msgspec.json.decode(first.value or b"", type=dict[str, Any])
    writer = Writer(pipeline.bootstrap_servers)
    writer.write_values(pipeline.sink, [(first.key, first.value)], at_ms=first.timestamp_ms)
    writer.close()
    result = audited(pipeline)
    assert verdict(result) is AuditVerdict.BROKEN
    assert result.counts.duplicated == FindingTally(ids=reference["records"], records=reference["records"])
    assert (result.counts.lost, result.counts.dangling) == (FindingTally(), FindingTally())
    for example in examples_of(result, IdFinding.DUPLICATED):
        assert (example.expected, example.found) == (1, 2)
        assert {place.file for place in example.outputs} == {reference["path"]}
        assert example.id is not None


def test_records_that_a_sink_drops_are_lost(
    make_pipeline: MakePipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken, and in no file: what the story's faults come to."""
    add = FileSinkWriter.add
    dropped: list[str] = []

    def forgetful(sink: FileSinkWriter, outputs: Sequence[Dated], *, source: Source, offset: int) -> None:
        if offset % 40 == 7:
            dropped.extend(msgspec.json.decode(one.value)["id"] for one in outputs)
            return
        add(sink, outputs, source=source, offset=offset)

    monkeypatch.setattr(FileSinkWriter, "add", forgetful)
    # Else C files most records without it.
    monkeypatch.setattr(FileSinkWriter, "takes_held", False)
    pipeline = make_pipeline(value_of=json_value, files=file_sink(tmp_path))
    processed(pipeline)
    result = audited(pipeline)
    assert verdict(result) is AuditVerdict.BROKEN
    assert len(dropped) == 6
    assert ids_of(result, IdFinding.LOST) == sorted(dropped)
    assert result.counts.lost == FindingTally(ids=6, records=6)
    assert (result.counts.duplicated, result.counts.dangling) == (FindingTally(), FindingTally())


def test_an_unexpected_record_is_reported_with_its_id(
    make_pipeline: MakePipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No input has its id: its text is read in the file."""
    add = FileSinkWriter.add

    def inventive(sink: FileSinkWriter, outputs: Sequence[Dated], *, source: Source, offset: int) -> None:
        add(sink, outputs, source=source, offset=offset)
        if source[1] == 0 and offset == 3:
            add(sink, [Dated(b'{"id": "stranger", "user": "u1"}', None)], source=source, offset=offset)

    monkeypatch.setattr(FileSinkWriter, "add", inventive)
    # Else C files most records without it.
    monkeypatch.setattr(FileSinkWriter, "takes_held", False)
    pipeline = make_pipeline(value_of=json_value, files=file_sink(tmp_path, partition_by=()))
    processed(pipeline, 20)
    result = audited(pipeline, window=TimeWindow(start_ms=0, end_ms=1 << 45))
    assert ids_of(result, IdFinding.UNEXPECTED) + ids_of(result, IdFinding.UNEXPLAINED) == ["stranger"]
