"""A pipeline that verifies: sound runs pass. A change of a record before its file, or of a file after its upload, stops
it with the missing and the unexpected ids."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from app.core.pipelines.pipeline import GroupProtocol, ProcessingGuarantee
from tests.exactly_once.conftest import MakePipeline
from tests.support.file_pipelines import USERS, assert_whole, file_sink, json_value
from tests.support.lakes import Bucket, Folder, Lake
from tests.support.pipelines import TestPipeline
from tests.support.tasks import running
from workers.loop.errors import PipelineStopError
from workers.sinks.parts import Part, Parts
from workers.sinks.store import UploadStore
from workers.sinks.uploads import ToUpload, Uploaded

RECORDS = 100
PATIENT_MS = 3_000


def pipeline_into(lake: Lake, make_pipeline: MakePipeline, **settings: Any) -> TestPipeline:
    files = file_sink(lake, verifies=True, id_field="id", rotate_ms=1_000)
    return make_pipeline(value_of=json_value, files=files, **settings)


@pytest.fixture(params=["folder", "bucket"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    found: Lake = Folder(tmp_path / "lake") if request.param == "folder" else request.getfixturevalue("bucket")
    return found


@pytest.mark.parametrize("guarantee", [ProcessingGuarantee.EXACTLY_ONCE_V2, ProcessingGuarantee.EXACTLY_ONCE])
def test_sound_run_passes(make_pipeline: MakePipeline, lake: Lake, guarantee: ProcessingGuarantee) -> None:
    pipeline = pipeline_into(lake, make_pipeline, processing_guarantee=guarantee)
    with running(pipeline.specification()) as task:
        for wave in (1, 2, 3):
            pipeline.feed(RECORDS)
            task.wait_for_records(2 * wave * RECORDS)
        task.drain()
    assert_whole(pipeline, lake)


@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_rebalance_passes(make_pipeline: MakePipeline, tmp_path: Path, protocol: GroupProtocol) -> None:
    """A commit inside the callback is compared outside of it."""
    lake = Folder(tmp_path / "lake")
    pipeline = pipeline_into(lake, make_pipeline, group_protocol=protocol)
    pipeline.feed(RECORDS)
    with running(pipeline.specification()) as first:
        first.wait_for_position(2 * RECORDS)
        with running(pipeline.specification(task=1)) as second:
            second.wait_for_partitions(1)
            pipeline.feed(RECORDS)
            second.wait_for_records(RECORDS)
            second.drain()
        first.drain()
    assert_whole(pipeline, lake)


class Found(NamedTuple):
    """How a run ended: message and sets of ids, as logged."""

    message: str
    missing: list[str]
    too_many: list[str]


def stopped(pipeline: TestPipeline, caplog: pytest.LogCaptureFixture) -> Found:
    """The pipeline must stop by itself; with one checkpoint that has all of the records."""
    files = pipeline.definition.files
    assert files is not None
    # A partition without committed offsets begins with a commit, which would end what another has begun.
    with running(pipeline.specification()) as first:
        first.wait_until(lambda seen: [one.committed for one in seen.partitions] == [0, 0], "committed beginnings")
        first.drain()
    pipeline.feed(RECORDS)
    patient = msgspec.structs.replace(files, rotate_ms=PATIENT_MS)
    with caplog.at_level(logging.ERROR, logger="workers"), running(pipeline.specification(files=patient)) as task:
        error = task.join_error()
    assert isinstance(error, PipelineStopError)
    (record,) = [one for one in caplog.records if "all ids: " in one.getMessage()]
    sets = msgspec.json.decode(record.getMessage().partition("all ids: ")[2], type=dict[str, list[str]])
    return Found(str(error), *([msgspec.json.decode(one) for one in sets[name]] for name in ("missing", "too_many")))


def spoil_after_upload(monkeypatch: pytest.MonkeyPatch, spoil: Callable[[list[Path]], object], root: Path) -> None:
    """The first files that are uploaded are changed before they are referenced."""
    put_all = UploadStore.put_all
    done: list[bool] = []

    def spoiled(
        store: UploadStore, files: Sequence[ToUpload], *, within_s: float, between: Callable[[], None]
    ) -> list[Uploaded]:
        found = put_all(store, files, within_s=within_s, between=between)
        if not done and len(files) == USERS:
            done.append(True)
            spoil([root / file.path for file in files])
        return found

    monkeypatch.setattr(UploadStore, "put_all", spoiled)


def change(files: list[Path]) -> None:
    content = bytearray(files[0].read_bytes())
    content[-20] ^= 1
    files[0].write_bytes(content)


def truncate(files: list[Path]) -> None:
    files[0].write_bytes(files[0].read_bytes()[:-1])


def swap(files: list[Path]) -> None:
    """Two whole files, each where the other should be."""
    one, other = (file.read_bytes() for file in files[:2])
    files[0].write_bytes(other)
    files[1].write_bytes(one)


def delete(files: list[Path]) -> None:
    files[0].unlink()


@pytest.mark.parametrize(("spoil", "files"), [(change, 1), (truncate, 1), (swap, 2), (delete, 1)])
def test_file_that_differs_from_its_upload_stops_the_pipeline(
    make_pipeline: MakePipeline,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    spoil: Callable[[list[Path]], None],
    files: int,
) -> None:
    root = tmp_path / "lake"
    pipeline = pipeline_into(Folder(root), make_pipeline)
    spoil_after_upload(monkeypatch, spoil, root)
    found = stopped(pipeline, caplog)
    assert "cannot be read" in found.message
    assert len(found.missing) >= files
    assert len({json_user(identity) for identity in found.missing}) == files
    assert found.too_many == []


@pytest.mark.parametrize("guarantee", [ProcessingGuarantee.EXACTLY_ONCE_V2, ProcessingGuarantee.EXACTLY_ONCE])
def test_file_of_a_partition_that_is_gone_is_compared_too(
    make_pipeline: MakePipeline,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    guarantee: ProcessingGuarantee,
) -> None:
    """Its last checkpoint is committed in the callback, and where each partition has a producer, its sink goes too."""
    root = tmp_path / "lake"
    pipeline = pipeline_into(Folder(root), make_pipeline, processing_guarantee=guarantee)
    pipeline.feed(RECORDS)
    with running(pipeline.specification()) as task:
        task.wait_for_records(2 * RECORDS)
        task.drain()
    pipeline.feed(RECORDS)
    files = file_sink(Folder(root), verifies=True, id_field="id", rotate_ms=600_000)
    with caplog.at_level(logging.ERROR, logger="workers"), running(pipeline.specification(files=files)) as first:
        first.wait_for_position(4 * RECORDS)
        # Not before: lanes that begin again commit what the others have open.
        spoil_after_upload(monkeypatch, delete, root)
        pipeline.feed(RECORDS)
        first.wait_for_position(6 * RECORDS)
        with running(pipeline.specification(task=1)) as second:
            error = first.join_error()
            second.drain()
    assert isinstance(error, PipelineStopError)
    assert "cannot be read" in str(error)


def on_the_way_into_a_file(monkeypatch: pytest.MonkeyPatch, times: dict[bytes, int]) -> None:
    """Records with these in them are held as often as it says, not once."""
    hold = Parts.hold

    def held(parts: Parts, part: Part, value: bytes) -> None:
        for _ in range(next((count for named, count in times.items() if named in value), 1)):
            hold(parts, part, value)

    monkeypatch.setattr(Parts, "hold", held)


@pytest.mark.parametrize(
    ("dropped", "doubled"), [(["0:00000007"], []), ([], ["1:00000011"]), (["0:00000007"], ["1:00000011"])]
)
def test_record_that_a_file_lacks_or_has_twice_stops_the_pipeline(
    make_pipeline: MakePipeline,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    dropped: list[str],
    doubled: list[str],
) -> None:
    pipeline = pipeline_into(Folder(tmp_path / "lake"), make_pipeline)
    on_the_way_into_a_file(
        monkeypatch, {**{one.encode(): 0 for one in dropped}, **{one.encode(): 2 for one in doubled}}
    )
    found = stopped(pipeline, caplog)
    assert (found.missing, found.too_many) == (dropped, doubled)
    assert f"{len(dropped)} of 200 ids are missing" in found.message
    assert f"{len(doubled)} are too many" in found.message


def test_without_verification_it_is_not_noticed(
    make_pipeline: MakePipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The negative control: the same fault, and the pipeline drains."""
    lake = Folder(tmp_path / "lake")
    pipeline = make_pipeline(value_of=json_value, files=file_sink(lake))
    on_the_way_into_a_file(monkeypatch, {b"0:00000007": 0})
    pipeline.feed(RECORDS)
    with running(pipeline.specification()) as task:
        task.wait_for_records(2 * RECORDS)
        task.drain()


def test_bucket_that_lost_a_file_stops_the_pipeline(
    make_pipeline: MakePipeline,
    bucket: Bucket,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    put_all = UploadStore.put_all

    def lossy(
        store: UploadStore, files: Sequence[ToUpload], *, within_s: float, between: Callable[[], None]
    ) -> list[Uploaded]:
        found = put_all(store, files, within_s=within_s, between=between)
        bucket.delete(files[0].path)
        return found

    monkeypatch.setattr(UploadStore, "put_all", lossy)
    found = stopped(pipeline_into(bucket, make_pipeline), caplog)
    assert "cannot be read" in found.message
    assert found.missing
    assert found.too_many == []


def json_user(identity: str) -> str:
    return msgspec.json.decode(json_value(identity))["user"]
