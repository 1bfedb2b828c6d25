"""From a polled batch to records in the files of the open checkpoint."""

from __future__ import annotations

from itertools import groupby

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Message

from app.core.avro_schemas.shape import BadValueError
from workers.loop.errors import AbortableError, FatalError
from workers.loop.partitions import place_of
from workers.loop.producing.file_producer import FileProducer
from workers.loop.producing.producers import TaskProducer
from workers.loop.records.failures import BadRecords
from workers.loop.records.polled import Records
from workers.loop.records.processing import Processing
from workers.loop.records.suspicion import CondemnedError
from workers.loop.telling.tally import Work
from workers.native.filing import HeldOutputs
from workers.sinks.file_sink import Dated, FileSinkWriter, SinkError
from workers.transforms import Output, Processed
from workers.transforms.carrying import transformed


class Filing(Processing):
    """As its base, for a pipeline whose outputs go into files.

    A record is bad if one of its outputs cannot be in a file, and then none of them is kept. Such outputs are no JSON
    object, have no event time, or have a type that the schema does not take.
    """

    def run(
        self,
        records: Records,
        producer: TaskProducer,
        work: Work,
        bad_records: BadRecords,
        *,
        condemned: CondemnedError | None = None,
    ) -> None:
        """Raises as the base; AbortableError when the local disk is full."""
        if not isinstance(producer, FileProducer):
            raise FatalError("the producer of a file pipeline has no files; this is a bug in the loop")
        self._require_sink_topic(producer)
        work.records_in += len(records)
        work.bytes_in += records.size_bytes
        bad_records.read(len(records))
        if condemned is not None:
            failed: dict[int, Exception] = {0: condemned}
        else:
            try:
                failed = self._filed(records, producer.sink, work)
            except SinkError as error:
                raise AbortableError(str(error)) from error
        self._treat(records, failed, producer, work, bad_records)

    def _filed(self, records: Records, sink: FileSinkWriter, work: Work) -> dict[int, Exception]:
        """File the outputs of all records; return the errors of those that have none, by index."""
        outputs = records.outputs(self._transform) if sink.takes_held else None
        if outputs is not None:
            return self.filed_by_c(outputs, sink, work)
        messages, unreadable = records.messages()
        processed, failed = transformed(self._transform, messages, unreadable=unreadable)
        self._file(messages, processed, sink, work, failed)
        return failed

    def filed_by_c(self, outputs: HeldOutputs, sink: FileSinkWriter, work: Work) -> dict[int, Exception]:
        """File outputs of records that C holds. Those that it leaves are filed one by one, in their places.

        Return the errors as `_filed`; raises SinkError.
        """
        failed = dict(outputs.failures)
        records_before, bytes_before = sink.added
        for index in sink.add_held(outputs):
            message, unreadable = outputs.message(index)
            processed, bad = transformed(self._transform, [message], unreadable=unreadable)
            self._file([message], processed, sink, Work(), bad)
            if bad:
                failed[index] = bad[0]
        records, size_bytes = sink.added
        work.records_out += records - records_before
        work.bytes_out += size_bytes - bytes_before
        return failed

    def _file(
        self,
        messages: list[Message],
        processed: Processed,
        sink: FileSinkWriter,
        work: Work,
        failed: dict[int, Exception],
    ) -> None:
        bytes_out = count = 0
        verification = sink.verification
        # A function over Arrow batches may return rows in another order; a file has the records in theirs.
        for index, its in groupby(
            sorted(zip(processed.inputs or (), processed.outputs, strict=True), key=_first), _first
        ):
            message = messages[index]
            try:
                filed = [dated(output, message) for _index, output in its]
                ids = None if verification is None else verification.ids([one.value for one in filed])
                sink.add(
                    filed,
                    source=place_of(message),
                    offset=message.offset() or 0,
                )
            except BadValueError as error:
                failed[index] = error
                continue
            if verification is not None and ids is not None:
                verification.expect(ids)
            bytes_out += sum([len(one.value) for one in filed])
            count += len(filed)
        work.records_out += count
        work.bytes_out += bytes_out


def _first(pair: tuple[int, Output]) -> int:
    return pair[0]


def dated(output: Output, message: Message) -> Dated:
    """Return an output of this message as a file gets it. Raises BadValueError if no file can have it."""
    if output.topic is not None:
        raise BadValueError("it names a topic, and the outputs of this pipeline go into files")
    if output.value is None:
        raise BadValueError("it has no value (a tombstone), and a file cannot represent a deletion")
    if output.timestamp_ms is not None:
        return Dated(output.value, output.timestamp_ms)
    kind, timestamp_ms = message.timestamp()
    return Dated(output.value, None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms)
