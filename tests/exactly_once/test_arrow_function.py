"""A function over Arrow batches in the loop: a bad row under each policy, with native records and with messages."""

from __future__ import annotations

import msgspec
import pytest

from app.core.pipelines.pipeline import ErrorHandling, FailurePolicy, PythonFunction, PythonScope
from tests.exactly_once.conftest import MakePipeline
from tests.support import verifier
from tests.support.tasks import running
from tests.support.topics import create_topic, delete_topics
from workers.loop.errors import PipelineStopError
from workers.transforms.build import build
from workers.transforms.user_code import sha256_of

SOURCE = """
import polars as pl


def checked(batch):
    frame = pl.from_arrow(batch)
    if frame["value"].is_in([b"BAD"]).any():
        raise ValueError("it is bad")
    return frame.select("offset", "partition", "value").to_arrow()
"""
FUNCTION = PythonFunction(function="checked", scope=PythonScope.ARROW, file_name="checked.py", sha256=sha256_of(SOURCE))
EACH = 200


@pytest.mark.core
@pytest.mark.parametrize("policy", list(FailurePolicy))
@pytest.mark.parametrize("native", [True, False])
def test_a_bad_row_is_treated_by_the_policy_and_every_other_is_written_once(
    make_pipeline: MakePipeline, policy: FailurePolicy, native: bool
) -> None:
    """Control: the heartbeat names the records as they were read."""
    pipeline = make_pipeline(partitions=2, transform=FUNCTION)
    servers, dead = pipeline.bootstrap_servers, f"{pipeline.sink}.dead"
    create_topic(servers, dead)
    pipeline.feed(EACH)
    pipeline.feed_value(b"BAD", partition=1, key=b"k", headers=[("trace", b"1")])
    pipeline.feed(EACH)
    is_letter = policy is FailurePolicy.DEAD_LETTER
    errors = ErrorHandling(policy=policy, dead_letter_topic=dead if is_letter else None)
    specification = msgspec.structs.replace(pipeline.specification(errors=errors), native_records=native)
    with running(specification, transform=build(FUNCTION, source=SOURCE, sink_topic=pipeline.sink)) as task:
        if policy is FailurePolicy.FAIL:
            error = task.join_error()
            assert isinstance(error, PipelineStopError)
            assert f"{pipeline.source}-1 offset {EACH}" in str(error)
            assert "checked.py, line 8: ValueError" in str(error)
            assert "it is bad" not in str(error)
        else:
            task.wait_until(lambda last: last.counters.records_in == 4 * EACH + 1, "all records")
            task.drain()
    counters = task.control.last.counters
    if policy is FailurePolicy.FAIL:
        found = [record.value for record in verifier.read_decided(servers, pipeline.sink)]
        assert len(found) == len(set(found)) < 4 * EACH
    else:
        source = task.control.last.record_source or ""
        assert source.startswith("native" if native else "python: ")
        pipeline.assert_whole()
        assert (counters.records_skipped, counters.records_dead_lettered) == ((0, 1) if is_letter else (1, 0))
    letters = [(one.key, one.value, one.headers[0]) for one in verifier.read_decided(servers, dead)]
    assert letters == ([(b"k", b"BAD", ("trace", b"1"))] if is_letter else [])
    delete_topics(servers, [dead])
