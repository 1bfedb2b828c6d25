"""A transaction ended in one partition while its coordinator has it open is detected, without false reports."""

from __future__ import annotations

import msgspec
import pytest

from app.core.blocked.facts import LogEnds, PartitionFacts, Refused
from app.core.clusters.partition import Partition
from app.core.fencing.cases import case_of_torn
from app.core.fencing.cause import judge_case
from app.core.fencing.evidence import MarkerRecord
from app.core.fencing.fencing_event import Confidence, FencingCause
from app.core.hanging.accounting import Accounts
from app.core.hanging.search import PartitionSearch, StableEnd
from app.core.hanging.torn import MOST_SUSPECTS, Torn, TornSearch
from app.core.journals.record_batch import MarkerType
from app.core.journals.transaction_state import TopicPartitions, TransactionState, TransactionStatus
from app.core.observing.snapshot import ReadingPhase, Snapshot
from tests.core.blocked.answers import held, opened
from tests.support.observing import NOW_MS, cluster, hear, state_of, transaction_batch

AT = Partition("orders", 0)
ID = "the first"
PRODUCER = 7
LOOKED_MS = NOW_MS + 20_000
S = TransactionStatus


def snapshot_of(
    state: TransactionState, *, as_of_ms: int = NOW_MS, phase: ReadingPhase = ReadingPhase.LIVE
) -> Snapshot:
    """A followed journal whose only id has this state."""
    live = cluster()
    hear(live, transaction_batch(ID, state, at=0), now_ms=as_of_ms)
    live.enter(live.transactions.progress.topic, phase, now_ms=as_of_ms)
    return live.snapshot(now_ms=as_of_ms)


OPEN = state_of(producer_id=PRODUCER)
AFTER = snapshot_of(OPEN, as_of_ms=LOOKED_MS)


def gone_on(*rows: int, ends: LogEnds | Refused | None = None) -> PartitionFacts:
    """The partition after its LSO moved; rows: the open transactions of PRODUCER."""
    facts = held(None, rows=tuple(opened(producer_id=PRODUCER, start=start) for start in rows))
    return msgspec.structs.replace(facts, ends=LogEnds(0, 16, 16) if ends is None else ends, open_at_ms=LOOKED_MS)


def suspecting(before: Snapshot | None = None, *, is_seen_again: bool = True) -> TornSearch:
    """Blocked at 10, with the log's end at 15 at the last sweep; then the LSO moved."""
    search = PartitionSearch("kafka-1", asks_per_s=10)
    search.note_ends({AT: StableEnd(10, 14)}, now_ms=NOW_MS)
    search.note_ends({AT: StableEnd(10, 14)}, now_ms=NOW_MS + 10_000)
    accounts = Accounts(before or snapshot_of(OPEN), [AT], unaccounted_ms=10_000)
    search.due(accounts, now_ms=NOW_MS + 10_000)
    if is_seen_again:
        search.note_ends({AT: StableEnd(10, 15)}, now_ms=NOW_MS + 15_000)
    search.note_ends({AT: StableEnd(16, 16)}, now_ms=NOW_MS + 19_000)
    torn = TornSearch()
    torn.note_moved(search.take_moved())
    assert search.take_moved() == {}
    return torn


def found(torn: TornSearch, facts: PartitionFacts | None = None, after: Snapshot = AFTER) -> list[Torn]:
    torn.due(after)
    return torn.note_look(facts or gone_on(), after)


def test_transaction_open_in_the_journal_after_its_lso_moved_is_torn() -> None:
    torn = suspecting()
    assert torn.due(AFTER) == (AT,)
    (one,) = found(torn)
    assert (one.transactional_id, one.producer_id, one.producer_epoch) == (ID, PRODUCER, 0)
    # Only what was written between the two looks proves it.
    assert (one.from_offset, one.until_offset) == (15, 16)
    assert found(torn) == [], "once"


def test_torn_transaction_is_an_operators_abort() -> None:
    (one,) = found(suspecting())
    marker = MarkerRecord(
        topic="orders", partition=0, offset=15, at_ms=LOOKED_MS, type=MarkerType.ABORT, coordinator_epoch=0
    )
    case = case_of_torn(marker, kafka_cluster_id="kafka-1", transactional_id=ID, known=one.known)
    assert case is not None
    event = judge_case(case)
    assert event is not None
    assert (event.verdict.cause, event.verdict.confidence) == (FencingCause.OPERATOR_ABORT, Confidence.LIKELY)
    assert event.key.transactional_id == ID
    committed = msgspec.structs.replace(marker, type=MarkerType.COMMIT)
    assert case_of_torn(committed, kafka_cluster_id="kafka-1", transactional_id=ID, known=one.known) is None


def test_producer_that_wrote_again_after_the_marker_is_found() -> None:
    assert found(suspecting(), gone_on(15))


@pytest.mark.parametrize(
    "state",
    [
        state_of(S.PREPARE_ABORT, producer_id=PRODUCER, epoch=1),
        state_of(S.COMPLETE_COMMIT, producer_id=PRODUCER),
        state_of(producer_id=PRODUCER, start_ms=NOW_MS + 18_000),
        state_of(producer_id=PRODUCER, epoch=1),
    ],
    ids=["timed out", "committed", "the next transaction", "the next epoch"],
)
def test_transaction_that_its_coordinator_has_ended_is_not_torn(state: TransactionState) -> None:
    after = snapshot_of(state, as_of_ms=LOOKED_MS)
    torn = suspecting()
    assert torn.due(after) == ()
    assert torn.note_look(gone_on(), after) == []


def test_transaction_that_ends_while_its_leader_is_asked_is_not_torn() -> None:
    torn = suspecting()
    torn.due(AFTER)
    assert (
        torn.note_look(gone_on(), snapshot_of(state_of(S.COMPLETE_COMMIT, producer_id=PRODUCER), as_of_ms=LOOKED_MS))
        == []
    )


@pytest.mark.parametrize(
    ("facts", "after"),
    [
        (gone_on(10), AFTER),
        (gone_on(), snapshot_of(OPEN, as_of_ms=LOOKED_MS - 1)),
        (gone_on(), snapshot_of(OPEN, as_of_ms=LOOKED_MS, phase=ReadingPhase.REFUSED)),
        (gone_on(ends=Refused("ListOffsets", "NOT_LEADER_OR_FOLLOWER")), AFTER),
    ],
    ids=["blocked by another", "the journal is not read so far", "nor followed", "no answer"],
)
def test_inconclusive_answers_are_not_torn(facts: PartitionFacts, after: Snapshot) -> None:
    assert found(suspecting(), facts, after) == []


def test_transaction_first_known_after_the_block_proves_nothing() -> None:
    assert suspecting(is_seen_again=False).due(AFTER) == ()
    assert suspecting(snapshot_of(state_of(S.EMPTY, producer_id=PRODUCER))).due(AFTER) == ()


def test_suspicions_are_bounded() -> None:
    search = PartitionSearch("kafka-1", asks_per_s=10)
    numbers = tuple(range(MOST_SUSPECTS + 10))
    many = [Partition("orders", number) for number in numbers]
    state = msgspec.structs.replace(OPEN, partitions=(TopicPartitions("orders", numbers),))
    for last_stable, now_ms in ((10, 0), (10, 10_000), (10, 15_000), (16, 19_000)):
        search.note_ends({at: StableEnd(last_stable, 16) for at in many}, now_ms=NOW_MS + now_ms)
        if now_ms == 10_000:
            search.due(Accounts(snapshot_of(state), many, unaccounted_ms=10_000), now_ms=NOW_MS + now_ms)
    torn = TornSearch()
    torn.note_moved(search.take_moved())
    assert len(torn.due(snapshot_of(state, as_of_ms=LOOKED_MS))) == MOST_SUSPECTS
