"""An object store that fails, hangs, loses answers, answers late and does things twice: every record once, nothing
dangling, and all orphans are collected."""

from __future__ import annotations

import random
import threading
from collections import Counter
from urllib.parse import unquote

import pytest

from app.core.wire.heartbeat import EventKind
from tests.exactly_once.conftest import MakePipeline
from tests.support.collected import assert_whole_and_collected, look
from tests.support.file_pipelines import audit_files, file_sink, json_value
from tests.support.lakes import Bucket
from tests.support.object_store import Fault
from tests.support.tasks import running
from tests.support.waiting import wait_for

RECORDS = 200
WAVES = 3
HANGING = 3
UPLOADS_WITHIN_MS = 1_500
FAULTS_OF_A_FILE = 3
"""More in a row would be a store that is away, which other tests are about: how long it lasts would be up to chance."""


@pytest.mark.parametrize(
    ("fault", "one_in"),
    # moto stores a changed upload as it is; its checkpoint is over when that is detected.
    [(Fault.ERROR, 3), (Fault.LOST, 3), (Fault.TWICE, 3), (Fault.CHANGED, 12)],
)
def test_requests_meet_a_fault_and_every_record_is_there_once(
    make_pipeline: MakePipeline, bucket: Bucket, rng: random.Random, fault: Fault, one_in: int
) -> None:
    pipeline = make_pipeline(value_of=json_value, files=file_sink(bucket))
    drawn = rng.getrandbits(32)
    met: Counter[str] = Counter()

    def sometimes(_method: str, path: str, before: int) -> Fault:
        # By chance: in turns it would always be the same step of an upload.
        if met[file_of(path)] == FAULTS_OF_A_FILE or random.Random(f"{drawn}/{before}").randrange(one_in):
            return Fault.NONE
        met[file_of(path)] += 1
        return fault

    bucket.proxy.fault = sometimes
    with running(pipeline.specification()) as task:
        for wave in range(1, WAVES + 1):
            pipeline.feed(RECORDS)
            task.wait_for_records(2 * wave * RECORDS)
        task.drain()
    assert met
    assert_whole_and_collected(pipeline, bucket)


def test_store_that_is_away_for_longer_than_uploads_may_take_holds_everything_up(
    make_pipeline: MakePipeline, bucket: Bucket
) -> None:
    pipeline = make_pipeline(value_of=json_value, files=file_sink(bucket, upload_timeout_ms=UPLOADS_WITHIN_MS))
    is_away = threading.Event()
    bucket.proxy.fault = lambda _method, _path, _before: Fault.ERROR if is_away.is_set() else Fault.NONE
    with running(pipeline.specification()) as task:
        pipeline.feed(RECORDS)
        task.wait_for_records(2 * RECORDS)
        is_away.set()
        pipeline.feed(RECORDS)
        task.wait_for_event(EventKind.ABORTED, times=2)
        assert task.control.last.counters.records_in == 2 * RECORDS
        is_away.clear()
        task.wait_for_records(4 * RECORDS)
        task.drain()
    assert not assert_whole_and_collected(pipeline, bucket).orphans


def test_upload_that_arrives_when_its_checkpoint_is_over_is_an_orphan(
    make_pipeline: MakePipeline, bucket: Bucket
) -> None:
    """It hangs until its time is over; its records go into other files, and then it arrives after all."""
    pipeline = make_pipeline(value_of=json_value, files=file_sink(bucket, upload_timeout_ms=UPLOADS_WITHIN_MS))
    is_hanging = threading.Event()
    late: list[str] = []

    def fault(method: str, path: str, _before: int) -> Fault:
        # Not more: every upload that hangs has a thread, of which there are only so many.
        if method != "PUT" or not is_hanging.is_set() or len(late) == HANGING:
            return Fault.NONE
        late.append(path)
        return Fault.HELD

    bucket.proxy.fault = fault
    with running(pipeline.specification()) as task:
        pipeline.feed(RECORDS)
        task.wait_for_records(2 * RECORDS)
        is_hanging.set()
        pipeline.feed(RECORDS)
        wait_for(lambda: bucket.proxy.is_holding, 30, "an upload that hangs")
        task.wait_for_event(EventKind.ABORTED)
        is_hanging.clear()
        task.wait_until(lambda seen: seen.counters.records_in >= 4 * RECORDS, "all records", deadline_s=60)
        task.drain()
    let_arrive(bucket)
    found = assert_whole_and_collected(pipeline, bucket)
    # With the others of their checkpoint, which did not hang.
    assert {unquote(path).partition("/lake/")[2] for path in late} <= set(found.orphans)
    assert len(late) == HANGING


@pytest.mark.faults
def test_any_request_may_meet_any_fault(make_pipeline: MakePipeline, bucket: Bucket, rng: random.Random) -> None:
    """Drawn for each request by the seed; what hangs is let go when all else is done."""
    pipeline = make_pipeline(value_of=json_value, files=file_sink(bucket, upload_timeout_ms=UPLOADS_WITHIN_MS))
    drawn = rng.getrandbits(32)
    hanging = [Fault.HELD, Fault.UNANSWERED]
    faults = [fault for fault in Fault if fault not in (Fault.NONE, *hanging)]
    met: Counter[str] = Counter()

    def fault(_method: str, path: str, before: int) -> Fault:
        of_this = random.Random(f"{drawn}/{before}")
        met[file_of(path)] += 1
        if met[file_of(path)] > 2 * FAULTS_OF_A_FILE:
            return Fault.NONE
        if of_this.random() < 0.01:
            return of_this.choice(hanging)
        return of_this.choice(faults) if of_this.random() < 0.4 else Fault.NONE

    bucket.proxy.fault = fault
    with running(pipeline.specification()) as task:
        for wave in range(1, 2 * WAVES + 1):
            pipeline.feed(RECORDS)
            # Its duration is random; progress is not.
            while (reached := task.control.last.counters.records_in) < 2 * wave * RECORDS:
                task.wait_until(
                    lambda seen, reached=reached: seen.counters.records_in > reached, f"wave {wave}", deadline_s=60
                )
        task.drain()
    bucket.proxy.fault = lambda _method, _path, _before: Fault.NONE
    let_arrive(bucket)
    assert_whole_and_collected(pipeline, bucket)


def test_reference_whose_file_is_gone_is_seen_by_judge_and_collector(
    make_pipeline: MakePipeline, bucket: Bucket
) -> None:
    """The negative control of all other tests here."""
    pipeline = make_pipeline(value_of=json_value, files=file_sink(bucket))
    pipeline.feed(RECORDS)
    with running(pipeline.specification()) as task:
        task.wait_for_records(2 * RECORDS)
        task.drain()
    gone = assert_whole_and_collected(pipeline, bucket).references[0]
    bucket.delete(gone["path"])
    found = audit_files(pipeline, bucket)
    assert found.dangling == (gone["path"],)
    assert len(found.lost) == gone["records"]
    findings = look(pipeline, bucket)
    assert [one.path for one in findings.missing] == [gone["path"]]


def file_of(path: str) -> str:
    """For any request about it."""
    return path.partition("?")[0]


def let_arrive(bucket: Bucket) -> None:
    """Release the hanging calls, which have ended when this returns."""
    bucket.proxy.release()
    wait_for(lambda: not bucket.proxy.under_way, 30, lambda: f"{bucket.proxy.under_way} requests to end")
