"""Values one after the other, each behind its length: a piece of a spool, or what C holds of a file."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, Protocol

_LENGTH: Final = struct.Struct("<I")
_TOGETHER: Final = 500


class HeldFrames(Protocol):
    """Frames in C's memory, as long as this object lives."""

    @property
    def address(self) -> int: ...

    def __len__(self) -> int: ...


Frames = bytes | HeldFrames


def framed(values: Iterable[bytes]) -> bytes:
    pack = _LENGTH.pack
    return b"".join([part for value in values for part in (pack(len(value)), value)])


def in_pieces(values: Iterable[bytes]) -> Iterator[bytes]:
    """The values as frames, some of them at a time."""
    rest = iter(values)
    while piece := framed(islice(rest, _TOGETHER)):
        yield piece


def values_of(frames: Frames, at: int = 0) -> Iterator[bytes]:
    """The values from the frame at this place on."""
    piece = frames if isinstance(frames, bytes) else ctypes.string_at(frames.address, len(frames))
    while at < len(piece):
        (length,) = _LENGTH.unpack_from(piece, at)
        at += _LENGTH.size
        yield piece[at : at + length]
        at += length


def frame_at(frames: Frames, at: int) -> tuple[bytes, int]:
    """The value whose frame begins there, and the place of the next frame."""
    begin = at + _LENGTH.size
    if isinstance(frames, bytes):
        (length,) = _LENGTH.unpack_from(frames, at)
        return frames[begin : begin + length], begin + length
    (length,) = _LENGTH.unpack(ctypes.string_at(frames.address + at, _LENGTH.size))
    return ctypes.string_at(frames.address + begin, length), begin + length
