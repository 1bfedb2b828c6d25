"""The producer of a file pipeline: its transaction begins when the checkpoint's files are uploaded and verified."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from confluent_kafka import TopicPartition

from workers.loop.control import ProducerIdentity
from workers.loop.errors import AbortableError, FatalError
from workers.loop.producing.producers import SendsFor, TaskProducer
from workers.loop.producing.statistics import Slowness
from workers.loop.records.polled import Writable
from workers.loop.slices import CallPatience
from workers.sinks.file_sink import FileSinkWriter, SinkError
from workers.transforms import Output

_FOR_UPLOADS = 0.75
"""The part of a checkpoint's bound before the transaction, which gets at least the rest."""
_TOGETHER = 1_000
_MOST_RECORDS = 5_000_000
"""Ten times the limit of a transaction: the search after a death takes accordingly more steps."""


class FileProducer:
    """A TaskProducer like any other for a checkpoint. Its steps:

    begin           a checkpoint of the sink; no request to a broker, however long it stays open
    add             records join files; dead letters wait here, they are few
    flush           files uploaded and verified; then the transaction begins, and references and dead letters are
                    written and flushed
    send_offsets, commit   as in its base, so that the transaction lasts as long as these
    abort           only a transaction that has begun; the files are forgotten in any case
    """

    def __init__(
        self,
        producer: TaskProducer,
        sink: FileSinkWriter,
        *,
        topic: str,
        upload_timeout_s: float,
        transaction_timeout_s: float,
    ) -> None:
        self._producer = producer
        self._sink = sink
        self._topic = topic
        self._upload_timeout_s = upload_timeout_s
        self._transaction_timeout_s = transaction_timeout_s
        self._letters: list[tuple[str, Output]] = []
        self._began_at: float | None = None

    @property
    def sink(self) -> FileSinkWriter:
        return self._sink

    def transaction_since(self, opened_at: float) -> float | None:  # noqa: ARG002 - it begins later
        return self._began_at

    def is_full(self, records: int, *, most: int) -> bool:  # noqa: ARG002 - its transaction holds references
        return records >= _MOST_RECORDS or self._sink.is_full

    def init(self, timeout_s: float) -> None:
        self._producer.init(timeout_s)

    def begin(self) -> None:
        self._sink.open()

    def write_records(
        self,
        records: Writable,  # noqa: ARG002 - the signature of TaskProducer
        *,
        topic: str,  # noqa: ARG002
        keep_partition: bool,  # noqa: ARG002
    ) -> None:
        """Raises FatalError: input records of a file pipeline go into files (Filing)."""
        raise FatalError("records of a file pipeline go into files; this is a bug in the loop")

    def write_outputs(self, outputs: Sequence[Output], *, topic: str) -> None:
        """Keep them for the transaction: dead letters, of which a window holds only so many."""
        self._letters += [(topic, output) for output in outputs]

    def flush(self, *, patience: CallPatience) -> None:
        """Raises AbortableError when the files are not uploaded in time."""
        try:
            self._sink.finish(
                bound_s=min(self._upload_timeout_s, _FOR_UPLOADS * patience.bound_s), between=patience.between
            )
            self._sink.require_fresh()
        except SinkError as error:
            # No request was sent to a broker, so the producer can stay.
            raise AbortableError(str(error)) from error
        self._began_at = time.monotonic()
        self._producer.begin()
        self._write_references()
        for topic, letter in self._letters:
            self._producer.write_outputs([letter], topic=topic)
        self._producer.flush(patience=self._of_transaction(patience))

    def send_offsets(self, offsets: list[TopicPartition], sends_for: SendsFor, *, patience: CallPatience) -> None:
        self._producer.send_offsets(offsets, sends_for, patience=self._of_transaction(patience))

    def commit(self, *, patience: CallPatience, confirmed: Callable[[], None]) -> None:
        self._producer.commit(patience=self._of_transaction(patience), confirmed=confirmed)
        self._sink.committed()
        self._forget()

    def abort(self, *, patience: CallPatience) -> None:
        has_begun = self._began_at is not None
        self._sink.forget()
        self._letters.clear()
        if has_begun:
            self._producer.abort(patience=patience)
            self._began_at = None

    def discard(self) -> None:
        self._forget()
        self._producer.discard()

    def partition_count(self, topic: str, timeout_s: float) -> int:
        return self._producer.partition_count(topic, timeout_s)

    def identity(self, *, timeout_s: float) -> ProducerIdentity | None:
        return self._producer.identity(timeout_s=timeout_s)

    def slowness(self) -> Slowness:
        return self._producer.slowness()

    @property
    def may_have_bumped(self) -> bool:
        return self._producer.may_have_bumped

    def _of_transaction(self, patience: CallPatience) -> CallPatience:
        """At most the coordinator's timeout, however long the bound of the uploads was."""
        began_at = time.monotonic() if self._began_at is None else self._began_at
        left_s = max(0.0, began_at + self._transaction_timeout_s - time.monotonic())
        return patience._replace(bound_s=min(patience.bound_s, left_s))

    def _write_references(self) -> None:
        some: list[Output] = []
        for path, reference in self._sink.references():
            some.append(Output(reference, path.encode(), None, None, None))
            if len(some) == _TOGETHER:
                self._producer.write_outputs(some, topic=self._topic)
                some = []
        self._producer.write_outputs(some, topic=self._topic)

    def _forget(self) -> None:
        self._sink.forget()
        self._letters.clear()
        self._began_at = None
