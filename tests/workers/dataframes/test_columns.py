"""The columns of the sink of DataFrames become key, value, headers, topic, partition and timestamp of records."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.dataframes.drivers import driver
from tests.support.dataframes.jobs import EVENTS
from tests.support.topics import create_topic, unique_name
from tests.support.verifier import Found, read_all
from tests.workers.dataframes.conftest import Drivers, MakeJob

pytestmark = pytest.mark.slow


def test_each_column_is_part_of_the_record(
    events: str, make_job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job()
    other = unique_name("other")
    create_topic(job.bootstrap_servers, other, partitions=4)
    monkeypatch.setenv("FENCELINE_TEST_OTHER_TOPIC", other)
    with driver(tmp_path) as of_this:
        of_this.run(**job.order(events, "all_columns"))
    sink, routed = read_all(job.bootstrap_servers, job.topic), read_all(job.bootstrap_servers, other)
    assert len(sink) + len(routed) == EVENTS
    assert {number_of(found) for found in routed} == set(range(0, EVENTS, 7))
    for found in [*sink, *routed]:
        number = number_of(found)
        assert (found.key is None) == (number % 2 == 1)
        assert (found.value is None) == (number % 5 == 0)
        assert list(found.headers) == ([("id", str(number).encode())] if number % 3 == 0 else [])
        if number % 11 == 0:
            assert found.partition == 2


def number_of(found: Found) -> int:
    """The event's number, by the timestamp that the query gave the record."""
    return found.timestamp_ms // 1000 - 1_600_000_000


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("unknown_column", "column origin is not one of key, value, headers, topic, partition, timestamp."),
        ("number_as_value", "column value is BIGINT. It must be string or binary."),
    ],
)
def test_a_column_that_does_not_fit_is_refused_by_name(
    kind: str, said: str, drivers: Drivers, events: str, make_job: MakeJob
) -> None:
    job = make_job()
    answer = drivers.living().do(do="run", **job.order(events, kind))
    assert said in answer["text"]
    assert not job.rows()
