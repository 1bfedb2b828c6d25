"""From a polled batch to records in the producer's queue."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Message

from workers.transactional.errors import AbortableError
from workers.transactional.producing.producers import TaskProducer
from workers.transactional.records.failures import BadRecords
from workers.transactional.records.suspicion import CondemnedError
from workers.transactional.telling.tally import Work
from workers.transforms import Output, Processed, Transform

_LOOK_UP_S = 5.0


class Processing:
    """Applies the transform, writes what it returned, and treats what it could not process.

    A record's outputs reach the producer only when its transform has returned (rule 7): a batch is transformed whole,
    then written.

    Identity keeps each record's partition number where source and sink have equally many partitions, as a mirror does:
    the order within a partition then holds for records without a key too, whatever partitioner wrote the source.
    """

    def __init__(self, transform: Transform, *, source_topics: Sequence[str], sink_topic: str) -> None:
        self._transform = transform
        self._source_topics = tuple(source_topics)
        self._sink_topic = sink_topic
        self._keep_partition: bool | None = None

    def look_up_again(self) -> None:
        """The assignment has changed, perhaps because a topic has more partitions now."""
        self._keep_partition = None

    def run(
        self,
        messages: list[Message],
        producer: TaskProducer,
        work: Work,
        bad_records: BadRecords,
        *,
        condemned: CondemnedError | None = None,
    ) -> None:
        """Process one batch into the open checkpoint.

        Args:
            work, bad_records: what the checkpoint holds; this batch is added to it.
            condemned: treat the only message as bad, for this reason, without trying it.

        Raises:
            PipelineStopError: a bad record whose policy says so.
            LoopError: the producer does not take a record, or the sink topic is not there.
        """
        keep_partition = self._keeps_partition(producer)
        work.records_in += len(messages)
        size_bytes = sum(map(len, messages))
        work.bytes_in += size_bytes
        bad_records.read(len(messages))
        if condemned is not None:
            letter = bad_records.treat(messages[0], condemned, work)
            self._write([letter] if letter else [], producer, work)
        elif self._transform.is_identity:
            producer.write_messages(messages, topic=self._sink_topic, keep_partition=keep_partition)
            work.records_out += len(messages)
            work.bytes_out += size_bytes
        else:
            processed = self._transform.process(messages)
            self._write(_with_letters(messages, processed, work, bad_records), producer, work)

    def _write(self, outputs: list[Output], producer: TaskProducer, work: Work) -> None:
        if outputs:
            producer.write_outputs(outputs, topic=self._sink_topic)
            work.records_out += len(outputs)
            work.bytes_out += sum(len(output.value or b"") for output in outputs)

    def _require_sink_topic(self, producer: TaskProducer) -> None:
        """Raises AbortableError when the sink topic is not there; looked up once for each assignment."""
        self._keeps_partition(producer)

    def _keeps_partition(self, producer: TaskProducer) -> bool:
        if self._keep_partition is None:
            sink_partitions = producer.partition_count(self._sink_topic, _LOOK_UP_S)
            if sink_partitions == 0:
                raise AbortableError(f"the sink topic {self._sink_topic} does not exist on this cluster; create it")
            self._keep_partition = all(
                producer.partition_count(topic, _LOOK_UP_S) == sink_partitions for topic in self._source_topics
            )
        return self._keep_partition


def _with_letters(messages: list[Message], processed: Processed, work: Work, bad_records: BadRecords) -> list[Output]:
    if not processed.failures:
        return processed.outputs
    letters = [
        bad_records.treat(messages[failure.index], failure.error, work)  # pyright: ignore[reportArgumentType, reportCallIssue]
        for failure in processed.failures
    ]
    return processed.outputs + [letter for letter in letters if letter is not None]
