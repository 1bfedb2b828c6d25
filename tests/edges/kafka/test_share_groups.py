"""Share groups (KIP-932) are listed and described like every other kind; data that is not decoded is reported."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Generator
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.core.blocked.diagnosis import AdviceVerdict, Asked, DiagnosisKind
from app.core.blocked.service.explaining import explain
from app.core.clusters.brokers import Connection, GroupDescription
from app.core.journals import group_records
from app.core.journals.live_groups import GroupKind, GroupState, LiveGroup
from app.core.observing.group_list import members_of
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.admin import KafkaBrokers
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.cluster_client import ask
from app.edges.kafka.transactions.brokers import KafkaTransactions
from tests.edges.kafka.test_observed_journals import tail_of
from tests.support.kafka_tools import running_tool
from tests.support.serving import FENCELINE
from tests.support.topics import create_topic, delete_topics, unique_name
from tests.support.waiting import wait_for
from tests.support.watched import watching

_CONSOLE = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"

_BY_ITS_OWN_CLOCK = "times of broker 1 are by its own clock, measurable only with an open transaction"


@pytest.fixture(scope="module")
def share_group(kafka: KafkaCluster, tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[str, str]]:
    """A group with one member that has both partitions of a topic: (group, topic)."""
    servers = kafka.bootstrap_servers
    topic, group = unique_name("shared"), unique_name("share")
    create_topic(servers, topic, partitions=2)
    arguments = ("--bootstrap-server", servers, "--topic", topic, "--group", group)
    output = tmp_path_factory.mktemp("share") / "consumer.txt"
    with running_tool(_CONSOLE, *arguments, output=output):
        # Its coordinator is asked first: that makes the journal.
        wait_for(lambda: _described(servers, group).members, 60, lambda: f"a member: {output.read_text()}")
        wait_for(lambda: _owned(_asked(kafka, group)) == {(topic, (0, 1))}, 60, lambda: f"{_asked(kafka, group)}")
        yield group, topic
    delete_topics(servers, [topic])


def _described(servers: str, group: str) -> GroupDescription:
    return ask(
        {"bootstrap.servers": servers}, ConnectionAttempt(servers, 30), group, lambda client: client.describe(group)
    )


def _asked(kafka: KafkaCluster, group: str) -> LiveGroup | None:
    with tail_of(kafka, group_records.TOPIC) as tail:
        polled = tail.ask_group_coordinators(is_wanted=lambda name: name == group)
    assert not polled.missing
    return polled.found.get(group)


def _owned(group: LiveGroup | None) -> set[tuple[str, tuple[int, ...]]]:
    members = () if group is None else members_of(group)
    return {(at.topic, at.partitions) for member in members for at in member.owned}


def test_share_group_is_read_from_the_journal_and_its_coordinator(
    kafka: KafkaCluster, share_group: tuple[str, str], tmp_path: Path
) -> None:
    group, topic = share_group
    with watching(kafka, tmp_path) as watched:
        seen = watched.until(lambda seen: _owned(seen.groups.get(group)) == {(topic, (0, 1))}, "the share group")
        assert not seen.group_journal.unreadable
    polled, journal = _asked(kafka, group), seen.groups[group]
    assert polled is not None
    for found in (polled, journal):
        assert (found.kind, found.state, found.member_count) == (GroupKind.SHARE, GroupState.STABLE, 1)
        assert "__share_group_state" in found.not_decoded
        assert not found.offsets
    assert polled.generation == journal.generation
    (by_call,), (by_journal,) = members_of(polled), members_of(journal)
    assert (by_call.member_id, by_call.client_id, by_call.host) == (
        by_journal.member_id,
        by_journal.client_id,
        by_journal.host,
    )
    assert by_journal.epoch == by_call.epoch


async def test_share_group_is_described_and_explained(
    brokers: KafkaBrokers, connection: Connection, share_group: tuple[str, str]
) -> None:
    group, _ = share_group
    described = await brokers.describe_group(connection, group)
    assert (described.protocol, described.state, len(described.members)) == ("share", "Stable", 1)
    transactions = KafkaTransactions(environment={}, secrets_dir=None)

    async def asked_by(_: object) -> Asked:
        return Asked(bootstrap_servers=connection["bootstrap.servers"], now_ms=0)

    for kind in (None, DiagnosisKind.GROUP):
        explained = await explain(transactions, connection, group, asked_by, kind=kind)
        assert (explained.kind, explained.verdict) == (DiagnosisKind.GROUP, AdviceVerdict.CANNOT_TELL)
        assert "__share_group_state, which is not decoded" in explained.headline


@pytest.mark.parametrize(
    "arguments",
    [("groups",), ("groups", "GROUP"), ("stuck", "GROUP")],
    ids=["list", "detail", "stuck"],
)
def test_command_knows_share_groups(
    kafka: KafkaCluster, share_group: tuple[str, str], tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    group, topic = share_group
    named = [group if one == "GROUP" else one for one in arguments]
    ended = subprocess.run(
        [*FENCELINE, *named, "--bootstrap-server", kafka.bootstrap_servers, "--json"],
        cwd=tmp_path,
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = orjson.loads(ended.stdout)
    if named == ["groups"]:
        # Unless another test has left a transaction open, it says by which clock its times are, and nothing else.
        assert found["remark"] in ("", _BY_ITS_OWN_CLOCK)
        (found,) = [one for one in found["items"] if one["group"] == group]
    if named[0] == "stuck":
        assert "not decoded" in found["headline"]
        return
    assert (found["kind"], found["state"], found["members"]) == ("share", "Stable", 1)
    if group in named:
        assert "__share_group_state" in found["not_decoded"]
        assert found["member_list"][0]["owned"] == [{"topic": topic, "partitions": [0, 1]}]
