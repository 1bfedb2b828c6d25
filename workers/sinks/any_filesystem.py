"""Stores known only to fsspec: they give no checksum, so every file is read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import fsspec.core

from app.kit.store_failures import sentence_of
from workers.sinks.uploads import StoreFaultError, StoreRefusalError, ToUpload, check_content, left_s


class AnyFilesystem:
    """Checks that a path is free before the write: fsspec has no conditional write, which some stores offer. Paths are
    never reused, so no other client writes in between.
    """

    def __init__(self, root: str, *, options: Mapping[str, Any]) -> None:
        """Raises ValueError when fsspec knows no such store, or lacks a package or setting for it."""
        opening: Any = cast("Any", fsspec.core).url_to_fs
        try:
            self._filesystem, self._root = opening(root, use_listings_cache=False, skip_instance_cache=True, **options)
        except (ImportError, ValueError) as error:
            raise ValueError(f"{root} is no store that can be opened: {error}") from error

    def upload(self, file: ToUpload, *, deadline_s: float) -> None:
        target = f"{str(self._root).rstrip('/')}/{file.path}"
        try:
            is_taken = bool(self._filesystem.exists(target))
            if not is_taken:
                self._filesystem.makedirs(target.rpartition("/")[0], exist_ok=True)
                left_s(deadline_s)
                self._filesystem.put_file(str(file.local), target)
            left_s(deadline_s)
            where = "the path is taken: its file" if is_taken else "the upload, read back,"
            with self._filesystem.open(target, "rb") as opened:
                check_content(opened, file, where=where, deadline_s=deadline_s)
        except (StoreFaultError, StoreRefusalError):
            raise
        except FileNotFoundError as error:
            if error.filename == str(file.local):
                raise StoreRefusalError(sentence_of(error)) from error
            raise StoreFaultError(sentence_of(error)) from error
        except PermissionError as error:
            raise StoreRefusalError(sentence_of(error)) from error
        except Exception as error:  # the border to the libraries that fsspec calls
            raise StoreFaultError(sentence_of(error)) from error
