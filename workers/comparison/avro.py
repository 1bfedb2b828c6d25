"""Avro files that another system wrote."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, cast

import fastavro
import msgspec

from app.core.avro_schemas.avro import AvroSchema
from app.core.avro_schemas.reading_back import json_values
from app.core.wire.bounded_avro import BlockError, BoundedContainer


class UnreadableFileError(Exception):
    """A file is not of the named format; the message has its name, and no content."""


def records_of(name: str, content: bytes) -> Iterator[dict[str, Any]]:
    """Yield the records of a file as JSON values, with timestamps as milliseconds since 1970.

    Raises UnreadableFileError.
    """
    try:
        reading = fastavro.reader(cast("Any", BoundedContainer(io.BytesIO(content))))
        schema = cast("AvroSchema", reading.writer_schema)
        if not isinstance(schema, dict) or schema["type"] != "record":
            raise BlockError("its values are no records")  # noqa: TRY301 - as the other reasons
        restored = json_values(_in_milliseconds(schema))
        for found in reading:
            record = cast("dict[str, Any]", found)
            yield record if restored is None else restored(record)
    except BlockError as error:
        raise UnreadableFileError(f"{name} cannot be read as Avro: {error}") from error
    except Exception as error:  # the border to fastavro and its codecs, each of which has errors of its own
        raise UnreadableFileError(f"{name} cannot be read as Avro: {type(error).__name__}") from error


def _in_milliseconds(schema: AvroSchema) -> AvroSchema:
    """Return the schema with which microseconds are restored as milliseconds, the unit of all times."""
    text = msgspec.json.encode(schema)
    return msgspec.json.decode(text.replace(b'"timestamp-micros"', b'"timestamp-millis"'))
