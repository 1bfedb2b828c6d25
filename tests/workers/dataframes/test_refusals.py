"""What the sink of DataFrames refuses, with the way out, so that nothing is lost or written twice."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any, cast

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient  # pyright: ignore[reportPrivateImportUsage]

from tests.support.dataframes.drivers import Driver
from tests.support.dataframes.jobs import EACH, EVENTS, Job, run_until_killed
from tests.support.quiet import QUIET
from tests.support.topics import unique_name
from tests.support.waiting import wait_for
from tests.workers.dataframes.conftest import Control, Drivers, MakeJob

pytestmark = pytest.mark.slow


def refusal(driver: Driver, **order: Any) -> str:
    answer = driver.do(do="run", **order)
    assert "error" in answer, "nothing was refused"
    return answer["text"].splitlines()[0]


def ask(driver: Driver, call: str, job: Job, **arguments: Any) -> Any:
    given = {"bootstrap_servers": job.bootstrap_servers, "name": job.name, "topic": job.topic, **arguments}
    answer = driver.do(do="ask", call=call, arguments=given)
    assert "error" not in answer, answer["text"]
    return answer["answer"]


def forget_markers(job: Job, group: str = "") -> None:
    """As their expiry does. group: that of the query; empty: the default, its name."""
    admin = AdminClient({"bootstrap.servers": job.bootstrap_servers, **QUIET})
    # The admin client's futures have no type for their result.
    group = group or job.name
    admin.delete_consumer_groups([group])[group].result(30)  # pyright: ignore[reportUnknownMemberType]


def wait_until_empty(job: Job, group: str = "") -> None:
    """Until the session of the killed driver has ended. group: as of `forget_markers`."""
    group = group or job.name
    admin = AdminClient({"bootstrap.servers": job.bootstrap_servers, **QUIET})

    def is_empty() -> bool:
        # The admin client's futures have no type for their result.
        described: Any = cast(Any, admin).describe_consumer_groups([group])[group].result(30)
        return described.state.name == "EMPTY"

    wait_for(is_empty, 60, f"group {group} is empty")


SHORT_SESSION = {"options": {"kafka.session.timeout.ms": "6000", "kafka.heartbeat.interval.ms": "1000"}}


def test_a_deleted_checkpoint_is_refused_and_the_query_goes_on_where_it_ended_or_begins_anew(
    drivers: Drivers, events: str, make_job: MakeJob, control: Control
) -> None:
    expected = control("stateless")
    job = make_job()
    driver = drivers.living()
    driver.run(**job.order(events, "stateless"))
    shutil.rmtree(job.checkpoint)
    said = refusal(driver, **job.order(events, "stateless"))
    assert "is new or was deleted, but" in said
    assert "start_over" in said
    assert job.rows() == expected

    ends = ask(driver, "starting_offsets", job)
    ask(driver, "start_over", job, reason="the checkpoint was deleted by mistake")
    assert ask(driver, "markers", job) == [{"writer": 0, "query": None, "batch": -1, "writers": 1}]
    driver.run(**job.order(events, "stateless", starting_offsets=ends))
    assert job.rows() == expected

    shutil.rmtree(job.checkpoint)
    ask(driver, "start_over", job, reason="everything again")
    driver.run(**job.order(events, "stateless"))
    assert sum(job.rows().values()) == 2 * EVENTS


def test_a_checkpoint_behind_kafka_is_refused(drivers: Drivers, events: str, make_job: MakeJob, tmp_path: Path) -> None:
    job = make_job()
    driver = drivers.living()
    driver.stop_at("ENDED", batch=2)
    run_until_killed(driver, **job.order(events, "stateless"))
    shutil.rmtree(job.checkpoint / "offsets", ignore_errors=False)
    (job.checkpoint / "offsets").mkdir()
    shutil.rmtree(job.checkpoint / "commits")
    said = refusal(drivers.living(), **job.order(events, "stateless"))
    assert "is behind Kafka: its newest batch is -1, but batch 2" in said
    assert sum(job.rows().values()) == 3 * EACH


def test_a_checkpoint_ahead_of_kafka_is_refused(drivers: Drivers, events: str, make_job: MakeJob) -> None:
    job = make_job()
    driver = drivers.living()
    driver.run(**job.order(events, "stateless"))
    ask(driver, "start_over", job, reason="as a cluster that lost transactions")
    said = refusal(driver, **job.order(events, "stateless"))
    assert "Kafka is behind the checkpoint: batch" in said
    assert sum(job.rows().values()) == EVENTS


@pytest.mark.parametrize("is_pipeline", [True, False])
@pytest.mark.parametrize("is_committed", [True, False])
def test_a_batch_in_doubt_whose_markers_have_expired_is_settled_by_an_operator(
    is_committed: bool, is_pipeline: bool, drivers: Drivers, events: str, make_job: MakeJob, control: Control
) -> None:
    """A pipeline of Fenceline names its group and the prefix of its transactional ids (docs/dataframe-pipelines.md)."""
    expected = control("stateless")
    job = make_job()
    named = {"groupId": f"{job.name}-group", "transactionalIdPrefix": f"fl.t.{job.name}.0"} if is_pipeline else {}
    group = named.get("groupId", "")
    driver = drivers.living()
    driver.stop_at("COMMITTED" if is_committed else "SENT", batch=1)
    run_until_killed(driver, **job.order(events, "stateless", options={**SHORT_SESSION["options"], **named}))
    wait_until_empty(job, group)
    forget_markers(job, group)
    said = refusal(drivers.living(), **job.order(events, "stateless", options=named))
    assert f"batch 1 of {job.name} may or may not be in Kafka" in said
    assert "settle" in said
    arguments = {"checkpoint": str(job.checkpoint), "committed": is_committed, "reason": "looked into the topic"}
    ask(drivers.living(), "settle", job, options=named, **arguments)
    drivers.living().run(**job.order(events, "stateless", options=named))
    assert job.rows() == expected


def test_markers_that_expired_between_batches_are_written_again(
    drivers: Drivers, events: str, make_job: MakeJob, control: Control
) -> None:
    expected = control("stateless")
    job = make_job()
    driver = drivers.living()
    driver.run(**job.order(events, "stateless", **SHORT_SESSION))
    driver.kill()
    wait_until_empty(job)
    forget_markers(job)
    drivers.living().run(**job.order(events, "stateless"))
    assert job.rows() == expected
    (marker,) = ask(drivers.living(), "markers", job)
    assert marker["batch"] == EVENTS // EACH - 1


def test_other_offsets_for_a_committed_batch_are_refused(drivers: Drivers, events: str, make_job: MakeJob) -> None:
    job = make_job()
    driver = drivers.living()
    driver.stop_at("COMMITTED", batch=1)
    run_until_killed(driver, **job.order(events, "stateless"))
    offsets = job.checkpoint / "offsets" / "1"
    offsets.write_text(offsets.read_text().replace('"0":500', '"0":400'))
    (job.checkpoint / "offsets" / ".1.crc").unlink()
    said = refusal(drivers.living(), **job.order(events, "stateless"))
    assert f"batch 1 of {job.name} was written with other offsets" in said
    assert sum(job.rows().values()) == 2 * EACH


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"topic": "absent-topic"}, "topic absent-topic does not exist. Create it first"),
        ({"writers": 5}, "5 writers need a topic with as many partitions"),
        ({"writers": 0}, 'option writers is "0"'),
        ({"name": "a b"}, 'option name is "a b"'),
        ({"options": {"kafka.acks": "1"}}, "option kafka.acks is set by the sink itself"),
        ({"options": {"kafka.transactional.id": "x"}}, "option kafka.transactional.id is set by the sink itself"),
        ({"options": {"topics": "x"}}, "the sink has no option topics"),
        ({"options": {"asyncProgressTrackingEnabled": "true"}}, "asyncProgressTrackingEnabled cannot be exactly once"),
        ({"options": {"idempotenceKey": "x"}}, "exclude each other"),
    ],
)
def test_an_option_is_refused_by_its_name(
    change: dict[str, Any], said: str, drivers: Drivers, events: str, make_job: MakeJob
) -> None:
    job = make_job()
    assert said in refusal(drivers.living(), **{**job.order(events, "stateless"), **change})
    assert not job.rows()


def test_a_broker_that_does_not_answer_is_named_within_seconds(
    drivers: Drivers, events: str, make_job: MakeJob
) -> None:
    job = make_job()._replace(bootstrap_servers="127.0.0.1:1")
    driver = drivers.living()
    began = time.monotonic()
    said = refusal(driver, **job.order(events, "stateless"))
    assert "no broker of kafka.bootstrap.servers=127.0.0.1:1 answered in 15 s. Check the address" in said
    assert time.monotonic() - began < 40


def test_a_plan_that_is_not_deterministic_has_one_writer(drivers: Drivers, events: str, make_job: MakeJob) -> None:
    said = refusal(drivers.living(), **make_job().order(events, "random_rows", writers=2))
    assert "is not deterministic, so 2 writers could lose or repeat rows" in said


def test_the_group_of_another_application_is_refused(drivers: Drivers, events: str, make_job: MakeJob) -> None:
    job = make_job()
    group = unique_name("group")
    other = Consumer({"bootstrap.servers": job.bootstrap_servers, **QUIET, "group.id": group})
    other.subscribe([job.topic])
    try:
        wait_for(lambda: other.poll(0.1) is None and bool(other.assignment()), 30, "the other member's assignment")
        drivers.living().begin(do="run", **job.order(events, "stateless", options={"groupId": group}))
        # It must go on to poll, or the driver could not join.
        wait_for(lambda: (other.poll(0.1), drivers.living().has_answered())[1], 60, "an answer")
        assert f"group {group} has other members" in drivers.living().answer()["text"]
    finally:
        other.close()
    assert not job.rows()
