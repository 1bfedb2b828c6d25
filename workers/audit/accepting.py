"""Check that a record's outputs can be in files: the file sink's checks of each output, repeated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Message

from app.core.avro_schemas.shape import NOTHING, BadValueError, Shape
from app.core.pipelines.file_partitions import FilePartitions, PartitionError
from app.core.pipelines.pipeline import FileSink, SchemaConflict
from workers.loop.records.filing import dated
from workers.sinks.json_records import decode
from workers.sinks.record_schemas import record_schemas
from workers.transforms import Output


class FileAcceptance:
    """All checks that do not depend on earlier records. Where types that conflict with those are refused, the refused
    outputs are among the dead letters, and so distinguished from lost ones.
    """

    def __init__(self, files: FileSink) -> None:
        self._partitions = FilePartitions(files.partition_by, event_time=files.event_time)
        self._schemas = record_schemas(files)
        # The shapes of earlier records are kept for speed alone: by this policy they refuse nothing.
        self._keeps_shape = files.schema is not None or files.conflict is SchemaConflict.UNION
        self._shape: Shape = NOTHING

    def takes(self, outputs: Sequence[Output], message: Message) -> bool:
        """True if each of them can be in a file; if one cannot, none is."""
        try:
            for output in outputs:
                self._check(output, message)
        except (BadValueError, PartitionError):
            return False
        return True

    def _check(self, output: Output, message: Message) -> None:
        value, timestamp_ms = dated(output, message)
        record: Any = decode(value)
        if type(record) is not dict:
            raise BadValueError("no JSON object")
        self._partitions.values(record, timestamp_ms)  # pyright: ignore[reportUnknownArgumentType]
        shape = self._schemas.add(self._shape, value, record)
        if self._keeps_shape:
            self._shape = shape
