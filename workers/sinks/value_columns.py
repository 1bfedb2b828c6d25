"""The partition columns of a value that is still JSON: only the fields for them are decoded."""

from __future__ import annotations

from typing import Any, TypedDict, cast

import msgspec

from app.core.avro_schemas.shape import BadValueError
from app.core.pipelines.file_partitions import FilePartitions, PartitionError
from app.core.pipelines.pipeline import ByField, FileSink
from app.core.transforms import field_path
from app.core.transforms.comparison import kind_of
from workers.sinks.json_records import UNREADABLE, decode


class ValueColumns:
    """names, folder: see FilePartitions."""

    def __init__(self, settings: FileSink) -> None:
        """Raises FieldPathError for an invalid path."""
        self._partitions = FilePartitions(settings.partition_by, event_time=settings.event_time)
        self.names = self._partitions.names
        self.folder = self._partitions.folder
        paths = [column.field for column in settings.partition_by if isinstance(column, ByField)]
        if settings.event_time is not None:
            paths.append(settings.event_time)
        # Other fields are skipped; they are checked when the schema grows.
        fields = TypedDict("fields", {field_path.parse(path)[0]: Any for path in paths}, total=False)  # type: ignore[misc]
        self._decode = msgspec.json.Decoder(cast(Any, fields)).decode

    def values(self, value: bytes, timestamp_ms: int | None) -> tuple[str, ...]:
        """The value of each column. Raises BadValueError for a value that is no JSON object, or has no partition."""
        try:
            return self._partitions.values(self._decode(value), timestamp_ms)
        except PartitionError as error:
            raise BadValueError(str(error)) from error
        except UNREADABLE:
            found = decode(value)
            raise BadValueError(f"the value is {kind_of(found)}; a file's records are JSON objects") from None
