"""One file on its way into a store: the request, the guarantee, and the two kinds of failure."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol

import msgspec

_BLOCK = 1 << 20


class ToUpload(msgspec.Struct, frozen=True, kw_only=True):
    """A finished local file.

    path: its destination below the store's root; it is never used for another file.
    sha256: of the whole file, in hexadecimal.
    """

    local: Path
    path: str
    size_bytes: int
    sha256: str


class Uploaded(msgspec.Struct, frozen=True, kw_only=True):
    """`uploaded_at_ms`: by the clock of this host, after the store had all of the file and that was verified."""

    path: str
    uploaded_at_ms: int


class UploadError(Exception):
    """Not every file of a checkpoint is in the store. The message names a file and the cause."""


class StoreFaultError(Exception):
    """The store failed; it may succeed when asked again."""


class OutOfTimeError(StoreFaultError):
    """The deadline passed during an attempt. The error of an earlier attempt has the cause."""


class StoreRefusalError(Exception):
    """A permanent refusal by the store, or the path holds another file."""


class Destination(Protocol):
    """One kind of store. Called by several threads at once."""

    def upload(self, file: ToUpload, *, deadline_s: float) -> None:
        """Return when the store has all of the file at its path, and that was verified.

        A path with the same content counts as uploaded: an earlier attempt arrived after all. Other content is left as
        it is.

        Args:
            deadline_s: by `time.monotonic`; the earlier this returns after it, the better, but it may hang.

        Raises:
            StoreFaultError, StoreRefusalError: it is not stored, or that is not known.
        """
        ...


def left_s(deadline_s: float) -> float:
    """The time until then. Raises OutOfTimeError when it is over."""
    left = deadline_s - time.monotonic()
    if left <= 0:
        raise OutOfTimeError("no answer in time")
    return left


def check_path(path: str) -> None:
    """Raise StoreRefusalError unless it leads below the root, for every kind of store."""
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or PurePosixPath(path).is_absolute() or "\0" in path:
        raise StoreRefusalError(f"{path!r} is no path below the root of a store")


def check_content(opened: BinaryIO, file: ToUpload, *, where: str, deadline_s: float) -> None:
    """Raise StoreRefusalError unless the file's content is read; `where` names its source in the message."""
    digest, size = hashlib.sha256(), 0
    while block := opened.read(_BLOCK):
        digest.update(block)
        size += len(block)
        left_s(deadline_s)
    if size != file.size_bytes:
        raise StoreRefusalError(f"{where} has {size} bytes, not {file.size_bytes}")
    if digest.hexdigest() != file.sha256:
        raise StoreRefusalError(f"{where} has the SHA-256 {digest.hexdigest()}, not {file.sha256}")
