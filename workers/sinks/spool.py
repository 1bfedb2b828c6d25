"""Values of an open checkpoint that are too many for memory: one file that only grows, read back when it ends."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from workers.sinks.frames import framed, values_of


class Extent(NamedTuple):
    """A piece of the spool: `size` bytes from `at` on."""

    at: int
    size: int


class Spool:
    """One file for all partition values, so that their number needs no file handles. It has no name, so it ends with
    its process. It exists from the first piece until `clear`.

    Every method may raise OSError, above all for a full disk.
    """

    def __init__(self, folder: Path) -> None:
        self.size = 0
        self._folder = folder
        self._file: int | None = None

    def append(self, values: Iterable[bytes]) -> Extent:
        """Write them as one piece."""
        return self.append_piece(framed(values))

    def append_piece(self, frames: bytes | memoryview) -> Extent:
        """Write frames (frames.py) as one piece."""
        self._write(frames)
        extent = Extent(self.size, len(frames))
        self.size += len(frames)
        return extent

    def read(self, extents: Sequence[Extent]) -> Iterator[bytes]:
        """The values of these pieces, in their order."""
        for piece in self.pieces(extents):
            yield from values_of(piece)

    def pieces(self, extents: Sequence[Extent]) -> Iterator[bytes]:
        """The frames of these pieces."""
        return map(self._read, extents)

    def clear(self) -> None:
        """Free its space; earlier pieces cannot be read any more."""
        if self._file is not None:
            os.close(self._file)
        self._file, self.size = None, 0

    def _write(self, piece: bytes | memoryview) -> None:
        if self._file is None:
            self._file, name = tempfile.mkstemp(dir=self._folder)
            Path(name).unlink()
        view, at = memoryview(piece), self.size
        while view:
            # At its place, so that the next write overwrites one that was refused half way.
            written = os.pwrite(self._file, view, at)
            view, at = view[written:], at + written

    def _read(self, extent: Extent) -> bytes:
        if self._file is None:
            raise OSError("nothing was spooled, or it is cleared")
        piece = bytearray()
        while len(piece) < extent.size:
            found = os.pread(self._file, extent.size - len(piece), extent.at + len(piece))
            if not found:
                raise OSError(f"the spool ends at {extent.at + len(piece)}, {extent} should be in it")
            piece += found
        return bytes(piece)
