"""The sink of DataFrames on a real broker: what is killed and repeated is in Kafka once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.support.dataframes.drivers import driver, mutated_sink
from tests.support.dataframes.jobs import CARRIERS, EACH, EPOCH_S, EVENTS, comparable, run_until_killed
from tests.workers.dataframes.conftest import Control, Drivers, MakeJob

KINDS = ["stateless", "random_rows", "window", "join", "dedup", "transform_with_state"]
STEPS = ["CLAIMED", "FENCED", "CHECKED", "PLANNED", "READY", "MARKED", "SENT", "COMMITTED", "ENDED"]


@pytest.mark.core
@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", STEPS)
def test_a_driver_killed_at_a_step_writes_the_batch_once(
    step: str, kind: str, drivers: Drivers, events: str, make_job: MakeJob, control: Control
) -> None:
    expected = control(kind)
    job = make_job()
    driver = drivers.living()
    # The first three belong to the start of a query, not to a batch.
    driver.stop_at(step, batch=None if step in STEPS[:3] else 1)
    run_until_killed(driver, **job.order(events, kind))
    drivers.living().run(**job.order(events, kind))
    assert comparable(kind, job.rows()) == expected


@pytest.mark.slow
def test_a_failed_attempt_is_repeated_by_spark_and_writes_once(
    drivers: Drivers, events: str, make_job: MakeJob, control: Control
) -> None:
    for step in ("READY", "MARKED", "SENT", "COMMITTED"):
        job = make_job()
        driver = drivers.living()
        driver.stop_at(step, batch=1, action="fail")
        progress = driver.run(**job.order(events, "random_rows"))
        assert driver.has_reached(step)
        assert comparable("random_rows", job.rows()) == control("random_rows"), step
        drained = int(progress[-1]["sink"]["metrics"]["sharesFoundCommitted"])
        assert drained == (1 if step == "COMMITTED" else 0), step


@pytest.mark.slow
def test_without_the_marker_the_killed_batch_is_written_twice(
    tmp_path: Path, drivers: Drivers, events: str, make_job: MakeJob, control: Control
) -> None:
    expected = control("stateless")
    ignored = mutated_sink(
        tmp_path, [("Batch.java", "if (marker.batch() < number) {", "if (marker.batch() <= number) {")]
    )
    job = make_job()
    with driver(tmp_path, sink_jar=ignored) as first:
        first.stop_at("COMMITTED", batch=1)
        run_until_killed(first, **job.order(events, "stateless"))
    with driver(tmp_path, sink_jar=ignored) as second:
        second.run(**job.order(events, "stateless"))
    found = job.rows()
    assert found - expected
    assert sum((found - expected).values()) == EACH


@pytest.mark.slow
def test_the_windows_are_those_of_a_batch_computation(control: Control) -> None:
    found = [json.loads(value or b"") for _, value in control("window").elements()]
    wanted: Counter[tuple[int, str]] = Counter()
    delays: Counter[tuple[int, str]] = Counter()
    for number in range(EVENTS):
        window = (EPOCH_S + number // 10) // 10 * 10, CARRIERS[number % 7 % 4]
        wanted[window] += 1
        delays[window] += number % 61 - 20
    assert len(found) > 100
    for each in found:
        window = each["start"], each["carrier"]
        assert (each["n"], each["delay"]) == (wanted[window], delays[window])
    assert len({(each["start"], each["carrier"]) for each in found}) == len(found)
