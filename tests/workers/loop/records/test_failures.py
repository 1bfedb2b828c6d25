"""How many bad records stop the pipeline where several checkpoints are open. On a broker: test_bad_records.py."""

from __future__ import annotations

import pytest
from confluent_kafka import Message

from app.core.pipelines.pipeline import ErrorHandling, FailurePolicy
from tests.support.tasks import RecordingControl
from workers.loop.errors import PipelineStopError
from workers.loop.records.failures import BadRecords, FailureWindow
from workers.loop.telling.tally import Work

HANDLING = ErrorHandling(policy=FailurePolicy.SKIP, max_bad=3, window_records=1_000)


def shared(count: int) -> list[BadRecords]:
    window = FailureWindow()
    return [BadRecords(HANDLING, announce=RecordingControl().event, window=window) for _ in range(count)]


def meet_bad_one(bad_records: BadRecords) -> None:
    message = Message(topic="t", partition=0, offset=7, value=b"x")
    bad_records.read(1)
    bad_records.treat(message, ValueError("no number"), Work())


def test_bad_records_of_all_open_checkpoints_count_together() -> None:
    each = shared(4)
    for bad_records in each[:3]:
        meet_bad_one(bad_records)
    with pytest.raises(PipelineStopError, match="4 bad records within 1000, at most 3"):
        meet_bad_one(each[3])


def test_those_of_an_aborted_checkpoint_do_not_count_and_those_of_a_committed_one_count_once() -> None:
    each = shared(4)
    for bad_records in each[:3]:
        meet_bad_one(bad_records)
    each[0].committed()
    each[1].aborted()
    each[1].aborted()
    meet_bad_one(each[3])
    with pytest.raises(PipelineStopError, match="4 bad records"):
        meet_bad_one(each[3])
