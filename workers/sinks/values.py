"""The schema of a file's values: inferred as they come, or given beforehand and only checked."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from app.core.avro_schemas.avro import avro_schema
from app.core.avro_schemas.canonical import fingerprint
from app.core.avro_schemas.conflict import conflict
from app.core.avro_schemas.shape import BadValueError, Shape, merge, shape_of
from app.core.pipelines.pipeline import SchemaConflict
from workers.native.avro import NativeAvro, definition_of_shape
from workers.native.library import NativeLibrary
from workers.sinks.json_records import UNREADABLE, decode
from workers.sinks.shape_types import type_of

MAX_DECODERS: Final = 256
_WORTH: Final = 32
"""How often a shape occurs before a decoder is made for it, which takes as long as so many checks without one."""


class ValueSchema(NamedTuple):
    """An Avro schema as JSON, and the SHA-256 of its Parsing Canonical Form; not to be changed."""

    schema: dict[str, Any]
    fingerprint: str


class ValueShapes:
    """Grows the shapes of files by the values that go into them: one of it for a task, a Shape for a file.

    Nearly all values add nothing to their file's shape. Those are only checked by a decoder of msgspec that takes no
    others. The decoders are shared by all files of the same shape, and bounded: rare shapes have none.
    """

    def __init__(self, *, name: str, policy: SchemaConflict, native: NativeLibrary | None = None) -> None:
        """name: of the record in each schema; policy: for a value whose type conflicts with its file's.

        native: to check values by C.
        """
        self._native = native
        self._by_c: dict[Shape, NativeAvro] = {}
        self._is_union = policy is SchemaConflict.UNION
        self._decoders: dict[Shape, Callable[[bytes], object] | None] = {}
        self._met: WeakKeyDictionary[Shape, int] = WeakKeyDictionary()
        self._name = name

    def add(self, shape: Shape, value: bytes, record: Any = None) -> Shape:
        """The shape of a file with one more value; NOTHING is that of an empty file.

        record: the value decoded by json_records, if it is already.

        Raises BadValueError if the value cannot be in this file: it is no JSON object, or no schema holds it. By policy
        also if its type conflicts with the file's. The file's shape is as before then.
        """
        decoder = self._decoders.get(shape)
        if decoder is not None:
            try:
                decoder(value)
            except UNREADABLE:
                pass
            else:
                return shape
        return self._add_slowly(shape, value, record)

    def schema(self, shape: Shape) -> ValueSchema:
        """The schema of a file of this shape, which has a value."""
        return _file_schema(shape, self._name)

    def checked_by_c(self, shape: Shape) -> NativeAvro | None:
        """The values that add nothing to a shape, for C; None for a rare shape, as with decoders."""
        if self._native is None or shape not in self._decoders:
            return None
        found = self._by_c.get(shape)
        if found is None:
            found = self._by_c[shape] = NativeAvro(self._native, definition_of_shape(shape))
        return found

    def _add_slowly(self, shape: Shape, value: bytes, record: Any) -> Shape:
        found = shape_of(decode(value) if record is None else record)
        if not self._is_union and (sentence := conflict(shape, found)) is not None:
            raise BadValueError(sentence)
        merged = merge(shape, found)
        if merged not in self._decoders:
            self._meet(merged)
        return merged

    def _meet(self, shape: Shape) -> None:
        times = self._met.get(shape, 0) + 1
        self._met[shape] = times
        if times < _WORTH:
            return
        if len(self._decoders) >= MAX_DECODERS:
            oldest = next(iter(self._decoders))
            del self._decoders[oldest]
            self._by_c.pop(oldest, None)
            self._met.pop(oldest, None)
        type_ = type_of(shape)
        self._decoders[shape] = None if type_ is None else msgspec.json.Decoder(type_).decode


@lru_cache(maxsize=MAX_DECODERS)
def _file_schema(shape: Shape, name: str) -> ValueSchema:
    schema = avro_schema(shape, name)
    return ValueSchema(schema, fingerprint(schema))
