"""The types of Kafka's serialized messages, in their fixed-width and their compact encoding.

A `Kind` makes its reading or writing function once for each version of a message. So reading a record is a series of
plain calls. They raise one of `MALFORMED` for invalid bytes.
Source: Kafka's protocol guide, "Protocol Primitive Types"; KIP-482 for the compact forms.
"""

# ruff: noqa: ARG002 - each kind gets the complete encoding, and uses a part of it

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from sys import intern
from typing import Any, Protocol

Read = Callable[[bytes, int], tuple[Any, int]]
"""From the bytes and a position to the value and the position after it."""
Write = Callable[[Any, list[bytes]], None]
"""Appends the value's bytes."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_MAX_VARINT_BYTES = 5
_SHORT = 16


class MalformedError(Exception):
    """The bytes end early, or are not what their type says."""


MALFORMED = (MalformedError, IndexError, struct.error, UnicodeDecodeError)
"""The exceptions of reading; indexing and unpacking check for the end themselves."""


class WireType(Protocol):
    """A type in its encodings: `is_flexible` chooses the compact one."""

    def reader(self, version: int, is_flexible: bool) -> Read: ...

    def writer(self, version: int, is_flexible: bool) -> Write: ...


def read_unsigned_varint(data: bytes, at: int) -> tuple[int, int]:
    """Seven bits a byte, the lowest first; at most 32 bits."""
    byte = data[at]
    if byte < 0x80:
        return byte, at + 1
    value = byte & 0x7F
    for index in range(1, _MAX_VARINT_BYTES):
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise MalformedError(f"a varint longer than {_MAX_VARINT_BYTES} bytes")


def unsigned_varint(value: int) -> bytes:
    """The bytes that `read_unsigned_varint` reads."""
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


@dataclass(frozen=True, slots=True)
class Fixed:
    """A number."""

    form: struct.Struct

    def reader(self, version: int, is_flexible: bool) -> Read:
        unpack, size = self.form.unpack_from, self.form.size
        return lambda data, at: (unpack(data, at)[0], at + size)

    def writer(self, version: int, is_flexible: bool) -> Write:
        return lambda value, parts: parts.append(self.form.pack(value))


INT8 = Fixed(struct.Struct(">b"))
INT16 = Fixed(_INT16)
UINT16 = Fixed(struct.Struct(">H"))
INT32 = Fixed(_INT32)
INT64 = Fixed(struct.Struct(">q"))


@dataclass(frozen=True, slots=True)
class Enumeration:
    """An INT8 whose values have names; one without a name makes the message malformed."""

    names: type[IntEnum]
    what: str

    def reader(self, version: int, is_flexible: bool) -> Read:
        known: dict[int, IntEnum] = {int(name): name for name in self.names}

        def read(data: bytes, at: int) -> tuple[Any, int]:
            name = known.get(data[at])
            if name is None:
                raise MalformedError(f"unknown {self.what} {data[at]}")
            return name, at + 1

        return read

    def writer(self, version: int, is_flexible: bool) -> Write:
        return INT8.writer(version, is_flexible)


@dataclass(frozen=True, slots=True)
class _Uuid:
    """Topic ids as Kafka prints them: 22 characters of URL-safe base64."""

    def reader(self, version: int, is_flexible: bool) -> Read:
        def read(data: bytes, at: int) -> tuple[Any, int]:
            raw = taken(data, at, 16)
            return base64.urlsafe_b64encode(raw)[:22].decode("ascii"), at + 16

        return read

    def writer(self, version: int, is_flexible: bool) -> Write:
        return lambda value, parts: parts.append(base64.urlsafe_b64decode(value + "=="))


UUID = _Uuid()


def taken(data: bytes, at: int, count: int) -> bytes:
    end = at + count
    if count < 0 or end > len(data):
        raise MalformedError(f"{count} bytes wanted at {at}, {len(data) - at} left")
    return data[at:end]


@dataclass(frozen=True, slots=True)
class _Text:
    """is_shared: equal values are one object: a name that thousands of records repeat is kept once."""

    is_nullable: bool
    is_shared: bool = False

    def reader(self, version: int, is_flexible: bool) -> Read:
        read_length = _compact_length if is_flexible else _int16_length
        is_nullable, is_shared = self.is_nullable, self.is_shared

        def read(data: bytes, at: int) -> tuple[Any, int]:
            length, at = read_length(data, at)
            end = at + length
            if length < 0:
                if is_nullable:
                    return None, at
                raise MalformedError("null where there must be a string")
            if end > len(data):
                raise MalformedError(f"{length} bytes wanted at {at}, {len(data) - at} left")
            text = data[at:end].decode("utf-8")
            return intern(text) if is_shared else text, end

        return read

    def writer(self, version: int, is_flexible: bool) -> Write:
        def write(value: str | None, parts: list[bytes]) -> None:
            encoded = None if value is None else value.encode("utf-8")
            length = -1 if encoded is None else len(encoded)
            parts.append(unsigned_varint(length + 1) if is_flexible else _INT16.pack(length))
            parts.append(encoded or b"")

        return write


STRING = _Text(is_nullable=False)
NULLABLE_STRING = _Text(is_nullable=True)
TOPIC_NAME = _Text(is_nullable=False, is_shared=True)


@dataclass(frozen=True, slots=True)
class _Bytes:
    is_nullable: bool

    def reader(self, version: int, is_flexible: bool) -> Read:
        read_length = _compact_length if is_flexible else _int32_length
        is_nullable = self.is_nullable

        def read(data: bytes, at: int) -> tuple[Any, int]:
            length, at = read_length(data, at)
            if length < 0 and is_nullable:
                return None, at
            return taken(data, at, length), at + length

        return read

    def writer(self, version: int, is_flexible: bool) -> Write:
        def write(value: bytes | None, parts: list[bytes]) -> None:
            parts.append(_length_of(value, is_flexible=is_flexible))
            parts.append(value or b"")

        return write


BYTES = _Bytes(is_nullable=False)
NULLABLE_BYTES = _Bytes(is_nullable=True)


@dataclass(frozen=True, slots=True)
class Array:
    """Read as a tuple; None stands for null, if that is allowed."""

    of: WireType
    is_nullable: bool = False

    def reader(self, version: int, is_flexible: bool) -> Read:
        read_length = _compact_length if is_flexible else _int32_length
        read_one = self.of.reader(version, is_flexible)
        is_nullable = self.is_nullable
        fixed = self.of.form if isinstance(self.of, Fixed) else None
        # Most arrays are short: their forms are prepared.
        forms = [] if fixed is None else [struct.Struct(f">{count}{fixed.format[-1]}") for count in range(_SHORT)]

        def read(data: bytes, at: int) -> tuple[Any, int]:
            count, at = read_length(data, at)
            if count < 0:
                if is_nullable and count == -1:
                    return None, at
                raise MalformedError(f"an array of {count} entries")
            if fixed is not None:
                end = at + count * fixed.size
                if end > len(data):
                    raise MalformedError(f"{count} entries wanted at {at}, {len(data) - at} bytes left")
                form = forms[count] if count < _SHORT else struct.Struct(f">{count}{fixed.format[-1]}")
                return form.unpack_from(data, at), end
            entries: list[Any] = []
            for _ in range(count):
                entry, at = read_one(data, at)
                entries.append(entry)
            return tuple(entries), at

        return read

    def writer(self, version: int, is_flexible: bool) -> Write:
        write_one = self.of.writer(version, is_flexible)

        def write(entries: Sequence[Any] | None, parts: list[bytes]) -> None:
            parts.append(_length_of(entries, is_flexible=is_flexible))
            for entry in entries or ():
                write_one(entry, parts)

        return write


def _int16_length(data: bytes, at: int) -> tuple[int, int]:
    return _INT16.unpack_from(data, at)[0], at + 2


def _int32_length(data: bytes, at: int) -> tuple[int, int]:
    return _INT32.unpack_from(data, at)[0], at + 4


def _compact_length(data: bytes, at: int) -> tuple[int, int]:
    """Written plus one; -1 for null."""
    if (byte := data[at]) < 0x80:
        return byte - 1, at + 1
    length, at = read_unsigned_varint(data, at)
    return length - 1, at


def _length_of(value: Sequence[Any] | None, *, is_flexible: bool) -> bytes:
    length = -1 if value is None else len(value)
    return unsigned_varint(length + 1) if is_flexible else _INT32.pack(length)
