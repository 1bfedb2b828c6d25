"""Two applications with one ordinal: one continues, the other ends as superseded, and fencing stops there."""

from __future__ import annotations

import time

import pytest

from app.core.ids.transaction_counts import TransactionCounts, count_transactions
from app.edges.kafka.transaction_journal import read_transaction_journal
from tests.support import verifier
from tests.support.feeder import Feeder
from tests.support.pipelines import TestPipeline
from tests.support.spark_instances import SparkInstances
from tests.support.topics import unique_name
from tests.support.waiting import wait_for
from workers.spark.exit_codes import DriverExitCode

pytestmark = [pytest.mark.faults, pytest.mark.slow]
# Long enough for some fifty fencings, and for what would begin again after a while.
HELD_S = 15
HELD_IN_FULL_S = 60


def test_two_applications_on_one_ordinal(spark_instances: SparkInstances, everything: bool) -> None:
    """Without a server, so that nobody tells the older one: it must find out from the journal (rule 5).

    Before the rule the two fenced each other about three times a second, for ever.
    """
    held_s = HELD_IN_FULL_S if everything else HELD_S
    bootstrap = spark_instances.bootstrap_servers
    pipeline = TestPipeline.create(bootstrap, partitions=2)
    definition = spark_instances.definition(
        source=pipeline.source, sink=pipeline.sink, group=pipeline.definition.group_id
    )
    name, run_id = unique_name("twice"), unique_name("run")
    feeder = Feeder(pipeline, records_per_s=200)
    feeder.start()
    try:
        specifications = [
            spark_instances.specification(definition, run_id=run_id, pipeline=name, lease=lease) for lease in (1, 2)
        ]
        older = spark_instances.submit(specifications[0])
        group = pipeline.definition.group_id
        wait_for(lambda: verifier.committed_offsets(bootstrap, group), 90, lambda: f"a commit; {older.log()[-2000:]}")
        newer = spark_instances.submit(specifications[1])
        began = time.monotonic()
        wait_for(lambda: counts(bootstrap, name).inits >= 2, 90, lambda: f"a second init; {newer.log()[-2000:]}")

        ended = older.wait_until_gone(60)
        assert ended.outcome is not None, older.log()[-3000:]
        assert ended.outcome.kind == "superseded", ended.outcome
        assert older.exit_code() == DriverExitCode.SUPERSEDED
        wait_for(lambda: time.monotonic() - began >= held_s, held_s + 10, "their time together to be over")

        before = counts(bootstrap, name)
        assert before.fencings <= 2, before
        assert before.inits <= 3, before
        wait_for(
            lambda: counts(bootstrap, name).committed > before.committed + 10,
            30,
            lambda: f"more commits than {before} of the newer one; {newer.log()[-2000:]}",
        )
    finally:
        feeder.stop()
    source_ends = verifier.end_offsets(bootstrap, pipeline.source, verifier.READ_COMMITTED)
    wait_for(
        lambda: (
            verifier.committed_offsets(bootstrap, pipeline.definition.group_id)
            == {(pipeline.source, number): end for number, end in source_ends.items()}
        ),
        60,
        lambda: f"the group at {source_ends}",
    )
    newer.sigterm()
    newer.wait_until_gone(40)
    assert newer.exit_code() == DriverExitCode.DRAINED
    pipeline.assert_whole()


def counts(bootstrap_servers: str, pipeline: str) -> TransactionCounts:
    """Return the brokers' own journal records of the pipeline's ids."""
    prefixes = (f"fl.t.{pipeline}.",)
    journal = read_transaction_journal({"bootstrap.servers": bootstrap_servers}, prefixes=prefixes)
    return count_transactions(journal, prefixes=prefixes)
