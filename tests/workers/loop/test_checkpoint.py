"""The order of a checkpoint's steps, and its state after each error. The same on brokers: tests/exactly_once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from app.core.clusters.partition import Partition
from app.kit.errors import IllegalTransitionError
from workers.loop.checkpoint import Checkpoint, CheckpointState
from workers.loop.control import ProducerIdentity
from workers.loop.errors import (
    AbortableError,
    FatalError,
    FencedError,
    LoopError,
    OutcomeUnknownError,
    OwnershipChangedError,
)
from workers.loop.group.ownership import Ownership
from workers.loop.producing.producers import SendsFor
from workers.loop.producing.statistics import Slowness
from workers.loop.records.polled import Writable
from workers.loop.slices import CallPatience
from workers.transforms import Output

PATIENCE = CallPatience(1.0)


class ScriptedProducer:
    """Writes down what it is asked for, and raises where the test says so."""

    def __init__(self, **errors: LoopError) -> None:
        self.calls: list[str] = []
        self.offsets: list[TopicPartition] = []
        self.bounds_s: list[float] = []
        self._errors = errors

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if name in self._errors:
            raise self._errors[name]

    def init(self, timeout_s: float) -> None:
        self._called("init")

    def begin(self) -> None:
        self._called("begin")

    def write_records(self, records: Writable, *, topic: str, keep_partition: bool) -> None:
        self._called("write_records")

    def write_outputs(self, outputs: Sequence[Output], *, topic: str) -> None:
        self._called("write_outputs")

    def flush(self, *, patience: CallPatience) -> None:
        self.bounds_s.append(patience.bound_s)
        self._called("flush")

    def send_offsets(self, offsets: list[TopicPartition], sends_for: SendsFor, *, patience: CallPatience) -> None:
        self.offsets = offsets
        self.bounds_s.append(patience.bound_s)
        self._called("send_offsets")

    def transaction_since(self, opened_at: float) -> float | None:
        return opened_at

    def is_full(self, records: int, *, most: int) -> bool:
        return records >= most

    def commit(self, *, patience: CallPatience, confirmed: Callable[[], None]) -> None:
        self.bounds_s.append(patience.bound_s)
        self._called("commit")
        confirmed()

    def abort(self, *, patience: CallPatience) -> None:
        self._called("abort")

    def discard(self) -> None:
        self._called("discard")

    def partition_count(self, topic: str, timeout_s: float) -> int:
        return 1

    def identity(self, *, timeout_s: float) -> ProducerIdentity | None:
        return None

    def slowness(self) -> Slowness:
        return Slowness(0.0, None)

    @property
    def may_have_bumped(self) -> bool:
        return False


NO_CONSUMER: Any = None


def opened(producer: ScriptedProducer) -> tuple[Checkpoint, Ownership]:
    ownership = Ownership()
    ownership.assigned([Partition("t", 0), Partition("t", 1)])
    checkpoint = Checkpoint(producer, ownership)
    checkpoint.add({Partition("t", 0): 5}, records=5)
    checkpoint.add({Partition("t", 0): 8, Partition("t", 1): 2}, records=5)
    return checkpoint, ownership


def test_commit_flushes_then_sends_the_latest_offsets_then_commits() -> None:
    producer = ScriptedProducer()
    checkpoint, _ = opened(producer)
    checkpoint.commit(NO_CONSUMER, patience=PATIENCE, metadata={Partition("t", 1): "note"})
    assert producer.calls == ["begin", "flush", "send_offsets", "commit"]
    assert [(o.topic, o.partition, o.offset, o.metadata) for o in producer.offsets] == [
        ("t", 0, 8, ""),
        ("t", 1, 2, "note"),
    ]
    assert checkpoint.state is CheckpointState.COMMITTED


def test_patience_is_for_all_steps_together() -> None:
    """Inside a revoke callback a third of the time left must not be spent three times."""
    producer = ScriptedProducer()
    seconds = iter([0.0, 0.0, 0.7, 0.9])
    ownership = Ownership()
    checkpoint = Checkpoint(producer, ownership, clock=lambda: next(seconds))
    checkpoint.commit(NO_CONSUMER, patience=PATIENCE)
    assert [round(bound_s, 1) for bound_s in producer.bounds_s] == [1.0, 0.3, 0.1]


def test_changed_ownership_sends_nothing() -> None:
    producer = ScriptedProducer()
    checkpoint, ownership = opened(producer)
    ownership.given_up([Partition("t", 1)])
    ownership.assigned([Partition("t", 1)])
    with pytest.raises(OwnershipChangedError, match="t-1"):
        checkpoint.commit(NO_CONSUMER, patience=PATIENCE)
    assert producer.calls == ["begin", "flush"]
    checkpoint.abort(patience=PATIENCE)
    assert checkpoint.state is CheckpointState.ABORTED


def test_records_added_after_the_change_do_not_heal_it() -> None:
    """The number is that of the partition's first batch in the checkpoint."""
    producer = ScriptedProducer()
    checkpoint, ownership = opened(producer)
    ownership.given_up([Partition("t", 1)])
    ownership.assigned([Partition("t", 1)])
    checkpoint.add({Partition("t", 1): 9}, records=7)
    with pytest.raises(OwnershipChangedError):
        checkpoint.commit(NO_CONSUMER, patience=PATIENCE)


@pytest.mark.parametrize(
    ("step", "error", "state", "is_open"),
    [
        ("flush", AbortableError("x"), CheckpointState.COMMITTING, True),
        ("send_offsets", AbortableError("x"), CheckpointState.COMMITTING, True),
        ("commit", AbortableError("x"), CheckpointState.COMMITTING, True),
        ("commit", OutcomeUnknownError("x"), CheckpointState.UNKNOWN, False),
        ("commit", FencedError("x", outcome_unknown=True), CheckpointState.UNKNOWN, False),
        ("commit", FencedError("x"), CheckpointState.COMMITTING, True),
        ("flush", FatalError("x"), CheckpointState.COMMITTING, True),
        ("commit", FatalError("x"), CheckpointState.UNKNOWN, False),
    ],
)
def test_where_an_error_leaves_it(step: str, error: LoopError, state: CheckpointState, is_open: bool) -> None:
    checkpoint, _ = opened(ScriptedProducer(**{step: error}))
    with pytest.raises(type(error)):
        checkpoint.commit(NO_CONSUMER, patience=PATIENCE)
    assert checkpoint.state is state
    assert checkpoint.is_open is is_open


def test_unknown_outcome_allows_neither_abort_nor_commit() -> None:
    checkpoint, _ = opened(ScriptedProducer(commit=OutcomeUnknownError("x")))
    with pytest.raises(OutcomeUnknownError):
        checkpoint.commit(NO_CONSUMER, patience=PATIENCE)
    with pytest.raises(IllegalTransitionError, match="from unknown to aborted"):
        checkpoint.abort(patience=PATIENCE)
    with pytest.raises(IllegalTransitionError, match="from unknown to committing"):
        checkpoint.commit(NO_CONSUMER, patience=PATIENCE)


def test_ended_checkpoint_takes_no_more_records() -> None:
    checkpoint, _ = opened(ScriptedProducer())
    checkpoint.abort(patience=PATIENCE)
    with pytest.raises(IllegalTransitionError):
        checkpoint.add({Partition("t", 0): 9}, records=1)
