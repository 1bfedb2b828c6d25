"""The content of a checkpoint that can be uploaded in its time, from the durations of earlier ones."""

from __future__ import annotations

import math
from typing import NamedTuple

_SHARE = 0.5
"""The part of the upload time for which a checkpoint is filled. The rest is for a store that slows down."""
_FIRST_FILES = 5_000
_MOST_FILES = 20_000
"""The limit of parts: each has a reference in one transaction, and memory."""


class Load(NamedTuple):
    """The content of a checkpoint."""

    files: int
    size_bytes: int
    records: int = 0


class UploadPace:
    """The number of partition values in a rotation depends on the records, the number of files in a second on the
    store. Without a bound, a checkpoint that is too large for its time would be aborted and read again for ever, as
    large as before.

      late        half of the uploaded content; half of the whole content, if nothing was uploaded
      slow        the content that would have taken half of the time
      fast        twice as much, if the bound was reached

    A checkpoint ends between two batches, so these are bounded too. One batch with more values than the store takes in
    time would be read again for ever, with any bound of its checkpoint.
    """

    def __init__(self, within_s: float) -> None:
        """`within_s`: how long the uploads of a checkpoint may take."""
        self._wanted_s = _SHARE * within_s
        self._most_files: float = _FIRST_FILES
        self._most_bytes = math.inf
        self._last: Load | None = None

    @property
    def most_records(self) -> float:
        """The most records of one batch: half of a checkpoint's bound. The last checkpoint has the files and bytes of
        a record."""
        last = self._last
        if last is None:
            return math.inf
        by_files = self._most_files * last.records / max(1, last.files)
        by_bytes = self._most_bytes * last.records / max(1, last.size_bytes)
        return max(1.0, min(by_files, by_bytes) / 2)

    def is_enough(self, load: Load) -> bool:
        """True if a checkpoint with this content should end, at any age."""
        return load.files >= self._most_files or load.size_bytes >= self._most_bytes

    def took(self, load: Load, seconds: float) -> None:
        """Record the time in which all of it was written, uploaded and verified."""
        self._keep(load)
        if seconds > self._wanted_s:
            self._bound(load, by=self._wanted_s / seconds)
        elif seconds <= self._wanted_s / 2:
            if load.files >= self._most_files / 2:
                self._most_files = min(_MOST_FILES, 2 * self._most_files)
            if load.size_bytes >= self._most_bytes / 2:
                self._most_bytes *= 2

    def was_late(self, load: Load, *, uploaded: Load) -> None:
        """Record the part of it that was uploaded when its time was over."""
        self._keep(load)
        self._bound(uploaded if uploaded.files else load, by=0.5)

    def _keep(self, load: Load) -> None:
        # One without records, with offsets alone, shows nothing.
        if load.records:
            self._last = load

    def _bound(self, load: Load, *, by: float) -> None:
        self._most_files = max(1.0, min(_MOST_FILES, by * load.files))
        self._most_bytes = max(1.0, by * load.size_bytes)
