"""The treatment of each error: docs/loop.md has the same as a table."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from app.core.wire.heartbeat import EventKind
from workers.loop.errors import (
    AbortableError,
    FencedError,
    LoopError,
    OutcomeUnknownError,
    OwnershipChangedError,
    ProducerLostError,
    RefusedError,
    RetriableError,
)
from workers.loop.recovery import Decision, decide

DOUBTFUL = AbortableError("a request may still be on its way", code=KafkaError.TRANSACTION_ABORTABLE)
ANSWERED = AbortableError("the group did not take the offsets", code=KafkaError.ILLEGAL_GENERATION)
REFUSED = RefusedError("too large", code=KafkaError.MSG_SIZE_TOO_LARGE)


@pytest.mark.parametrize("is_of_partition", [True, False])
@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize(
    ("error", "decision"),
    [
        (FencedError("x"), Decision(EventKind.FENCED, replaces=True, is_fenced=True)),
        (
            FencedError("x", outcome_unknown=True),
            Decision(EventKind.FENCED, replaces=True, is_fenced=True, outcome_unknown=True),
        ),
        (OutcomeUnknownError("x"), Decision(EventKind.OUTCOME_UNKNOWN, replaces=True, outcome_unknown=True)),
    ],
)
def test_producer_that_is_over_is_replaced_and_nothing_is_aborted(
    error: LoopError, decision: Decision, is_open: bool, is_of_partition: bool
) -> None:
    assert decide(error, is_open=is_open, is_of_partition=is_of_partition) == decision


@pytest.mark.parametrize("is_of_partition", [True, False])
@pytest.mark.parametrize(
    ("error", "decision"),
    [
        (ProducerLostError("x"), Decision(EventKind.ABORTED, replaces=True)),
        (REFUSED, Decision(EventKind.ABORTED, is_refusal=True, aborts=True, replaces=True)),
        (ANSWERED, Decision(EventKind.ABORTED, aborts=True)),
        (OwnershipChangedError("x"), Decision(EventKind.ABORTED, aborts=True)),
        (RetriableError("x"), Decision(EventKind.ABORTED, aborts=True)),
    ],
)
def test_open_checkpoint_is_reported_as_aborted(error: LoopError, decision: Decision, is_of_partition: bool) -> None:
    assert decide(error, is_open=True, is_of_partition=is_of_partition) == decision


def test_doubtful_transaction_of_a_partition_is_left_to_the_init_of_the_successor() -> None:
    decided = decide(DOUBTFUL, is_open=True, is_of_partition=True)
    assert decided == Decision(EventKind.ABORTED, replaces=True)
    assert decide(DOUBTFUL, is_open=True, is_of_partition=False) == decided._replace(aborts=True)


@pytest.mark.parametrize("is_of_partition", [True, False])
@pytest.mark.parametrize(
    ("error", "replaces"),
    [
        (ProducerLostError("x"), True),
        (REFUSED, True),
        (DOUBTFUL, True),
        (ANSWERED, False),
        (RetriableError("x"), False),
    ],
)
def test_nothing_is_reported_or_aborted_where_nothing_is_open(
    error: LoopError, replaces: bool, is_of_partition: bool
) -> None:
    assert decide(error, is_open=False, is_of_partition=is_of_partition) == Decision(None, replaces=replaces)
