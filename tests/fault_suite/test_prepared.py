"""The coordinator's partition gets another leader when a commit is decided and its markers are not written."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from app.core.journals.record_batch import RecordBatch, read_records
from app.core.journals.transaction_state import TOPIC, TransactionState, TransactionStatus, decode_value
from app.core.pipelines.pipeline import GroupProtocol
from app.edges.kafka.attempt import ConnectionAttempt
from app.edges.kafka.raw_fetch import read_logs
from tests.fault_suite.marker_gate import MarkerGate
from tests.fault_suite.plan import Fault, Kind, NotDoneError
from tests.fault_suite.reading import Follower
from tests.fault_suite.standstill import Standstills
from tests.fault_suite.task_stage import TaskStage
from tests.support.feeder import Feeder
from tests.support.waiting import wait_for

pytestmark = [pytest.mark.slow]

_WITHIN_S = 60.0
_TIMES = 3
MOVED = Fault(number=0, kind=Kind.PREPARED_MOVED, gap_s=0, lasts_s=0, which=0, point=None, is_awaited=False)


@pytest.fixture
def stage(tmp_path: Path, seed: int, protocol: GroupProtocol) -> Generator[TaskStage]:
    with TaskStage(seed, tmp_path, brokers=3, protocol=protocol) as stage:
        yield stage


@pytest.mark.faults(keep=1)
@pytest.mark.parametrize("protocol", list(GroupProtocol))
def test_a_commit_that_is_decided_is_completed_by_the_next_leader_and_nothing_is_torn(
    stage: TaskStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeder = Feeder(stage.pipeline, records_per_s=500, remembers=False)
    follower = Follower(stage.cluster.bootstrap_servers, stage.pipeline.sink, Standstills())
    follower.start()
    feeder.start()
    wait_for(lambda: follower.trail.count, _WITHIN_S, "the first output")
    told: list[str] = []
    for _ in range(_TIMES):
        stage.do(MOVED, told.append, wait=lambda _: None)
    assert sum(line.startswith("hit: still PrepareCommit") for line in told) == _TIMES, told
    assert completed_by_another_leader(stage.cluster.bootstrap_servers) >= _TIMES
    # The control: markers that are not held are written long before another leader is elected.
    monkeypatch.setattr(MarkerGate, "hold", MarkerGate.let_through)
    with pytest.raises(NotDoneError, match="missed: "):
        stage.do(MOVED, told.append, wait=lambda _: None)
    feeder.stop()
    facts = stage.facts
    wait_for(facts.is_through, _WITHIN_S, lambda: f"all of {facts.source_ends()}; consumed are {facts.consumed()}")
    stage.drain()
    follower.finish(facts.sink_ends(), deadline_s=_WITHIN_S)
    verdict, contradictions = facts.judge(follower.trail, batches_to=tmp_path / "batches.txt")
    assert verdict.is_exact, str(verdict)
    assert not contradictions
    assert verdict.expected == feeder.written


def completed_by_another_leader(bootstrap_servers: str) -> int:
    """How many commits were completed in a later epoch of the journal's leader than they were prepared in."""
    prepared: dict[bytes | None, int] = {}
    found = 0
    attempt = ConnectionAttempt(bootstrap_servers, _WITHIN_S)
    for _, batch in read_logs({"bootstrap.servers": bootstrap_servers}, attempt, TOPIC):
        assert isinstance(batch, RecordBatch)
        records = read_records(batch)
        assert isinstance(records, list)
        for record in records:
            state = decode_value(record.value)
            assert isinstance(state, TransactionState)
            if state.status is TransactionStatus.PREPARE_COMMIT:
                prepared[record.key] = batch.leader_epoch
            elif state.status is TransactionStatus.COMPLETE_COMMIT:
                found += batch.leader_epoch > prepared.pop(record.key)
    return found
