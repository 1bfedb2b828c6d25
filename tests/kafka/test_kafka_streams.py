"""Kafka Streams beside a pipeline of ours: whose commits all move the epoch, and what is left of it after kill -9."""

from __future__ import annotations

import re
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from app.domain.fencing_events.fencing_event import Cause
from app.domain.journals.group_records import TopicPartitions, decode_assignment
from app.domain.journals.live_groups import GroupState, LiveGroup
from app.domain.journals.live_transactions import ClientProtocol, LiveTransaction, StepKind
from app.domain.journals.transaction_state import TransactionStatus
from app.domain.observing.snapshot import Snapshot
from app.domain.stuck.facts import KnownTransaction
from app.embedded.kafka import KafkaCluster
from app.kafka.attempt import Attempt
from app.kafka.transactions.client import TransactionClient
from tests.support.journal_events import causes_of
from tests.support.kafka_tools import compile_streams_program, running_program
from tests.support.pipelines import TestPipeline
from tests.support.tasks import running
from tests.support.topics import delete_topics, unique_name
from tests.support.waiting import wait_for
from tests.support.watched import watching

_PROGRAM = "StreamsCopies"
_RECORDS = 300
_COMMITS = 100
_DEADLINE_S = 60.0


def _ids_of(seen: Snapshot, application_id: str) -> dict[str, LiveTransaction]:
    return {name: live for name, live in seen.transactions.items() if name.startswith(application_id)}


def answers(servers: str, names: list[str]) -> dict[str, tuple[object, ...]]:
    """What their coordinators say of the ids: state, producer id, epoch, timeout."""
    with TransactionClient({"bootstrap.servers": servers}, Attempt(servers, _DEADLINE_S)) as client:
        known = client.describe_transactions(names)
    return {
        name: (one.state, one.producer_id, one.producer_epoch, one.timeout_ms)
        for name, one in known.items()
        if isinstance(one, KnownTransaction)
    }


def shown(live: LiveTransaction) -> tuple[object, ...]:
    state = live.state
    return (state.status.word, state.producer_id, state.producer_epoch, state.timeout_ms)


def assert_shown(group: LiveGroup, topic: str) -> None:
    assert group.state is GroupState.STABLE
    assert group.classic is not None
    (member,) = group.classic.members
    assert decode_assignment(member.assignment) == (TopicPartitions(topic, (0,)),)
    assert group.offsets[topic, 0].producer_id >= 0


@pytest.mark.slow
def test_kafka_streams_and_our_loop_are_told_apart_from_fencing(kafka: KafkaCluster, tmp_path: Path) -> None:
    """One application has a store on disk and keeps its process id, and so its transactional id; the other has none."""
    servers = kafka.bootstrap_servers
    kept_app, fresh_app, last = unique_name("kept"), unique_name("fresh"), unique_name("last")
    pipeline = TestPipeline.create(servers, partitions=1)
    pipeline.feed(_RECORDS)
    pipeline.feed_value(last.encode())
    class_path = compile_streams_program(_PROGRAM, tmp_path / "classes")
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
            assert_shown(seen.groups[kept_app], pipeline.source)
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
    assert [step.kind for step in taken.steps] == [StepKind.INITIALISED, StepKind.ABORTED, StepKind.INITIALISED]
    assert causes_of(taken) == [Cause.TAKEOVER]
    assert causes_of(before) == [Cause.TIMEOUT]
    assert causes_of(after) == []
    mine = seen.transactions[pipeline.transactional_id(0)]
    assert (mine.client_protocol, mine.state.producer_epoch) == (ClientProtocol.TV_0, 0)
    assert mine.commits > 0
    assert answers(servers, [mine.transactional_id]) == {mine.transactional_id: shown(mine)}
    assert causes_of(mine) == []
