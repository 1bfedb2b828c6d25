"""Kafka Streams beside a pipeline: each commit raises its epochs, and its state after kill -9."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from app.core.blocked.facts import KnownTransaction
from app.core.fencing.cause import judge_case
from app.core.fencing.comeback import with_members
from app.core.fencing.fencing_event import FencingCause
from app.core.fencing.steps import cases_of
from app.core.journals import group_records
from app.core.journals.live_groups import GroupKind, GroupState, LiveGroup
from app.core.journals.live_transactions import ClientProtocol, EpochStepKind, LiveTransaction
from app.core.journals.transaction_state import TopicPartitions, TransactionStatus
from app.core.observing.group_list import members_of
from app.core.observing.snapshot import Snapshot
from app.edges.embedded.kafka import KafkaCluster
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.cluster_client import ask
from app.edges.kafka.transactions.client import TransactionClient
from tests.edges.kafka.test_observed_journals import tail_of
from tests.support.journal_events import causes_of
from tests.support.kafka_tools import compile_streams_program, running_program, source_of
from tests.support.pipelines import TestPipeline
from tests.support.streams_recording import (
    PROGRAM,
    Stage,
    feeding,
    frozen_past_session,
    frozen_past_session_streams,
    is_used_again,
    killed_with_its_folder,
)
from tests.support.tasks import running
from tests.support.topics import delete_topics, unique_name
from tests.support.transactions import producer
from tests.support.waiting import wait_for
from tests.support.watched import watching

_PROGRAM = "StreamsCopies"
_RECORDS = 300
_COMMITS = 100
_DEADLINE_S = 60.0


def _ids_of(seen: Snapshot, application_id: str) -> dict[str, LiveTransaction]:
    return {name: live for name, live in seen.transactions.items() if name.startswith(application_id)}


def answers(servers: str, names: list[str]) -> dict[str, tuple[object, ...]]:
    """Return the coordinators' descriptions of the ids: state, producer id, epoch, timeout."""
    with TransactionClient({"bootstrap.servers": servers}, ConnectionAttempt(servers, _DEADLINE_S)) as client:
        known = client.describe_transactions(names)
    return {
        name: (one.state, one.producer_id, one.producer_epoch, one.timeout_ms)
        for name, one in known.items()
        if isinstance(one, KnownTransaction)
    }


def shown(live: LiveTransaction) -> tuple[object, ...]:
    state = live.state
    return (state.status.word, state.producer_id, state.producer_epoch, state.timeout_ms)


def protocol_of(servers: str, group: str) -> str:
    """As its coordinator describes it, with its one member."""
    attempt = ConnectionAttempt(servers, _DEADLINE_S)
    described = ask({"bootstrap.servers": servers}, attempt, group, lambda client: client.describe(group))
    assert (described.state, len(described.members)) == ("Stable", 1)
    assert described.members[0].client_id.startswith(group)
    return described.protocol


def polled(kafka: KafkaCluster, group: str) -> LiveGroup:
    """By admin calls, as where the journal may not be read."""
    with tail_of(kafka, group_records.TOPIC) as tail:
        return tail.ask_group_coordinators(is_wanted=lambda name: name == group).found[group]


def assert_shown(group: LiveGroup, topic: str) -> None:
    """One member that owns the topic's one partition, and a position there."""
    assert group.state is GroupState.STABLE
    (member,) = members_of(group)
    assert (member.owned, member.target) == ((TopicPartitions(topic, (0,)),),) * 2
    assert group.offsets.keys() == {(topic, 0)}


@pytest.mark.slow
def test_kafka_streams_and_the_loop_are_distinguished_from_fencing(kafka: KafkaCluster, tmp_path: Path) -> None:
    """One application has a store on disk and keeps its process id, and so its transactional id; the other has none."""
    servers = kafka.bootstrap_servers
    kept_app, fresh_app, last = unique_name("kept"), unique_name("fresh"), unique_name("last")
    pipeline = TestPipeline.create(servers, partitions=1)
    pipeline.feed(_RECORDS)
    pipeline.feed_value(last.encode())
    class_path = compile_streams_program(source_of(_PROGRAM), tmp_path / "classes")
    arguments = (servers, pipeline.source, pipeline.sink, str(tmp_path / "state"), kept_app, fresh_app, "5000")

    with ExitStack() as stack:
        watched = stack.enter_context(watching(kafka, tmp_path / "folds"))
        ours = stack.enter_context(running(pipeline.specification()))
        said = tmp_path / "first.txt"
        with running_program(_PROGRAM, class_path, *arguments, last, output=said):
            wait_for(
                lambda: said.read_text().count("stopped") == 2, _DEADLINE_S, lambda: f"both to stop: {said.read_text()}"
            )
            # Nothing is committed any more: what is ongoing from here on is what they stopped with.
            stopped_ms = time.time_ns() // 1_000_000
            seen = watched.until(
                lambda seen: (
                    seen.transaction_journal.as_of_ms > stopped_ms
                    and any(one.state.status is TransactionStatus.ONGOING for one in _ids_of(seen, kept_app).values())
                ),
                "the open transaction of the one with a store",
            )
            ((kept_id, kept),) = _ids_of(seen, kept_app).items()
            ((fresh_id, _),) = _ids_of(seen, fresh_app).items()
            assert re.fullmatch(rf"{kept_app}-[0-9a-f-]{{36}}-1", kept_id)
            assert answers(servers, [kept_id]) == {kept_id: shown(kept)}
            for group, kind in ((kept_app, GroupKind.CLASSIC), (fresh_app, GroupKind.STREAMS)):
                assert polled(kafka, group).kind is seen.groups[group].kind is kind
                assert_shown(seen.groups[group], pipeline.source)
                assert seen.groups[group].offsets[pipeline.source, 0].producer_id >= 0
                assert_shown(polled(kafka, group), pipeline.source)
            assert not seen.group_journal.unreadable
            assert [protocol_of(servers, group) for group in (kept_app, fresh_app)] == ["classic", "streams"]
        ours.wait_for_records(_RECORDS + 1)
        # Killed. The next process copies everything.
        with running_program(_PROGRAM, class_path, *arguments, "nothing", output=tmp_path / "second.txt"):
            seen = watched.until(
                lambda seen: (
                    seen.transactions[kept_id].commits > kept.commits
                    and len(_ids_of(seen, fresh_app)) == 2
                    and not any(one.is_open for one in _ids_of(seen, fresh_app).values())
                ),
                "the second process, and the end of what the first one left",
            )
        ours.drain()
        drained_ms = time.time_ns() // 1_000_000
        seen = watched.until(lambda seen: seen.transaction_journal.as_of_ms > drained_ms, "the end of our loop")
    delete_topics(servers, [pipeline.source, pipeline.sink])

    assert list(_ids_of(seen, kept_app)) == [kept_id]
    before, after = (
        _ids_of(seen, fresh_app)[fresh_id],
        *(one for name, one in _ids_of(seen, fresh_app).items() if name != fresh_id),
    )
    # Without these the journal would hold nothing that could be mistaken.
    for one in (kept, before):
        assert one.client_protocol is ClientProtocol.TV_2
        assert one.commits > _COMMITS
        assert one.state.producer_epoch >= one.commits
    taken = seen.transactions[kept_id]
    assert [step.kind for step in taken.steps] == [
        EpochStepKind.INITIALISED,
        EpochStepKind.ABORTED,
        EpochStepKind.INITIALISED,
    ]
    assert causes_of(taken) == [FencingCause.APPLICATION_RETURNED]
    assert causes_of(before) == [FencingCause.TIMEOUT]
    assert causes_of(after) == []
    mine = seen.transactions[pipeline.transactional_id(0)]
    assert (mine.client_protocol, mine.state.producer_epoch) == (ClientProtocol.TV_0, 0)
    assert mine.commits > 0
    assert answers(servers, [mine.transactional_id]) == {mine.transactional_id: shown(mine)}
    assert causes_of(mine) == []


@pytest.mark.slow
@pytest.mark.faults(keep=1)
@pytest.mark.parametrize("scene", [frozen_past_session, frozen_past_session_streams, killed_with_its_folder])
def test_streams_instance_that_was_away_comes_back(
    kafka: KafkaCluster, tmp_path: Path, scene: Callable[[Stage], str]
) -> None:
    """Frozen until its group continued without it, or killed and restarted; no other client had its id."""
    class_path = compile_streams_program(source_of(PROGRAM), tmp_path / "classes")
    stage = Stage(kafka.bootstrap_servers, class_path, tmp_path, unique_name("source"), unique_name("sink"))
    # It makes the journal of a broker on which nothing has been done.
    producer({"bootstrap.servers": kafka.bootstrap_servers}, unique_name("first"))
    with watching(kafka, tmp_path / "folds") as watched:
        with feeding(stage):
            transactional_id = scene(stage)
        seen = watched.until(
            lambda seen: transactional_id in seen.transactions and is_used_again(seen.transactions[transactional_id]),
            "the return",
        )
    delete_topics(kafka.bootstrap_servers, [stage.source, stage.sink])
    cases = cases_of(seen.transactions[transactional_id], kafka_cluster_id=kafka.cluster_id)
    events = [judge_case(with_members(case, seen.groups, lambda _: [])) for case in cases]
    causes = [event.verdict.cause for event in events if event is not None]
    # Its own abort, where its next producer came only seconds later, as on a busy machine.
    assert set(causes) <= {FencingCause.APPLICATION_RETURNED, FencingCause.OWN_ABORT}, causes
    assert causes
