"""Stores of which nothing is known but what fsspec knows of all: they give no checksum, so all is read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import fsspec.core

from app.kit.store_failures import sentence_of
from workers.sinks.uploads import StoreFaultError, StoreRefusalError, ToUpload, check_content, left_s


class AnyFilesystem:
    """Whether a path is free is looked at first and not asked for with the write: what few stores can do, fsspec
    does not offer. Paths are never reused, so nobody comes in between.
    """

    def __init__(self, root: str, *, options: Mapping[str, Any]) -> None:
        """Raises ValueError when fsspec knows no such store, or not what it needs for it."""
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
            where = "the path is taken: what is there" if is_taken else "what was uploaded, read back,"
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
        except Exception as error:  # the border to whatever library fsspec calls
            raise StoreFaultError(sentence_of(error)) from error
