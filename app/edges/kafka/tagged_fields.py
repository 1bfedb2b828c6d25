"""Read the tagged fields of an answer without a copy of the rest of the answer.

kafka-python copies the rest of the answer at each structure that has tagged fields. An answer of 24 MiB with a million
such structures would be copied a million times: hours, in which the process does nothing else.
"""

# The library's generator of decoders is untyped and private.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import Any, cast

from kafka.protocol.schemas.fields.struct import StructField  # pyright: ignore[reportMissingTypeStubs]

LARGEST_BYTES = 64 << 10
"""The limit for one structure's tagged fields: features, or the new leaders' addresses, are a few kilobytes."""
_COPYING = "_BytesIO(bytes(data[pos:]))"

_Struct: Any = StructField
_emit_copying: Any = _Struct._emit_tagged_decode  # noqa: SLF001 - there is no public way


class _CopyingView:
    """Reads a memoryview as the library's BytesIO is read, and copies what is read only."""

    def __init__(self, data: memoryview) -> None:
        self._data = data[:LARGEST_BYTES]
        self._at = 0

    def read(self, size: int) -> bytes:
        chunk = bytes(self._data[self._at : self._at + max(0, size)])
        if len(chunk) < size:
            raise ValueError(f"tagged fields go on behind the answer's end, or behind {LARGEST_BYTES} bytes")
        self._at += size
        return chunk

    def tell(self) -> int:
        return self._at


def _emit_reading(self: Any, ctx: Any, var_name: str, indent: str, version: int) -> None:
    before = len(ctx.lines)
    _emit_copying(self, ctx, var_name, indent, version)
    emitted = cast("list[str]", ctx.lines[before:])
    ctx.lines[before:] = [line.replace(_COPYING, "_CopyingView(data[pos:])") for line in emitted]
    ctx.globs["_CopyingView"] = _CopyingView


def read_without_copies() -> None:
    """Use it for every decoder made from now on: the library makes one at the first answer of its kind."""
    _Struct._emit_tagged_decode = _emit_reading  # noqa: SLF001
