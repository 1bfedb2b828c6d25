"""The schemas of records and files for the sink: inferred, or given beforehand."""

from __future__ import annotations

from typing import Any, Protocol

from app.core.avro_schemas.canonical import fingerprint
from app.core.avro_schemas.shape import Shape
from app.core.pipelines.pipeline import FileSink as Settings
from workers.native.avro import NativeAvro, definition_of
from workers.native.library import NativeLibrary
from workers.sinks.avro_encoder import AvroEncoder
from workers.sinks.values import ValueSchema, ValueShapes

_RECORD = "Record"


class RecordSchemas(Protocol):
    def add(self, shape: Shape, value: bytes, record: Any = None) -> Shape:
        """The shape of a file with one more value. Raises BadValueError if the value cannot be in it."""
        ...

    def schema(self, shape: Shape) -> ValueSchema:
        """The schema of a file of this shape, which has a value."""
        ...

    def checked_by_c(self, shape: Shape) -> NativeAvro | None:
        """The values that leave a file of this shape as it is, for C; None: Python checks them."""
        ...


class GivenSchema:
    """Every file has the schema that the pipeline names, and a value fits it or is bad."""

    def __init__(self, schema: dict[str, Any], native: NativeLibrary | None = None) -> None:
        """schema: one without problems (app/core/avro_schemas/given.py). native: to check values by C."""
        self._check = AvroEncoder(schema).check
        self._by_c = None if native is None else NativeAvro(native, definition_of(schema))
        self._schema = ValueSchema(schema, fingerprint(schema))

    def add(self, shape: Shape, value: bytes, record: Any = None) -> Shape:
        self._check(value, record)
        return shape

    def schema(self, shape: Shape) -> ValueSchema:  # noqa: ARG002 - the same for each
        return self._schema

    def checked_by_c(self, shape: Shape) -> NativeAvro | None:  # noqa: ARG002 - the same for each
        return self._by_c


def record_schemas(settings: Settings, native: NativeLibrary | None = None) -> RecordSchemas:
    """native: to check values by C."""
    if settings.schema is not None:
        return GivenSchema(settings.schema, native)
    return ValueShapes(name=_RECORD, policy=settings.conflict, native=native)
