"""The primitive types of Kafka's serialized messages, as its journals use them.

Source: Kafka's protocol guide, "Protocol Primitive Types", and KIP-482 for the compact forms and tagged fields.
"""

from __future__ import annotations

import struct
from typing import Any

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_MAX_VARINT_BYTES = 5


class MalformedError(Exception):
    """The bytes end early, or are not what their type says."""


class Reader:
    """Reads one message from its beginning; every method raises MalformedError instead of reading past the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        end = self._at + count
        if count < 0 or end > len(self._data):
            raise MalformedError(f"{count} bytes wanted at {self._at}, {len(self._data) - self._at} left")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        return form.unpack(self.take(form.size))

    def int16(self) -> int:
        return self.unpack(_INT16)[0]

    def int32(self) -> int:
        return self.unpack(_INT32)[0]

    def unsigned_varint(self) -> int:
        """Seven bits a byte, the lowest first; at most 32 bits."""
        value = 0
        for index in range(_MAX_VARINT_BYTES):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value
        raise MalformedError(f"a varint longer than {_MAX_VARINT_BYTES} bytes")

    def string(self) -> str:
        return self._text(self.int16())

    def compact_length(self) -> int:
        """A length that is written plus one; -1 for null."""
        return self.unsigned_varint() - 1

    def compact_string(self) -> str:
        return self._text(self.compact_length())

    def tagged_fields(self) -> dict[int, bytes]:
        """Tag to undecoded bytes."""
        return {self.unsigned_varint(): self.take(self.unsigned_varint()) for _ in range(self.unsigned_varint())}

    def _text(self, size: int) -> str:
        try:
            return self.take(size).decode("utf-8")
        except UnicodeDecodeError as error:
            raise MalformedError(f"not UTF-8: {error}") from error


class Writer:
    """The reverse of Reader."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def bytes(self) -> bytes:
        return b"".join(self._parts)

    def pack(self, form: struct.Struct, *values: int) -> None:
        self._parts.append(form.pack(*values))

    def int16(self, value: int) -> None:
        self.pack(_INT16, value)

    def int32(self, value: int) -> None:
        self.pack(_INT32, value)

    def unsigned_varint(self, value: int) -> None:
        while value >= 0x80:
            self._parts.append(bytes((value & 0x7F | 0x80,)))
            value >>= 7
        self._parts.append(bytes((value,)))

    def string(self, value: str) -> None:
        encoded = value.encode("utf-8")
        self.int16(len(encoded))
        self._parts.append(encoded)

    def compact_length(self, length: int) -> None:
        self.unsigned_varint(length + 1)

    def compact_string(self, value: str) -> None:
        encoded = value.encode("utf-8")
        self.compact_length(len(encoded))
        self._parts.append(encoded)

    def tagged_fields(self, fields: dict[int, bytes]) -> None:
        self.unsigned_varint(len(fields))
        for tag, content in sorted(fields.items()):
            self.unsigned_varint(tag)
            self.unsigned_varint(len(content))
            self._parts.append(content)
