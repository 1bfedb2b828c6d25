"""The producer of both exactly-once guarantees: outputs and input offsets in one transaction, under a fixed id."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition

from workers.loop.client_config import Config
from workers.loop.control import ProducerIdentity
from workers.loop.errors import (
    AbortableError,
    FatalError,
    FencedError,
    LoopError,
    OutcomeUnknownError,
    ProducerLostError,
    RetriableError,
    error_of,
    kafka_call,
)
from workers.loop.producing.overdue import ends_within
from workers.loop.producing.producers import QueueingProducer, SendsFor
from workers.loop.producing.statistics import Statistics
from workers.loop.records.polled import Writable
from workers.loop.slices import CallPatience, in_slices
from workers.transforms import Output

_OVERDUE_S = 2.0
"""The time after its timeout at which a call is abandoned: a call returns a little late."""
_REASON_IS_ELSEWHERE = (KafkaError._STATE, KafkaError._FATAL)  # noqa: SLF001 - librdkafka's public names begin so


class TransactionalProducer(QueueingProducer):
    """Outputs and offsets in Kafka transactions under one fixed transactional id."""

    def __init__(self, config: Config) -> None:
        self._keeper = Statistics(str(config["transactional.id"]))
        self._abort_is_open = False
        super().__init__(Producer({**config, "stats_cb": self._keeper}), self._keeper, config)

    def init(self, timeout_s: float) -> None:
        """Initialise the id: aborts a predecessor's open transaction and fences it. Resumable while retriable."""
        with kafka_call("initialise transactions"):
            self.live.init_transactions(timeout_s)

    def begin(self) -> None:
        self.count_anew()
        with kafka_call("begin a transaction"):
            self.live.begin_transaction()

    def write_records(self, records: Writable, *, topic: str, keep_partition: bool) -> None:
        write = super().write_records
        self._write(lambda: write(records, topic=topic, keep_partition=keep_partition))

    def write_outputs(self, outputs: Sequence[Output], *, topic: str) -> None:
        write = super().write_outputs
        self._write(lambda: write(outputs, topic=topic))

    def _write(self, write: Callable[[], None]) -> None:
        error = error_of(write, FatalError)
        if error is not None:
            raise self._reason_of(error)

    def _reason_of(self, error: FatalError) -> LoopError:
        """The error that broke the transaction in which `produce` failed.

        `produce` reports only `_STATE` (in a transaction that must be aborted) or `_FATAL`; any transaction call
        reports the reason.
        """
        if error.code not in _REASON_IS_ELSEWHERE:
            return error
        return error_of(self._begin_to_hear, LoopError) or error

    def _begin_to_hear(self) -> None:
        with kafka_call("hand records to the producer"):
            self.live.begin_transaction()

    def _raise_if_broken(self) -> None:
        """Raise after a refusal: records queued behind it are not sent any more, and `flush` would wait in vain."""
        error = error_of(self._begin_to_hear, LoopError)
        # In a sound transaction it is fatal to begin another, for the call and not for the client.
        if error is not None and not isinstance(error, FatalError):
            raise error

    def send_offsets(self, offsets: list[TopicPartition], sends_for: SendsFor, *, patience: CallPatience) -> None:
        """Add the input offsets, with group metadata read here and now (rule 2).

        After REBALANCE_IN_PROGRESS it is tried once more with metadata read again. The caller has just checked the
        ownership, and no callback can run in between.

        Raises:
            ProducerLostError: the call did not return; it may last for ever.
        """
        deadline = time.monotonic() + patience.bound_s
        error = error_of(lambda: self._send_offsets(offsets, sends_for, patience), AbortableError)
        if error is None:
            return
        if error.code != KafkaError.REBALANCE_IN_PROGRESS:
            raise error
        self._send_offsets(offsets, sends_for, patience.until(deadline))

    def _send_offsets(self, offsets: list[TopicPartition], sends_for: SendsFor, patience: CallPatience) -> None:
        metadata, live = sends_for.consumer_group_metadata(), self.live
        overdue_s = patience.bound_s + _OVERDUE_S
        deadline = time.monotonic() + overdue_s

        def send_once(timeout_s: float) -> None:
            # This one call may ignore its timeout for ever: it waits for a group coordinator that is gone
            # (librdkafka #5456, #5511). A thread that waited with it would neither poll nor drain.
            with kafka_call("send the input offsets"):
                is_over = ends_within(
                    lambda: live.send_offsets_to_transaction(offsets, metadata, timeout_s), patience.until(deadline)
                )
            if not is_over:
                raise ProducerLostError(
                    f"the client did not return from sending the input offsets for {overdue_s:.1f} s; "
                    "does the group's coordinator answer?"
                )

        try:
            in_slices(send_once, patience)
        except RetriableError as error:
            raise AbortableError(
                f"could not send the input offsets within {patience.bound_s:.1f} s: {error}", code=error.code
            ) from error

    def commit(self, *, patience: CallPatience, confirmed: Callable[[], None]) -> None:
        """Commit; OutcomeUnknownError when the coordinator does not report the outcome in time.

        A fenced commit has an unknown outcome too. The client repeats a commit whose answer was lost, and then receives
        the later fencing by another client, not the outcome of the commit.
        """

        def commit_once(timeout_s: float) -> None:
            with kafka_call("commit the transaction"):
                self.live.commit_transaction(timeout_s)

        try:
            in_slices(commit_once, patience)
        except RetriableError as error:
            raise OutcomeUnknownError(
                f"the commit was not answered within {patience.bound_s:.1f} s: {error}"
            ) from error
        except FencedError as error:
            error.outcome_unknown = True
            raise
        confirmed()

    def abort(self, *, patience: CallPatience) -> None:
        """Abort the open transaction; raises RetriableError when the coordinator does not answer in time.

        After outputs that failed the client also requests its next epoch in here (KIP-360). It continues to do so after
        the call was abandoned. Earlier statistics do not show the epoch after this.
        """

        def abort_once(timeout_s: float) -> None:
            with kafka_call("abort the transaction"):
                self.live.abort_transaction(timeout_s)

        self._abort_is_open = True
        error = error_of(lambda: in_slices(abort_once, patience), LoopError)
        # Statistics from before the abort's end are all queued by now; the next ones are from after it.
        self._serve_callbacks(0)
        self._keeper.is_of_now = False
        if error is not None:
            raise error
        self._abort_is_open = False

    @property
    def may_have_bumped(self) -> bool:
        return self._abort_is_open or not self._keeper.is_of_now

    def identity(self, *, timeout_s: float) -> ProducerIdentity | None:
        """Producer id and epoch, also of a fenced producer; None if no statistics arrive within `timeout_s`.

        It also waits so long for statistics from after the last abort, and returns the older ones if none come. With a
        timeout of 0 it checks only what has arrived by now. It always polls: unread statistics of an idle producer pile
        up in it.
        """
        deadline = time.monotonic() + timeout_s
        self._serve_callbacks(0)
        while self._keeper.identity is None or not self._keeper.is_of_now:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
            self._serve_callbacks(min(0.05, left_s))
        return self._keeper.identity

    def _serve_callbacks(self, timeout_s: float) -> None:
        try:
            self.live.poll(timeout_s)
        except KafkaException:
            # A fenced producer raises at every poll, after it has served its callbacks.
            time.sleep(timeout_s)
