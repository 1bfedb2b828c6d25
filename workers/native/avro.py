"""Avro by C: definitions of types for it, and the blocks of a file.

C writes a value only if it is certain of the bytes (avro.c). The others go to AvroEncoder, one by one, and their bytes
take their places.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final

import msgspec

from app.core.avro_schemas.avro import AvroSchema
from app.core.avro_schemas.expanding import expanded
from app.core.avro_schemas.fitting import branches_of, integer_range, is_nullable, type_of
from app.core.avro_schemas.names import is_entries, json_name
from app.core.avro_schemas.shape import MAX_EXACT, MAX_LONG, MIN_LONG, Shape, ValueKind
from workers.native.library import NativeLibrary, Text
from workers.sinks.blocks import Content, blocks_by_python
from workers.sinks.frames import Frames, frame_at, values_of
from workers.sinks.shape_types import is_nameable

_TRIES: Final = 32
"""After so many values that C left to Python, the rest of a file is Python's, unless C has decided more of them."""


class NativeAvro:
    """A schema, or a shape, in C's memory. It does not change, so that threads may share it."""

    def __init__(self, library: NativeLibrary, definition: dict[str, Any]) -> None:
        """definition: by `definition_of` or `definition_of_shape`. Raises ValueError if C does not take it."""
        self._library = library
        self.pointer: int | None = None
        text = msgspec.json.encode(definition)
        self.pointer = library.calls.fl_avro_new(text, len(text))
        if self.pointer is None:
            raise ValueError("C does not take this schema")

    def __del__(self) -> None:
        if self.pointer is not None:
            self._library.calls.fl_avro_free(self.pointer)


class NativeBlocks:
    """The blocks of files of one schema, encoded by C where that is certain."""

    def __init__(self, library: NativeLibrary, schema: AvroSchema) -> None:
        """schema: one without problems (app/core/avro_schemas/given.py), expanded or not."""
        self._library = library
        self._avro = NativeAvro(library, definition_of(schema))

    def blocks(
        self, pieces: Iterable[Frames], encode: Callable[[bytes, int], bytes], *, block_bytes: int
    ) -> Iterator[tuple[int, Content]]:
        """Encode framed values; yield the number of records in each block and its bytes, which last until the next one.

        Args:
            encode: Python's encoder, for a value and its number in the file, from 1 on. It raises for a bad one.
            block_bytes: a block ends with the record by which it has so many.
        """
        block = _block_of_this_thread(self._library)
        block.clear()
        in_block = before = by_c = left = 0
        rest = iter(pieces)
        for frames in rest:
            at = 0
            while at < len(frames):
                done, at = block.fill(self._avro, frames, at, block_bytes)
                in_block, by_c = in_block + done, by_c + done
                if at < len(frames) and block.size < block_bytes:
                    if left >= max(by_c, _TRIES):
                        values = chain(values_of(frames, at), chain.from_iterable(map(values_of, rest)))
                        begun = bytearray(block.content)
                        yield from blocks_by_python(values, encode, begun, in_block, before, block_bytes=block_bytes)
                        return
                    value, at = frame_at(frames, at)
                    in_block, left = in_block + 1, left + 1
                    block.put(encode(value, before + in_block))
                if block.size >= block_bytes:
                    yield in_block, block.content
                    before, in_block = before + in_block, 0
                    block.clear()
        if in_block:
            yield in_block, block.content


class _Block:
    """A block while it is filled. One thread uses it."""

    def __init__(self, library: NativeLibrary) -> None:
        self._library = library
        self._pointer: Any = None
        self._pointer = library.calls.fl_block_new()
        if not self._pointer:
            raise MemoryError("there is no memory for a block of a file")
        self._text: Text = self._pointer.contents

    def __del__(self) -> None:
        if self._pointer:
            self._library.calls.fl_block_free(self._pointer)

    @property
    def size(self) -> int:
        return self._text.size

    @property
    def content(self) -> memoryview:
        """Its bytes, which are valid until it is filled again."""
        if not self._text.address:
            return memoryview(b"")
        return memoryview((ctypes.c_char * self._text.size).from_address(self._text.address))

    def clear(self) -> None:
        self._text.size = 0

    def put(self, encoded: bytes) -> None:
        if not self._library.calls.fl_block_put(self._pointer, encoded, len(encoded)):
            raise MemoryError("there is no memory for a block of a file")

    def fill(self, avro: NativeAvro, frames: Frames, at: int, most: int) -> tuple[int, int]:
        """Encode values from this place on; return how many, and the place of the next one."""
        place = ctypes.c_int64(at)
        start = frames if isinstance(frames, bytes) else frames.address
        done = self._library.calls.fl_block_fill(
            self._pointer, avro.pointer, start, len(frames), ctypes.byref(place), most
        )
        if done < 0:
            raise MemoryError("there is no memory for a block of a file, or its values are damaged")
        return done, place.value


class _PerThread(threading.local):
    block: _Block | None = None


_per_thread = _PerThread()


def _block_of_this_thread(library: NativeLibrary) -> _Block:
    found = _per_thread.block
    if found is None:
        found = _per_thread.block = _Block(library)
    return found


def definition_of(schema: AvroSchema) -> dict[str, Any]:
    """Return a schema as avro.c reads it. A field may be missing if it can be null."""
    whole = expanded(schema)
    names: set[str] = set()
    return {"type": _type(whole, names), "escapes": not all(map(is_nameable, names))}


def definition_of_shape(shape: Shape) -> dict[str, Any]:
    """Return the type of the values that add nothing to the shape, as avro.c reads it."""
    names: set[str] = set()
    return {"type": _type_of_shape(shape, names), "escapes": not all(map(is_nameable, names))}


def _type(schema: AvroSchema, names: set[str]) -> dict[str, Any]:
    """names: gets those of all fields."""
    found: dict[str, Any] = {"union": True} if isinstance(schema, list) else {}
    for index, branch in enumerate(branches_of(schema)):
        match type_of(branch), branch:
            case ("null" | "boolean" | "double") as kind, _:
                found[kind] = index
            case "int" | "long", _:
                found["integer"] = [index, *integer_range(branch)]
            case "string", _:
                found["text"] = index
            case "enum", {"symbols": symbols}:
                found["text"] = [index, symbols]
            case "array", {"items": items}:
                found["array"] = [index, _type(items, names)]
            case "map", {"values": values}:
                found["map"] = [index, _type(values, names)]
            case "record", {"fields": fields} if is_entries({"fields": fields}):
                return _type(fields[0]["type"], names)
            case "record", {"fields": fields}:
                names.update(map(json_name, fields))
                found["record"] = [
                    index,
                    [(json_name(field), _type(field["type"], names), is_nullable(field["type"])) for field in fields],
                ]
            case kind, _:
                raise ValueError(f"C does not take the type `{kind}`")
    return found


def _type_of_shape(shape: Shape, names: set[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    kinds = shape.kinds
    if kinds & ValueKind.NULL:
        found["null"] = 0
    if kinds & ValueKind.BOOLEAN:
        found["boolean"] = 0
    if kinds & ValueKind.INTEGER:
        found["integer"] = [0, MIN_LONG, MAX_LONG] if kinds & ValueKind.BIG else [0, -MAX_EXACT, MAX_EXACT]
    if kinds & ValueKind.DOUBLE:
        found["double"] = 0
    if kinds & ValueKind.STRING:
        found["text"] = 0
    if shape.items is not None:
        found["array"] = [0, _type_of_shape(shape.items, names)]
    if shape.values is not None:
        found["map"] = [0, _type_of_shape(shape.values, names)]
    if shape.names is not None:
        names.update(shape.names)
        found["record"] = [
            0,
            [
                (name, _type_of_shape(field, names), not is_required)
                for name, field, is_required in zip(shape.names, shape.fields, shape.required, strict=True)
            ],
        ]
    return found
