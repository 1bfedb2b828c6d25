"""Markers with and without a decision of the coordinator (docs/fencing.md)."""

from __future__ import annotations

from app.core.fencing.cases import case_of_marker
from app.core.fencing.cause import judge_case
from app.core.fencing.evidence import CommandVerb, CommandWord, MarkerRecord
from app.core.fencing.fencing_event import Confidence, FencingCause
from app.core.journals.record_batch import Marker, RecordBatch, read_marker, read_records, split_batches
from tests.core.fencing.coordinator import CLUSTER, ID, Client, Coordinator
from tests.core.fencing.scenes import (
    before_kip_890,
    both_versions,
    commanded,
    every_client,
    marker,
    marker_event,
    recorded_ids,
)
from tests.support.recordings import SINK, recorded_bytes


@every_client
def test_operator_abort_of_a_transaction_that_its_coordinator_has_open(client: Client) -> None:
    coordinator = Coordinator(client)
    coordinator.begin()
    event = marker_event(marker(at_ms=coordinator.now_ms + 500), coordinator.live)
    assert event is not None
    assert (event.verdict.cause, event.verdict.confidence) == (FencingCause.OPERATOR_ABORT, Confidence.LIKELY)
    assert event.key.transactional_id == ID


@before_kip_890
def test_hanging_transaction_ended(client: Client) -> None:
    """A late write opened a partition again after the end of the transaction; only an operator can end that."""
    coordinator = Coordinator(client)
    coordinator.begin()
    coordinator.commit()
    ended = marker(at_ms=coordinator.now_ms + 60_000)
    for _ in range(2):
        # Whether the id has stood still since, or gone on.
        event = marker_event(ended, coordinator.live)
        assert event is not None
        assert (event.verdict.cause, event.verdict.confidence) == (FencingCause.HANGING_ENDED, Confidence.CERTAIN)
        coordinator.init(after_ms=1_000)


def test_hanging_transaction_of_an_expired_id() -> None:
    event = marker_event(marker(at_ms=1), None)
    assert event is not None
    assert (event.verdict.cause, event.verdict.confidence) == (FencingCause.HANGING_ENDED, Confidence.LIKELY)
    assert event.key.transactional_id == ""


def test_end_by_a_command_names_the_user() -> None:
    command = CommandWord(
        command_id=9, verb=CommandVerb.END, at_ms=1, who="ann", why="readers wait", partitions=("delayed-0",)
    )
    case = commanded(command, transactional_id="")
    alone, joined_event = judge_case(case), marker_event(marker(at_ms=1), None, case)
    assert alone is not None
    assert joined_event is not None
    assert alone.verdict == joined_event.verdict
    assert alone.verdict.confidence is Confidence.CERTAIN
    assert alone.verdict.sentence.startswith("ann ended the hanging transaction of producer 7 epoch 0")


def test_end_without_an_answer_names_the_user_only() -> None:
    command = CommandWord(command_id=9, verb=CommandVerb.END, at_ms=1, who="ann", why="readers wait")
    assert judge_case(commanded(command, transactional_id="")) is None
    event = marker_event(marker(at_ms=1), None, commanded(command, transactional_id=""))
    assert event is not None
    assert event.verdict.sentence.startswith("ann ended the hanging transaction of producer 7 epoch 0")
    assert (event.verdict.confidence, event.verdict.alternatives) == (Confidence.LIKELY, (FencingCause.OPERATOR_ABORT,))


@both_versions
def test_markers_that_the_coordinator_decided_are_no_events(version: str) -> None:
    """Every recorded marker of own aborts, takeovers, timeouts and commits."""
    ids = {live.state.producer_id: live for live in recorded_ids(version).values()}
    seen = 0
    for batch in split_batches(recorded_bytes(version, SINK)):
        assert isinstance(batch, RecordBatch)
        if not batch.is_control:
            continue
        decided, (record,) = read_marker(batch), _control(batch)
        assert isinstance(decided, Marker)
        seen += 1
        found = MarkerRecord(
            topic=SINK,
            partition=0,
            offset=record[0],
            at_ms=record[1],
            type=decided.type,
            coordinator_epoch=decided.coordinator_epoch,
        )
        live = ids[batch.producer_id]
        case = case_of_marker(
            found,
            kafka_cluster_id=CLUSTER,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            live=live,
        )
        assert case is None
    assert seen > 8


def _control(batch: RecordBatch) -> list[tuple[int, int]]:
    found = read_records(batch)
    assert isinstance(found, list)
    return [(record.offset, record.timestamp_ms) for record in found]
