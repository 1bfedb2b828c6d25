"""The stores of a pipeline's files for an audit, which distinguishes a missing file from an absent store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import Any, BinaryIO, cast

import fsspec.core

from app.core.pipelines.file_root import is_local
from app.core.wire import file_contents
from app.core.wire.file_contents import NotAsReferencedError
from app.core.wire.file_references import FileReference
from app.kit.store_failures import sentence_of
from workers.audit.reading import AuditReadError
from workers.sinks.store import growing_pause_s
from workers.sinks.uploads import StoreRefusalError, check_path

_BLOCK = 4 << 20
_IN_MEMORY = 4 << 20
"""The bytes of one file in memory; several files are held at once."""
_LOOKS = 2
"""The number of fetches before a file is reported as another one than the referenced."""
_S3_OPTIONS = {
    "use_listings_cache": False,
    "config_kwargs": {
        "connect_timeout": 5,
        "read_timeout": 20,
        "retries": {"total_max_attempts": 3, "mode": "standard"},
    },
}


class FileStores:
    """Opens the roots that a pipeline writes to, each once, in the process that reads.

    Args:
        roots: the only ones. A client that may write to a sink topic could name any file of an executor.
        stall_s: the longest time without a file until the audit fails.
        pause_s: the wait after attempt N failed.
    """

    def __init__(
        self, roots: Collection[str], *, stall_s: float, pause_s: Callable[[int], float] = growing_pause_s
    ) -> None:
        self._roots = roots
        self._stall_s = stall_s
        self._pause_s = pause_s
        self._opening = threading.Lock()
        self._opened: dict[str, tuple[Any, str]] = {}

    def fetch(self, reference: FileReference) -> BinaryIO:
        """All of a file, verified; close it after use. May be called by several threads.

        Raises:
            NotAsReferencedError: the path is empty, or has another file.
            AuditReadError: the store does not answer, or does not exist.
        """
        if reference.root not in self._roots:
            raise NotAsReferencedError(f"is below {reference.root}, where the pipeline never wrote, and was not opened")
        try:
            check_path(reference.path)
        except StoreRefusalError as error:
            raise NotAsReferencedError(f"was not opened: {error}") from error
        looks = attempt = 0
        deadline = time.monotonic() + self._stall_s
        while True:
            try:
                return file_contents.fetched(
                    reference, lambda path: self._open(reference.root, path), in_memory_bytes=_IN_MEMORY
                )
            except NotAsReferencedError:
                looks += 1
                if looks >= _LOOKS:
                    raise
            except AuditReadError:
                raise
            except Exception as error:  # the border to the libraries that fsspec calls
                attempt += 1
                if time.monotonic() >= deadline:
                    sentence = f"{reference.root}/{reference.path} cannot be read: {sentence_of(error)}"
                    raise AuditReadError(sentence) from error
                time.sleep(self._pause_s(attempt))

    def _open(self, root: str, path: str) -> BinaryIO:
        with self._opening:
            if root not in self._opened:
                self._opened[root] = _filesystem(root)
            filesystem, folder = self._opened[root]
        try:
            return cast("BinaryIO", filesystem.open(f"{folder.rstrip('/')}/{path}", "rb", block_size=_BLOCK))
        except FileNotFoundError as error:
            # A folder that is not mounted here, a bucket of another account: its files are unknown then.
            if filesystem.exists(folder if is_local(root) else folder.partition("/")[0]):
                raise
            raise AuditReadError(f"there is no {root} for this executor, so its files cannot be read") from error


def _filesystem(root: str) -> tuple[Any, str]:
    """Credentials and the address of a store come from the environment."""
    opening: Any = cast("Any", fsspec.core).url_to_fs
    options: dict[str, Any] = {} if is_local(root) else _S3_OPTIONS
    try:
        filesystem, folder = opening(root, skip_instance_cache=True, **options)
    except (ImportError, ValueError) as error:
        raise AuditReadError(f"{root} is no store that can be opened: {sentence_of(error)}") from error
    if not is_local(root):
        # Those of s3fs have no deadline; botocore's few are for a single request.
        filesystem.retries = 1
    return filesystem, str(folder)
