"""The materialized state of a running broker, against `kafka-transactions.sh` and `kafka-consumer-groups.sh`."""

from __future__ import annotations

import pytest

from app.core.journals import group_records
from app.core.journals.group_fold import LiveGroups
from app.core.journals.live_transactions import LiveTransactions
from app.core.journals.transaction_state import TOPIC as TRANSACTIONS
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.raw_fetch import read_logs
from tests.support.brokers import TEST_BROKER_SETTINGS
from tests.support.journal_recording import VERSIONS, Stage, Version, play
from tests.support.kafka_tools import rows, run_tool

pytestmark = pytest.mark.slow

# How the tools spell a status.
_STATUS = {
    "EMPTY": "Empty",
    "ONGOING": "Ongoing",
    "COMPLETE_COMMIT": "CompleteCommit",
    "COMPLETE_ABORT": "CompleteAbort",
}


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.name)
def test_journals_say_what_kafkas_own_tools_say(version: Version) -> None:
    overrides = {**TEST_BROKER_SETTINGS, **version.settings}
    with KafkaCluster.start(jars=version.jars, overrides=overrides) as cluster:
        servers = cluster.bootstrap_servers
        stage = Stage(servers, version.jars)
        play(stage)
        live = LiveTransactions()
        for partition, batch in read_logs({"bootstrap.servers": servers}, ConnectionAttempt(servers, 30), TRANSACTIONS):
            live.apply(partition, batch)
        groups = LiveGroups()
        for partition, batch in read_logs(
            {"bootstrap.servers": servers}, ConnectionAttempt(servers, 30), group_records.TOPIC
        ):
            groups.apply(partition, batch)
        assert not live.reading.unreadable
        assert not groups.reading.unreadable
        _assert_transactions_agree(stage, live)
        _assert_offsets_agree(stage, groups)


def _assert_transactions_agree(stage: Stage, live: LiveTransactions) -> None:
    def ask(*arguments: str) -> list[dict[str, str]]:
        command = "org.apache.kafka.tools.TransactionsCommand"
        return rows(run_tool(command, "--bootstrap-server", stage.bootstrap_servers, *arguments, jars=stage.jars))

    # One id has spaces in it, which a table of the tool does not survive.
    listed = {row["TransactionalId"]: row for row in ask("list") if row["TransactionalId"] != "odd"}
    ours = {name: one for name, one in live.ids.items() if " " not in name}
    assert {name: (row["ProducerId"], row["TransactionState"]) for name, row in listed.items()} == {
        name: (str(one.state.producer_id), _STATUS[one.state.status.name]) for name, one in ours.items()
    }
    for name in ("open-0", "taken-0", "late-0"):
        (described,) = ask("describe", "--transactional-id", name)
        state = live.ids[name].state
        assert (described["ProducerId"], described["ProducerEpoch"], described["TransactionTimeoutMs"]) == (
            str(state.producer_id),
            str(state.producer_epoch),
            str(state.timeout_ms),
        )
        assert described["TransactionState"] == _STATUS[state.status.name]
        if live.ids[name].is_open:
            partitions = {f"{at.topic}-{number}" for at in state.partitions or () for number in at.partitions}
            assert set(described["TopicPartitions"].split(",")) == partitions
            assert described["CurrentTransactionStartTimeMs"] == str(state.start_ms)


def _assert_offsets_agree(stage: Stage, groups: LiveGroups) -> None:
    def describe(group: str, what: str) -> str:
        command = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
        arguments = ("--bootstrap-server", stage.bootstrap_servers, "--describe", "--group", group, what)
        return run_tool(command, *arguments, jars=stage.jars)

    for group in ("copier", "classic", "modern"):
        theirs = {
            (row["TOPIC"], int(row["PARTITION"])): int(row["CURRENT-OFFSET"])
            for row in rows(describe(group, "--offsets"))
            if row["CURRENT-OFFSET"] != "-"
        }
        live = groups.groups[group]
        assert {at: found.commit.offset for at, found in live.offsets.items()} == theirs
        # The column before these two is empty for a group without members.
        *_, state, member_count = describe(group, "--state").split()
        assert state == live.state
        members = live.members if live.has_epoch else (live.classic.members if live.classic else ())
        assert member_count == str(len(members))
