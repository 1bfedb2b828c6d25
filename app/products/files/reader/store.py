"""A root as those see it who read its files and tidy it up; what uploads to it is workers/sinks/store.py."""

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
    """Everything below one root; paths are relative to it.

    Methods raise StoreUnavailableError when the store does not do it, and those that take a path FileNotFoundError when
    nothing is there.
    """

    @property
    def root(self) -> str: ...

    def now_ms(self) -> int | None:
        """The store's own clock; None: it does not tell, and ours stands in for it."""
        ...

    def list(self, folder: str) -> Iterator[Stored]:
        """All files below a folder, however many; none if there is no such folder. In no order."""
        ...

    def stat(self, path: str) -> Stored: ...

    def open(self, path: str) -> BinaryIO: ...

    def delete(self, path: str) -> None: ...

    def open_uploads(self, folder: str) -> Iterator[OpenUpload]: ...

    def abort_upload(self, upload: OpenUpload) -> None: ...


def open_store(root: str, options: Mapping[str, Any] | None = None) -> FileStore:
    """The store of a root: `file:///path` or `s3://bucket/prefix`.

    Args:
        options: for s3fs; else everything is as the environment says (`AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT_URL`, …).

    Raises:
        NoStoreError: it is none of these.
    """
    parts = urlsplit(root)
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path:
        return LocalFiles(Path(unquote(parts.path)), root=root)
    if parts.scheme in ("s3", "s3a") and parts.netloc:
        # Only whoever reads S3 waits for its client.
        from app.products.files.reader.s3_files import S3Files

        return S3Files(bucket=parts.netloc, prefix=parts.path.strip("/"), root=root, options=options or {})
    raise NoStoreError(f"{root!r} is no store that can be read here: file:///path/to/folder or s3://bucket/prefix is")
