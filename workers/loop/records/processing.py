"""From a polled batch to records in the producer's queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter

from confluent_kafka import Message

from workers.loop.errors import AbortableError, PipelineStopError
from workers.loop.producing.output_topics import OutputTopics
from workers.loop.producing.producers import TaskProducer
from workers.loop.records.failures import BadRecords
from workers.loop.records.polled import Records, Stepped
from workers.loop.records.suspicion import CondemnedError
from workers.loop.records.writing import UnfitError
from workers.loop.telling.tally import Work
from workers.transforms import Processed, Transform
from workers.transforms.carrying import kept, transformed, untimed

_LOOK_UP_S = 5.0
_topic_of = attrgetter("topic")


class Processing:
    """Applies the transform, writes its outputs, and treats records that it cannot process.

    A record's outputs reach the producer only when its transform has returned (rule 7): a batch is transformed whole,
    then written.

    Identity keeps each record's partition number where source and sink have equally many partitions, as a mirror does.
    The order within a partition then holds for records without a key too, with any partitioner of the source.
    """

    def __init__(
        self, transform: Transform, *, source_topics: Sequence[str], sink_topic: str, topics: OutputTopics
    ) -> None:
        self._transform = transform
        self._topics = topics
        self._source_topics = tuple(source_topics)
        self._sink_topic = sink_topic
        self._keep_partition: bool | None = None

    def try_out(self, message: Message) -> None:
        """Process a record only to see whether this process survives it; nothing is written."""
        if not self._transform.is_identity:
            self._transform.process([message])

    def look_up_again(self) -> None:
        """The assignment has changed, or a checkpoint was aborted: a topic may have more partitions, or be gone."""
        self._keep_partition = None
        self._topics.look_up_again()

    def run(
        self,
        records: Records,
        producer: TaskProducer,
        work: Work,
        bad_records: BadRecords,
        *,
        condemned: CondemnedError | None = None,
    ) -> None:
        """Process one batch into the open checkpoint.

        Args:
            work, bad_records: the content of the checkpoint; this batch is added to it.
            condemned: treat the only record as bad, for this reason, without trying it.

        Raises:
            PipelineStopError: a bad record whose policy requires a stop.
            LoopError: the producer does not take a record, or the sink topic does not exist.
        """
        self._require_sink_topic(producer)
        work.records_in += len(records)
        work.bytes_in += records.size_bytes
        bad_records.read(len(records))
        if condemned is not None:
            failed: Mapping[int, Exception] = {0: condemned}
        elif self._transform.is_identity:
            failed = self._write_through(records, producer, work)
        else:
            failed = self._write_transformed(records, producer, work)
        if failed:
            self._treat(records, failed, producer, work, bad_records)

    def _write_through(self, records: Records, producer: TaskProducer, work: Work) -> Mapping[int, Exception]:
        """Write the records as they are; return the errors of those that cannot be written, by index."""
        keep_partition = self._keeps_partition(producer)
        failed: Mapping[int, Exception] = {}
        try:
            producer.write_records(records, topic=self._sink_topic, keep_partition=keep_partition)
        except UnfitError as error:
            failed = error.found
        if failed:
            records = records.without_those(failed)
            producer.write_records(records, topic=self._sink_topic, keep_partition=keep_partition)
        work.records_out += len(records)
        work.bytes_out += records.size_bytes
        return failed

    def _write_transformed(self, records: Records, producer: TaskProducer, work: Work) -> Mapping[int, Exception]:
        """Write the transform's outputs of the records; return the errors of those without outputs, by index."""
        stepped = records.stepped(self._transform)
        if stepped is not None:
            return self._write_stepped(stepped, producer, work)
        messages, unreadable = records.messages()
        processed, failed = transformed(self._transform, messages, unreadable=unreadable)
        bad = {**self._for_missing_topics(processed), **untimed(processed)}
        outputs = kept(processed, bad)
        if outputs:
            producer.write_outputs(outputs, topic=self._sink_topic)
            work.records_out += len(outputs)
            work.bytes_out += sum(len(output.value or b"") for output in outputs)
        return {**failed, **bad}

    def _write_stepped(self, stepped: Stepped, producer: TaskProducer, work: Work) -> Mapping[int, Exception]:
        """Write outputs that are no objects; return the errors of the records without outputs, by index."""
        topics = stepped.topics
        refused = stepped.refuse(self._topics.unwritable(topics)) if topics else {}
        if len(stepped):
            producer.write_records(stepped, topic=self._sink_topic, keep_partition=False)
            work.records_out += len(stepped)
            work.bytes_out += stepped.size_bytes
        return {**stepped.failures, **refused}

    def _for_missing_topics(self, processed: Processed) -> dict[int, Exception]:
        """A record with an output for a missing topic is a bad one, and none of its outputs is kept."""
        problems = self._topics.unwritable(set(map(_topic_of, processed.outputs)) - {None})
        if not problems:
            return {}
        outputs = zip(processed.inputs or (), processed.outputs, strict=True)
        return {index: problem for index, output in outputs if (problem := problems.get(output.topic or ""))}

    def _treat(
        self,
        records: Records,
        failed: Mapping[int, Exception],
        producer: TaskProducer,
        work: Work,
        bad_records: BadRecords,
    ) -> None:
        """Apply the policy, in order. Dead letters are no outputs, and are not counted as such."""
        treated = [bad_records.treat(records[index], error, work) for index, error in sorted(failed.items())]
        letters = [letter for letter in treated if letter is not None]
        topics = {letter.topic for letter in letters if letter.topic is not None}
        for problem in self._topics.unwritable(topics).values() if topics else ():
            raise PipelineStopError(f"dead letters cannot be written: {problem}")
        if letters:
            producer.write_outputs(letters, topic=self._sink_topic)

    def _require_sink_topic(self, producer: TaskProducer) -> None:
        """Raises AbortableError when the sink topic does not exist; looked up once for each assignment."""
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
