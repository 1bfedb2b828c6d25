"""Files of a store, opened again by the task that uploaded them."""

from __future__ import annotations

from typing import Any, BinaryIO, cast

import fsspec.core

from workers.sinks.s3_bucket import REQUEST_CONFIG


class Uploads:
    """The files under a root, as the store has them now.

    The client is made with the first file, in the process that reads, and is not shared. One that fsspec caches may be
    of another endpoint, or from before a fork. Each request to S3 has a bound, so that a store that hangs does not keep
    a task from polling for long.
    """

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/")
        self._opened: tuple[Any, str] | None = None

    def open(self, path: str) -> BinaryIO:
        """Raises FileNotFoundError, or the errors of the library behind fsspec."""
        if self._opened is None:
            self._opened = self._filesystem()
        filesystem, folder = self._opened
        return cast("BinaryIO", filesystem.open(f"{folder.rstrip('/')}/{path}", "rb"))

    def _filesystem(self) -> tuple[Any, str]:
        opening: Any = cast("Any", fsspec.core).url_to_fs
        is_s3 = self.root.partition("://")[0] in ("s3", "s3a")
        options: dict[str, Any] = {"config_kwargs": REQUEST_CONFIG} if is_s3 else {}
        filesystem, folder = opening(self.root, use_listings_cache=False, skip_instance_cache=True, **options)
        if is_s3:
            # Its own retries have no deadline.
            filesystem.retries = 1
        return filesystem, str(folder)
