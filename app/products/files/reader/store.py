"""A root for readers and the collector; workers/sinks/store.py uploads to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol
from urllib.parse import unquote, urlsplit

from app.products.files.orphans import Stored
from app.products.files.reader.errors import NoStoreError
from app.products.files.reader.local_files import LocalFiles
from app.products.files.reader.open_upload import OpenUpload


class FileStore(Protocol):
    """The files below one root; paths are relative to it.

    Methods raise StoreUnavailableError if the store fails, and those with a path FileNotFoundError if it is missing.
    """

    @property
    def root(self) -> str: ...

    def now_ms(self) -> int | None:
        """Return the store's clock; None if not known, so that this host's clock counts."""
        ...

    def list(self, folder: str) -> Iterator[Stored]:
        """Return all files below a folder, in no order; none if it does not exist."""
        ...

    def stat(self, path: str) -> Stored: ...

    def open(self, path: str) -> BinaryIO: ...

    def delete(self, path: str) -> None: ...

    def open_uploads(self, folder: str) -> Iterator[OpenUpload]: ...

    def abort_upload(self, upload: OpenUpload) -> None: ...


def open_store(root: str, options: Mapping[str, Any] | None = None) -> FileStore:
    """Open the store of a root, `file:///path` or `s3://bucket/prefix`.

    Args:
        options: for s3fs; by default from the environment (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, …).

    Raises:
        NoStoreError: the root has another form.
    """
    parts = urlsplit(root)
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path:
        return LocalFiles(Path(unquote(parts.path)), root=root)
    if parts.scheme in ("s3", "s3a") and parts.netloc:
        # Imported here, since the import takes time that only readers of S3 need.
        from app.products.files.reader.s3_files import S3Files

        return S3Files(bucket=parts.netloc, prefix=parts.path.strip("/"), root=root, options=options or {})
    raise NoStoreError(f"{root!r} is not a supported store: expected file:///path/to/folder or s3://bucket/prefix")
