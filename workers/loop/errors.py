"""Errors of Kafka calls, sorted once by their effect: repeat, abort the transaction, replace the producer, fail.

`kafka_call` is the border: inside it librdkafka raises KafkaException, outside it only the types of this module exist.
"""

# librdkafka's own error codes are public and begin with an underscore.
# ruff: noqa: SLF001

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from enum import StrEnum
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

E = TypeVar("E", bound=BaseException)


class ErrorSeverity(StrEnum):
    """
    RETRIABLE  the same call may be repeated
    ABORTABLE  the transaction must be aborted; the producer stays usable
    REFUSED    like ABORTABLE, because the broker or the client does not take one of the records
    FENCED     this producer cannot continue: a newer one has its id, or the coordinator ended its transaction
    FATAL      this client cannot continue, or its request is not allowed; repeating does not help
    """

    RETRIABLE = "retriable"
    ABORTABLE = "abortable"
    REFUSED = "refused"
    FENCED = "fenced"
    FATAL = "fatal"


_FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})
_REFUSED = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        # Another record of the same batch is the invalid one.
        KafkaError._INVALID_DIFFERENT_RECORD,
    }
)
_MEMBERSHIP = frozenset(
    {
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.FENCED_INSTANCE_ID,
    }
)
_ABORTABLE = _MEMBERSHIP | frozenset(
    {
        KafkaError.TRANSACTION_ABORTABLE,
        # librdkafka's "N messages failed delivery", for any reason.
        KafkaError._INCONSISTENT,
    }
)
# Where librdkafka does not repeat by itself, it passes on plain numbers, which it does not know as retriable.
_RETRIABLE = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        # Requests to a broker that has left the client's metadata for a moment.
        KafkaError._DESTROY_BROKER,
        KafkaError._WAIT_COORD,
        KafkaError._IN_PROGRESS,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.NETWORK_EXCEPTION,
        # While a partition's leader or its replicas change.
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
    }
)


def severity(error: KafkaError) -> ErrorSeverity:
    """Sort one error. Its code goes before the client's advice about it."""
    code = error.code()
    if code in _FENCED:
        return ErrorSeverity.FENCED
    if error.fatal():
        return ErrorSeverity.FATAL
    if code in _REFUSED:
        return ErrorSeverity.REFUSED
    if error.txn_requires_abort() or code in _ABORTABLE:
        return ErrorSeverity.ABORTABLE
    if error.retriable() or code in _RETRIABLE:
        return ErrorSeverity.RETRIABLE
    return ErrorSeverity.FATAL


class LoopError(Exception):
    """An error of a Kafka call; `code` is librdkafka's or the broker's number for it, if it had one."""

    def __init__(self, message: str, *, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code

    @property
    def name(self) -> str | None:
        """Kafka's name of the code."""
        return None if self.code is None else KafkaError(self.code).name()


class RetriableError(LoopError):
    """The same call may be repeated."""


class AbortableError(LoopError):
    """The checkpoint must be aborted.

    `keeps_producer`: the group did not take the offsets, or we did not send them: every request of the producer was
    answered. After any other error a late TxnOffsetCommit or Produce may still arrive, in the next transaction of the
    same epoch (librdkafka has no KIP-890). Then the producer must go.
    """

    @property
    def keeps_producer(self) -> bool:
        return self.code is None or self.code in _MEMBERSHIP


class OwnershipChangedError(AbortableError):
    """A partition of the checkpoint was revoked or lost after its records were polled (and may have come back)."""


class RefusedError(AbortableError):
    """The broker or the client refuses one of the checkpoint's records.

    Args:
        topic: the topic whose broker refused it; None: the client did, before it was sent.
        setting: the setting of the client that it exceeds; None: the broker refused it.
    """

    def __init__(
        self, message: str, *, code: int | None = None, topic: str | None = None, setting: str | None = None
    ) -> None:
        super().__init__(message, code=code)
        self.topic = topic
        self.setting = setting


class FencedError(LoopError):
    """This producer cannot continue. `outcome_unknown`: a commit reported it, which may have succeeded before."""

    def __init__(self, message: str, *, code: int | None = None, outcome_unknown: bool = False) -> None:
        super().__init__(message, code=code)
        self.outcome_unknown = outcome_unknown


class OutcomeUnknownError(LoopError):
    """The commit was not answered within its bound: neither committed nor aborted (rule 6)."""


class ProducerLostError(LoopError):
    """An abort was not answered, or a call did not come back: the producer can only be replaced."""


class FatalError(LoopError):
    """Repeating does not help."""


class TaskFailedError(Exception):
    """This attempt has failed; another attempt may succeed."""


class PipelineStopError(TaskFailedError):
    """The pipeline must stop and needs a user: another attempt would fail the same way (rule 7)."""


class SupersededError(Exception):
    """A newer attempt owns this task's id. Ends the attempt as a normal result, never as a failure (rule 5)."""


_TYPES: dict[ErrorSeverity, type[LoopError]] = {
    ErrorSeverity.RETRIABLE: RetriableError,
    ErrorSeverity.ABORTABLE: AbortableError,
    ErrorSeverity.REFUSED: RefusedError,
    ErrorSeverity.FENCED: FencedError,
    ErrorSeverity.FATAL: FatalError,
}


_REFUSED_BY = re.compile(r"ProduceRequest for (\S+) \[\d+\]")
"""How librdkafka's transactional producer names the partition that did not take a batch (rdkafka_request.c)."""


def translated(error: KafkaError, doing: str, *, topic: str | None = None) -> LoopError:
    """Return our error for `error`; `doing` completes "could not …". `topic`: of the broker that refused it."""
    message = f"could not {doing}: {error.name()}: {error.str()}"
    if severity(error) is ErrorSeverity.REFUSED:
        named = _REFUSED_BY.search(error.str())
        return RefusedError(message, code=error.code(), topic=named[1] if named else topic)
    return _TYPES[severity(error)](message, code=error.code())


def error_of(action: Callable[[], object], kind: type[E]) -> E | None:
    """Return the error of `action`, if it is of this kind, to be handled when no exception is in progress any more.

    An exception of confluent-kafka that is raised in `except`, in `finally` or in an `__exit__` keeps the handled one
    for ever. The garbage collector does not see it: its KafkaError, laid out like an exception, gets that exception as
    context and never releases it (2.16.1; tests/workers/loop/test_errors.py). It also keeps the frames of the
    traceback, and in them the clients: a producer that was discarded, with its threads and connections.
    """
    try:
        action()
    except kind as error:
        return error
    return None


@contextmanager
def kafka_call(doing: str) -> Generator[None]:
    """Translate the KafkaException of the calls inside; `doing` completes "could not …"."""
    try:
        yield
    except KafkaException as exception:
        raise translated(exception.args[0], doing) from exception
