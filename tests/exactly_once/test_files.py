"""A file pipeline: the referenced records are there once, after faults of tasks, partitions and uploads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.core.clusters.partition import Partition
from app.core.pipelines.pipeline import FileSink, GroupProtocol, ProcessingGuarantee
from app.core.wire.heartbeat import EventKind
from tests.exactly_once.conftest import MakePipeline, StartProcess
from tests.support import verifier
from tests.support.file_pipelines import USERS, assert_whole, audit_files, file_sink, json_value
from tests.support.pipelines import TestPipeline
from tests.support.tasks import running
from tests.support.waiting import wait_for
from workers.loop.group.confirmed import ConfirmedOffsets
from workers.loop.group.ownership import Ownership
from workers.loop.lane import Lane
from workers.sinks.store import UploadStore
from workers.sinks.uploads import ToUpload, Uploaded

NEVER = 600_000


def primed(make_pipeline: MakePipeline, root: Path, *, upload_timeout_ms: int = 5_000, **changes: Any) -> TestPipeline:
    """Two partitions with committed offsets: what follows begins in the middle, as it does in life."""
    pipeline = make_pipeline(value_of=json_value, files=file_sink(root, rotate_ms=500), **changes)
    pipeline.feed(10)
    with running(pipeline.specification()) as task:
        task.wait_for_records(20)
        task.drain()
    pipeline.definition = msgspec.structs.replace(
        pipeline.definition, files=file_sink(root, rotate_ms=NEVER, upload_timeout_ms=upload_timeout_ms)
    )
    return pipeline


@pytest.mark.core
@pytest.mark.parametrize("guarantee", [ProcessingGuarantee.EXACTLY_ONCE_V2, ProcessingGuarantee.EXACTLY_ONCE])
def test_every_record_is_in_one_referenced_file_of_its_user(
    make_pipeline: MakePipeline, tmp_path: Path, guarantee: ProcessingGuarantee
) -> None:
    pipeline = make_pipeline(value_of=json_value, processing_guarantee=guarantee, files=file_sink(tmp_path))
    pipeline.feed(300)
    with running(pipeline.specification()) as task:
        task.wait_for_records(600)
        pipeline.feed(200)
        task.wait_for_records(1000)
        task.drain()
    found = assert_whole(pipeline, tmp_path)
    assert not found.orphans
    assert {reference["partition"]["user"] for reference in found.references} == {f"u{n}" for n in range(USERS)}
    assert task.control.last.counters.records_out == 1000
    for reference in found.references:
        assert reference["uploaded_at_ms"] >= reference["closed_at_ms"] >= reference["opened_at_ms"]
    of_first = [one for one in found.references if one["partition"]["user"] == "u0"]
    spans = [(span["first_offset"], span["last_offset"]) for one in of_first for span in one["inputs"]]
    assert min(first for first, _last in spans) == 0
    assert max(last for _first, last in spans) == 495


def test_no_transaction_is_open_while_files_are_filled(make_pipeline: MakePipeline, tmp_path: Path) -> None:
    """It is filled for longer than a transaction may last, and nothing times out.

    Its partitions have committed offsets: one that has none begins with a commit, which may end what another began.
    """
    pipeline = primed(make_pipeline, tmp_path, transaction_timeout_ms=1_000, commit_interval_ms=500)
    before = verifier.end_offsets(pipeline.bootstrap_servers, pipeline.sink, verifier.READ_UNCOMMITTED)
    pipeline.feed(100)
    with running(pipeline.specification(files=file_sink_of(pipeline, rotate_ms=8_000))) as task:
        task.wait_for_position(220)
        assert task.control.last.open_transaction_age_ms is None
        assert not verifier.has_open_transaction(pipeline.bootstrap_servers, pipeline.sink)
        assert verifier.end_offsets(pipeline.bootstrap_servers, pipeline.sink, verifier.READ_UNCOMMITTED) == before
        task.wait_for_records(200)
        task.drain()
    assert task.control.last.counters.transactions_aborted == 0
    assert_whole(pipeline, tmp_path)


@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_revoke_uploads_and_references_all_before_a_partition_goes(
    make_pipeline: MakePipeline, tmp_path: Path, protocol: GroupProtocol
) -> None:
    pipeline = primed(make_pipeline, tmp_path, group_protocol=protocol)
    pipeline.feed(200)
    with running(pipeline.specification()) as first:
        first.wait_for_position(420)
        with running(pipeline.specification(task=1)) as second:
            second.wait_for_partitions(1)
            first.wait_until(lambda seen: len(seen.partitions) == 1, "one partition released")
            assert first.control.last.counters.records_in == 400
            second.drain()
        first.drain()
    assert first.control.last.counters.transactions_aborted == 0
    assert not assert_whole(pipeline, tmp_path).orphans


class SlowStore:
    """Holds every upload back, once the file has arrived, until it is let go or its time is over."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.let_go = threading.Event()
        self.has_arrived = threading.Event()
        put_all = UploadStore.put_all

        def slowly(
            store: UploadStore, files: Sequence[ToUpload], *, within_s: float, between: Callable[[], None]
        ) -> list[Uploaded]:
            found = put_all(store, files, within_s=within_s, between=between)
            self.has_arrived.set()
            while not self.let_go.wait(0.1):
                between()
            return found

        monkeypatch.setattr(UploadStore, "put_all", slowly)


def test_upload_that_is_slower_than_the_rebalance_allows_is_not_referenced_late(
    make_pipeline: MakePipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The callback gives the partition up without it; what was uploaded stays behind as orphans."""
    pipeline = primed(make_pipeline, tmp_path, upload_timeout_ms=1_000)
    pipeline.feed(200)
    slow = SlowStore(monkeypatch)
    with running(pipeline.specification()) as first:
        first.wait_for_position(420)
        with running(pipeline.specification(task=1)) as second:
            assert slow.has_arrived.wait(30)
            # Longer than all uploads may take.
            threading.Timer(2.0, slow.let_go.set).start()
            second.wait_for_partitions(1)
            first.wait_for_event(EventKind.ABORTED)
            # A drain ends with what was polled: what was aborted must have been polled again.
            first.wait_for_position(110)
            second.wait_for_position(110)
            second.drain()
        first.drain()
    found = assert_whole(pipeline, tmp_path)
    assert len(found.orphans) == USERS


def test_killed_while_it_uploads_leaves_orphans_and_no_reference(
    make_pipeline: MakePipeline, tmp_path: Path, start_process: StartProcess
) -> None:
    root = tmp_path / "files"
    root.mkdir()
    pipeline = make_pipeline(value_of=json_value, files=file_sink(root, rotate_ms=1_000))
    pipeline.feed(4_000)
    process = start_process(pipeline.specification())
    wait_for(lambda: any(root.rglob("*.avro")), 30, "a file in the store")
    process.kill()
    with running(pipeline.specification(attempt=1)) as task:
        task.wait_until(lambda seen: sum(p.committed or 0 for p in seen.partitions) == 8_000, "everything committed")
        task.drain()
    assert_whole(pipeline, root)


def keep_it(_self: Lane) -> None:
    """In place of the callback's commit."""


def look_away(_self: Ownership, _partition: Partition, _number: int) -> bool:
    """In place of the ownership number."""
    return True


def let_pass(_self: ConfirmedOffsets, _found: Mapping[Partition, int | None]) -> None:
    """In place of the comparison with what was confirmed."""


def goes_and_comes_back(pipeline: TestPipeline) -> None:
    """A checkpoint stays open while one of its partitions is taken, processed elsewhere, and given back."""
    pipeline.feed(200)
    with running(pipeline.specification()) as first:
        first.wait_for_position(420)
        with running(pipeline.specification(task=1, files=file_sink_of(pipeline, rotate_ms=500))) as second:
            second.wait_for_records(200)
            second.drain()
        first.wait_for_partitions(2)
        first.drain()
    with running(pipeline.specification(attempt=1)) as last:
        last.wait_for_partitions(2)
        last.wait_for_position(420)
        last.drain()


def file_sink_of(pipeline: TestPipeline, **changes: Any) -> FileSink:
    assert pipeline.definition.files is not None
    return msgspec.structs.replace(pipeline.definition.files, **changes)


@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_nothing_held_survives_the_loss_of_one_of_its_partitions(
    make_pipeline: MakePipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: GroupProtocol
) -> None:
    monkeypatch.setattr(Lane, "end_for_revoke", keep_it)
    pipeline = primed(make_pipeline, tmp_path, group_protocol=protocol)
    goes_and_comes_back(pipeline)
    assert_whole(pipeline, tmp_path)


@pytest.mark.core
@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_without_the_ownership_number_it_references_records_twice(
    make_pipeline: MakePipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: GroupProtocol
) -> None:
    """The negative control of the test before."""
    monkeypatch.setattr(Lane, "end_for_revoke", keep_it)
    monkeypatch.setattr(Ownership, "is_unchanged", look_away)
    monkeypatch.setattr(ConfirmedOffsets, "refuse_older", let_pass)
    pipeline = primed(make_pipeline, tmp_path, group_protocol=protocol)
    goes_and_comes_back(pipeline)
    found = audit_files(pipeline, tmp_path)
    assert len(found.duplicated) == 200, str(found)
    assert not found.lost
