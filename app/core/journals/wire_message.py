"""Kafka's serialized messages: one description by fields, for both reading and writing.

A `Message` mirrors one of Kafka's JSON definitions: fields in their order, with versions and tags. So it can be
compared with the definition, and reading and writing cannot differ. Reading is optimised for journals of many small
records: every version of a message is compiled to a list of plain functions.

Source: Kafka's protocol guide, "Protocol Primitive Types", and KIP-482 for the compact forms and tagged fields.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import msgspec

from app.core.journals.wire_format import (
    MALFORMED,
    Fixed,
    MalformedError,
    Read,
    WireType,
    Write,
    read_unsigned_varint,
    taken,
    unsigned_varint,
)

T = TypeVar("T", bound=msgspec.Struct)

_VERSION = struct.Struct(">h")


class Undecodable(msgspec.Struct, frozen=True):
    """Bytes of an unknown version, or bytes that do not match their version; `reason` has the difference."""

    reason: str
    raw: bytes


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a structure: `name` in the value, `kafka` in the definition if that is another name.

    since, until: the versions that carry it. tag: of a tagged field, omitted at its default. The default
    is that of the value's class.
    """

    name: str
    kind: WireType
    since: int = 0
    until: int = 32_767
    tag: int | None = None
    kafka: str = ""

    def is_in(self, version: int) -> bool:
        return self.since <= version <= self.until


@dataclass(frozen=True, slots=True)
class Layout(Generic[T]):
    """A structure: the class of its values and its fields in the order of the wire.

    made: its fields without a tag come first and in the order of the wire, since values are made by position.
    stamp: the field of the class for the version of the message. keeps_unknown_tags: the class has
    `unknown_tags`, for tagged fields newer than the description, which are dropped otherwise.
    """

    made: type[T]
    fields: tuple[Field, ...]
    stamp: str | None = None
    keeps_unknown_tags: bool = False

    def reader(self, version: int, is_flexible: bool) -> Read:
        places = {field.name: place for place, field in enumerate(msgspec.structs.fields(self.made))}
        blank = [_default(field) for field in msgspec.structs.fields(self.made)]
        if self.stamp is not None:
            blank[places[self.stamp]] = version
        present = [field for field in self.fields if field.is_in(version)]
        steps = _steps([field for field in present if field.tag is None], places, version, is_flexible)
        tagged = {
            field.tag: (places[field.name], field.kind.reader(version, is_flexible))
            for field in present
            if field.tag is not None
        }
        made, unknown_place = self.made, places["unknown_tags"] if self.keeps_unknown_tags else None

        def read(data: bytes, at: int) -> tuple[T, int]:
            values = blank[:]
            for place, read_field in steps:
                values[place], at = read_field(data, at)
            if is_flexible:
                count = data[at]
                at += 1
                if count:
                    unknown, at = _read_tags(tagged, values, data, at - 1)
                    if unknown_place is not None:
                        values[unknown_place] = unknown
            return made(*values), at

        return read

    def writer(self, version: int, is_flexible: bool) -> Write:
        present = [field for field in self.fields if field.is_in(version)]
        ordered = [(field.name, field.kind.writer(version, is_flexible)) for field in present if field.tag is None]
        tagged = [(field, field.kind.writer(version, is_flexible)) for field in present if field.tag is not None]
        defaults = {field.name: field.default for field in msgspec.structs.fields(self.made)}

        def write(value: T, parts: list[bytes]) -> None:
            for name, write_field in ordered:
                write_field(getattr(value, name), parts)
            if not is_flexible:
                return
            tags: dict[int, bytes] = dict(value.unknown_tags) if self.keeps_unknown_tags else {}  # type: ignore[attr-defined]
            for field, write_field in tagged:
                content = getattr(value, field.name)
                if field.tag is not None and content != defaults[field.name]:
                    written: list[bytes] = []
                    write_field(content, written)
                    tags[field.tag] = b"".join(written)
            parts.append(unsigned_varint(len(tags)))
            for tag, content in sorted(tags.items()):
                parts += [unsigned_varint(tag), unsigned_varint(len(content)), content]

        return write


Step = tuple[int | slice, Read]
"""The place of a field in the values, and its reading function."""


def _steps(fields: list[Field], places: dict[str, int], version: int, is_flexible: bool) -> list[Step]:
    """Neighbours of fixed size are read at once."""

    def runs_on(numbered: tuple[int, Field]) -> tuple[bool, int]:
        number, field = numbered
        # A field that this version lacks leaves a gap, and ends a run.
        return isinstance(field.kind, Fixed), places[field.name] - number

    steps: list[Step] = []
    for (is_fixed, _), group in itertools.groupby(enumerate(fields), runs_on):
        run = [field for _, field in group]
        if is_fixed:
            form = struct.Struct(">" + "".join(cast(Fixed, field.kind).form.format[-1] for field in run))
            steps.append((slice(places[run[0].name], places[run[-1].name] + 1), _run_reader(form)))
        else:
            steps += [(places[field.name], field.kind.reader(version, is_flexible)) for field in run]
    return steps


def _run_reader(form: struct.Struct) -> Read:
    unpack, size = form.unpack_from, form.size
    return lambda data, at: (unpack(data, at), at + size)


def _read_tags(
    tagged: Mapping[int, tuple[int, Read]], values: list[Any], data: bytes, at: int
) -> tuple[tuple[tuple[int, bytes], ...], int]:
    """Return the tags without a description, and the position after all tags."""
    count, at = read_unsigned_varint(data, at)
    unknown: list[tuple[int, bytes]] = []
    for _ in range(count):
        tag, size = data[at], data[at + 1]
        if tag < 0x80 and size < 0x80:
            at += 2
        else:
            tag, at = read_unsigned_varint(data, at)
            size, at = read_unsigned_varint(data, at)
        described = tagged.get(tag)
        if described is not None:
            place, read = described
            values[place], after = read(data, at)
            if after != at + size:
                raise MalformedError(f"tag {tag} is {after - at} bytes long instead of {size}")
        else:
            unknown.append((tag, taken(data, at, size)))
        at += size
    return tuple(unknown), at


@dataclass(frozen=True, slots=True)
class NullableStructure:
    """A structure that may be null: KIP-893 puts one byte before it, 1 if it is there.

    null: that byte if it is not; -1, and 0 in a tagged field.
    """

    of: Layout[Any]
    null: bytes = b"\xff"

    def reader(self, version: int, is_flexible: bool) -> Read:
        read_structure, null = self.of.reader(version, is_flexible), self.null[0]

        def read(data: bytes, at: int) -> tuple[Any, int]:
            if data[at] == 1:
                return read_structure(data, at + 1)
            if data[at] == null:
                return None, at + 1
            raise MalformedError(f"{data[at]} where a structure begins or is null")

        return read

    def writer(self, version: int, is_flexible: bool) -> Write:
        write_structure = self.of.writer(version, is_flexible)

        def write(value: Any, parts: list[bytes]) -> None:
            parts.append(self.null if value is None else b"\1")
            if value is not None:
                write_structure(value, parts)

        return write


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return None if field.default is msgspec.NODEFAULT else field.default


class WireMessage(Generic[T]):
    """A versioned message: an int16 version, then the structure of that version."""

    def __init__(self, layouts: Mapping[int, Layout[T]], *, flexible_since: int | None = None) -> None:
        self.layouts = layouts
        self.flexible_since = flexible_since
        flexible = {version: flexible_since is not None and version >= flexible_since for version in layouts}
        self._readers = {version: layout.reader(version, flexible[version]) for version, layout in layouts.items()}
        self._writers = {version: layout.writer(version, flexible[version]) for version, layout in layouts.items()}

    def decode(self, data: bytes, what: str = "value") -> T | Undecodable:
        """Return the value; `Undecodable` for an unknown version, and for bytes that do not match their version."""
        try:
            version = _VERSION.unpack_from(data)[0]
            read = self._readers.get(version)
            if read is None:
                return Undecodable(f"unknown {what} version {version}", data)
            return read(data, 2)[0]
        except MALFORMED as error:
            return Undecodable(f"malformed {what}: {error}", data)

    def encode(self, value: T, version: int) -> bytes:
        """Return the bytes that a broker writes for this value in this version."""
        parts = [_VERSION.pack(version)]
        self._writers[version](value, parts)
        return b"".join(parts)


def message_of(layout: Layout[T], *, last_version: int = 0, flexible_since: int | None = None) -> WireMessage[T]:
    """Describe a message of one structure, whose fields have their versions, from 0 on.

    flexible_since: the first version in compact form, None if there is none.
    """
    return WireMessage(dict.fromkeys(range(last_version + 1), layout), flexible_since=flexible_since)
