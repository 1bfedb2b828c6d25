"""Recorded scenes, reports of a task, and their events."""

from __future__ import annotations

import pytest

from app.core.fencing.cases import case_of_command, case_of_marker, case_of_word, joined
from app.core.fencing.cause import judge_case
from app.core.fencing.evidence import ClientWord, CommandWord, CoordinatorRecord, MarkerRecord
from app.core.fencing.fencing_event import Case, FencingEvent, FencingKind
from app.core.fencing.steps import cases_of
from app.core.journals.group_fold import LiveGroups
from app.core.journals.live_groups import LiveGroup
from app.core.journals.live_transactions import LiveTransaction, LiveTransactions
from app.core.journals.record_batch import MarkerType, split_batches
from app.core.journals.transaction_state import TransactionStatus
from app.core.runs.task import EventKind
from tests.core.fencing.coordinator import CLUSTER, ID, Client
from tests.support.recordings import GROUPS, TRANSACTIONS, VERSION_NAMES, recorded_bytes

both_versions = pytest.mark.parametrize("version", VERSION_NAMES)
before_kip_890 = pytest.mark.parametrize("client", [Client.BEFORE_V1, Client.TV_0])
every_client = pytest.mark.parametrize("client", list(Client))


def recorded_ids(version: str) -> dict[str, LiveTransaction]:
    live = LiveTransactions()
    for batch in split_batches(recorded_bytes(version, TRANSACTIONS)):
        live.apply(0, batch)
    return live.ids


def recorded_group(version: str, group: str) -> LiveGroup:
    """As of before its deletion."""
    live, found = LiveGroups(), None
    for batch in split_batches(recorded_bytes(version, GROUPS)):
        live.apply(0, batch)
        found = live.groups.get(group, found)
    assert found is not None
    return found


def events(live: LiveTransaction, *more: Case | None) -> dict[tuple[int, FencingKind], FencingEvent]:
    """By the ended epoch and the kind."""
    cases = [*cases_of(live, kafka_cluster_id=CLUSTER), *(case for case in more if case is not None)]
    found = [event for case in joined(cases) if (event := judge_case(case)) is not None]
    return {(event.key.producer_epoch, event.key.kind): event for event in found}


def epoch_event(live: LiveTransaction, epoch: int, *more: Case | None) -> FencingEvent:
    return events(live, *more)[epoch, FencingKind.EPOCH]


def word(
    kind: EventKind = EventKind.FENCED,
    *,
    error: str | None = None,
    generation: int | None = 1,
    group: str = "flights",
) -> ClientWord:
    return ClientWord(
        event_id=f"event-{kind}",
        kind=kind,
        at_ms=2_000_000,
        message="could not commit",
        run_id="run",
        ordinal=0,
        lease=1,
        task=1,
        attempt=2,
        host="w1",
        group=group,
        error=error,
        generation=generation,
        partitions=("flights-0",),
    )


def felt(live: LiveTransaction, said: ClientWord, *, epoch: int, producer_id: int | None = None) -> Case:
    case = case_of_word(
        said,
        kafka_cluster_id=CLUSTER,
        transactional_id=live.transactional_id,
        producer_id=live.state.producer_id if producer_id is None else producer_id,
        producer_epoch=epoch,
    )
    assert case is not None
    return case


def records(event: FencingEvent) -> list[tuple[TransactionStatus, int]]:
    return [
        (one.record.status, one.record.producer_epoch) for one in event.evidence if isinstance(one, CoordinatorRecord)
    ]


def commanded(command: CommandWord, *, transactional_id: str = ID) -> Case:
    return case_of_command(
        command, kafka_cluster_id=CLUSTER, transactional_id=transactional_id, producer_id=7, producer_epoch=0
    )


def marker(*, at_ms: int, partition: int = 0, kind: MarkerType = MarkerType.ABORT) -> MarkerRecord:
    return MarkerRecord(topic="delayed", partition=partition, offset=40, at_ms=at_ms, type=kind, coordinator_epoch=0)


def marker_event(found: MarkerRecord, live: LiveTransaction | None, *more: Case) -> FencingEvent | None:
    case = case_of_marker(found, kafka_cluster_id=CLUSTER, producer_id=7, producer_epoch=0, live=live)
    cases = joined([*([case] if case else ()), *more])
    assert len(cases) <= 1
    return judge_case(cases[0]) if cases else None
