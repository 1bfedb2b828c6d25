"""From a polled batch to records in the producer's queue."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from confluent_kafka import Message

from workers.transactional.errors import AbortableError, PipelineStopError
from workers.transactional.producing.output_topics import OutputTopics
from workers.transactional.producing.producers import TaskProducer
from workers.transactional.records.failures import BadRecords
from workers.transactional.records.suspicion import CondemnedError
from workers.transactional.telling.tally import Work
from workers.transforms import Failure, Output, Processed, Transform

_LOOK_UP_S = 5.0
_topic_of = attrgetter("topic")


class Processing:
    """Applies the transform, writes what it returned, and treats what it could not process.

    A record's outputs reach the producer only when its transform has returned (rule 7): a batch is transformed whole,
    then written.

    Identity keeps each record's partition number where source and sink have equally many partitions, as a mirror does:
    the order within a partition then holds for records without a key too, whatever partitioner wrote the source.
    """

    def __init__(
        self, transform: Transform, *, source_topics: Sequence[str], sink_topic: str, topics: OutputTopics
    ) -> None:
        self._transform = transform
        self._topics = topics
        self._source_topics = tuple(source_topics)
        self._sink_topic = sink_topic
        self._keep_partition: bool | None = None

    def look_up_again(self) -> None:
        """The assignment has changed, or a checkpoint was aborted: perhaps a topic has more partitions, or is gone."""
        self._keep_partition = None
        self._topics.look_up_again()

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
            self._write(self._deliverable([letter] if letter else []), producer, work)
        elif self._transform.is_identity:
            producer.write_messages(messages, topic=self._sink_topic, keep_partition=keep_partition)
            work.records_out += len(messages)
            work.bytes_out += size_bytes
        else:
            processed = self._without_unwritable(self._transform.process(messages), len(messages))
            letters = [
                bad_records.treat(messages[failure.index], failure.error, work)  # pyright: ignore[reportArgumentType, reportCallIssue]
                for failure in processed.failures
            ]
            self._write(processed.outputs + self._deliverable(letters), producer, work)

    def _without_unwritable(self, processed: Processed, count: int) -> Processed:
        """A record with an output for a topic that is not there is a bad one, and none of its outputs is kept."""
        named: set[str] = set(map(_topic_of, processed.outputs)) - {None}
        problems = self._topics.unwritable(named)
        if not problems:
            return processed
        failed: dict[int, Exception] = {failure.index: failure.error for failure in processed.failures}
        inputs = processed.inputs or [index for index in range(count) if index not in failed]
        by_output = list(zip(inputs, processed.outputs, strict=True))
        for index, output in by_output:
            if output.topic is not None and output.topic in problems:
                failed.setdefault(index, problems[output.topic])
        kept = [(index, output) for index, output in by_output if index not in failed]
        return Processed(
            [output for _, output in kept],
            [Failure(index, error) for index, error in sorted(failed.items())],
            [index for index, _ in kept],
        )

    def _deliverable(self, letters: Sequence[Output | None]) -> list[Output]:
        """Those of `treat` that are to be written. Raises PipelineStopError when their topic is not there."""
        written = [letter for letter in letters if letter is not None]
        topics = {letter.topic for letter in written if letter.topic is not None}
        for problem in self._topics.unwritable(topics).values() if topics else ():
            raise PipelineStopError(f"dead letters cannot be written: {problem}")
        return written

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
