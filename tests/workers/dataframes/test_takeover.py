"""Two drivers, several writers, and batch writes: each with the control that shows what a protection is for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support.dataframes.drivers import driver, mutated_sink
from tests.support.dataframes.jobs import EACH, EVENTS, Job, run_until_killed
from tests.support.waiting import wait_for
from tests.workers.dataframes.conftest import Control, Drivers, MakeJob

pytestmark = pytest.mark.slow

CLAIM_OFF = ("Claim.java", "return memberId == null\n", "return true\n")
FENCE_OF_OWN_WRITERS = (
    "Run.java",
    "Brokers.fence(options, Math.max(options.writers(), decided.isEmpty() ? 0 : decided.lastKey() + 1));",
    "Brokers.fence(options, options.writers());",
)
PENDING_MARKERS_IGNORED = ("Brokers.java", "return markers(true);", "return markers(false);")


@pytest.mark.parametrize("step", ["PLANNED", "READY", "MARKED", "SENT", "COMMITTED", "ENDED"])
def test_an_older_driver_that_is_held_at_a_step_is_refused_when_it_goes_on(
    step: str, drivers: Drivers, events: str, make_job: MakeJob, control: Control, tmp_path: Path
) -> None:
    expected = control("stateless")
    job = make_job()
    with driver(tmp_path) as old:
        old.stop_at(step, batch=1, action="hold")
        old.begin(do="run", **job.order(events, "stateless"))
        old.wait_until_held(step)
        drivers.living().run(**job.order(events, "stateless"))
        old.release()
        answer = old.answer()
    # After its last check of the claim, Spark finds that the newer driver has written the checkpoint's log.
    said = "CONCURRENT_STREAM_LOG_UPDATE" if step == "ENDED" else "taken over"
    assert said in answer["text"], answer["text"]
    assert job.rows() == expected


@pytest.mark.parametrize("is_claimed", [True, False])
def test_the_claim_keeps_an_older_driver_with_more_writers_from_writing(
    is_claimed: bool, events: str, make_job: MakeJob, control: Control, tmp_path: Path
) -> None:
    """The older driver initialises its second writer's id after the newer one has fenced it."""
    expected = control("stateless")
    job = make_job()
    jar = None if is_claimed else mutated_sink(tmp_path, [CLAIM_OFF])
    with driver(tmp_path, sink_jar=jar) as old, driver(tmp_path, sink_jar=jar) as new:
        old.stop_at("PLANNED", batch=0, action="hold")
        # The first writer is refused in any case, and its failure would end the second one.
        old.stop_at("READY", batch=0, writer=0, action="hold")
        old.stop_at("COMMITTED", batch=0, writer=1, action="hold")
        old.begin(do="run", **job.order(events, "stateless", writers=2))
        old.wait_until_held("PLANNED")
        new.run(**job.order(events, "stateless"))
        old.release()
        wait_for(lambda: old.has_reached("COMMITTED-0-1") or old.has_answered(), 60, old.tail)
        old.release()
        assert "error" in old.answer()
    found = job.rows()
    assert (found == expected) is is_claimed
    if not is_claimed:
        assert 0 < sum((found - expected).values()) < EACH


@pytest.mark.parametrize("is_fenced", [True, False])
def test_the_fence_ends_open_transactions_of_writers_that_the_newer_driver_does_not_have(
    is_fenced: bool, events: str, make_job: MakeJob, control: Control, tmp_path: Path
) -> None:
    expected = control("stateless")
    job = make_job()
    changes = [FENCE_OF_OWN_WRITERS, PENDING_MARKERS_IGNORED]
    jar = None if is_fenced else mutated_sink(tmp_path, changes)
    with driver(tmp_path, sink_jar=jar) as old, driver(tmp_path, sink_jar=jar) as new:
        for writer in (0, 1):
            old.stop_at("SENT", batch=0, writer=writer, action="hold")
        old.begin(do="run", **job.order(events, "stateless", writers=2))
        old.wait_until_held("SENT-0-0")
        old.wait_until_held("SENT-0-1")
        new.run(**job.order(events, "stateless"))
        old.release()
        assert "error" in old.answer()
    found = job.rows()
    assert (found == expected) is is_fenced
    if not is_fenced:
        assert 0 < sum((found - expected).values()) < EACH


@pytest.mark.parametrize("kind", ["stateless", "window"])
def test_a_batch_that_some_writers_have_committed_keeps_its_number_of_writers(
    kind: str, drivers: Drivers, events: str, make_job: MakeJob, control: Control
) -> None:
    expected = control(kind)
    for before, after in ((3, 1), (2, 4)):
        job = make_job()
        first = drivers.living()
        first.stop_at("COMMITTED", batch=1, writer=1)
        run_until_killed(first, **job.order(events, kind, writers=before))
        second = drivers.living()
        progress = second.run(**job.order(events, kind, writers=after))
        assert job.rows() == expected, (before, after)
        asked = {"bootstrap_servers": job.bootstrap_servers, "name": job.name, "topic": job.topic}
        markers = second.do(do="ask", call="markers", arguments=asked)["answer"]
        last = progress[-1]["batchId"]
        assert [(each["batch"], each["writers"]) for each in markers[:after]] == [(last, after)] * after
        assert [(each["batch"], each["writers"]) for each in markers[after:]] == [(1, before)] * max(0, before - after)


def test_rows_without_keys_are_divided_among_the_writers(drivers: Drivers, events: str, make_job: MakeJob) -> None:
    """Spark puts all rows with the same key into one partition, also those whose key is null."""
    job = make_job()
    drivers.living().run(**job.order(events, "no_keys", writers=2))
    assert len(job.rows()) == EVENTS
    shares = rows_of_the_last_batch(job, writers=2)
    assert all(count > 0.3 * sum(shares) for count in shares), shares


def rows_of_the_last_batch(job: Job, *, writers: int) -> list[int]:
    """How many rows each writer had, by its marker."""
    consumer = Consumer({"bootstrap.servers": job.bootstrap_servers, "group.id": job.name})
    try:
        found = consumer.committed([TopicPartition(job.topic, writer) for writer in range(writers)], 20)
    finally:
        consumer.close()
    return [int((entry.metadata or "").split()[5].partition(":")[0]) for entry in found]


def test_rows_that_change_their_writer_when_a_batch_is_repeated_are_found(
    drivers: Drivers, events: str, make_job: MakeJob
) -> None:
    job = make_job()
    order = job.order(events, "random_keys", options={"writers": "2", "rowsAreDeterministic": "true"})
    first = drivers.living()
    first.stop_at("COMMITTED", batch=1, writer=0)
    run_until_killed(first, **order)
    answer = drivers.living().do(do="run", **order)
    # Writer 1 may have committed as well before the kill, and may be the first to refuse.
    assert re.search("has other rows than when writer [01] committed it", answer["text"]), answer["text"]
    assert "Use one writer" in answer["text"]


def test_a_batch_write_is_one_transaction_for_each_key(
    drivers: Drivers, events: str, make_job: MakeJob, control: Control
) -> None:
    expected = control("stateless")
    for step in ("READY", "MARKED", "SENT", "COMMITTED"):
        job = make_job()
        order = {**job.order(events, "stateless"), "do": "write", "idempotence_key": "2026-11-26"}
        for absent in ("checkpoint", "each"):
            del order[absent]
        first = drivers.living()
        first.stop_at(step)
        run_until_killed(first, **order)
        assert job.rows() == (expected if step == "COMMITTED" else type(expected)()), step
        for _ in range(2):
            assert drivers.living().do(**order) == {}
            assert job.rows() == expected, step
        assert drivers.living().do(**{**order, "idempotence_key": "2026-11-27"}) == {}
        assert sum(job.rows().values()) == 2 * EVENTS
