"""How much a checkpoint may hold so that it can be uploaded in its time, by how long those before it took."""

from __future__ import annotations

import math
from typing import NamedTuple

_SHARE = 0.5
"""Of the time that uploads may take: what a checkpoint is filled for. The rest is for a store that slows down."""
_FIRST_FILES = 5_000
_MOST_FILES = 20_000
"""So many have a reference each in one transaction, and a part each in memory."""


class Load(NamedTuple):
    """What a checkpoint holds, or held."""

    files: int
    size_bytes: int
    records: int = 0


class UploadPace:
    """How many partition values come within a rotation depends on the records, and how many files the store takes in a
    second on the store. Without a bound, a checkpoint that is too large for its time would be aborted and read again
    for ever, as large as before.

      late        half of what was uploaded by then; half of what there was, if nothing was
      slow        what would have taken half of the time
      fast        twice as much, if the bound was felt

    A checkpoint ends between two batches, so these are bounded too: one batch with more values than the store takes in
    time would be read again for ever, whatever its checkpoint may hold.
    """

    def __init__(self, within_s: float) -> None:
        """`within_s`: how long the uploads of a checkpoint may take."""
        self._wanted_s = _SHARE * within_s
        self._most_files: float = _FIRST_FILES
        self._most_bytes = math.inf
        self._last: Load | None = None

    @property
    def most_records(self) -> float:
        """How many records to take at once: half of what a checkpoint may hold, if they make as many files and bytes
        as those of the last one did."""
        last = self._last
        if last is None:
            return math.inf
        by_files = self._most_files * last.records / max(1, last.files)
        by_bytes = self._most_bytes * last.records / max(1, last.size_bytes)
        return max(1.0, min(by_files, by_bytes) / 2)

    def is_enough(self, load: Load) -> bool:
        """Whether a checkpoint that holds this should end, whatever its age."""
        return load.files >= self._most_files or load.size_bytes >= self._most_bytes

    def took(self, load: Load, seconds: float) -> None:
        """All of it was written, uploaded and verified in this time."""
        self._keep(load)
        if seconds > self._wanted_s:
            self._bound(load, by=self._wanted_s / seconds)
        elif seconds <= self._wanted_s / 2:
            if load.files >= self._most_files / 2:
                self._most_files = min(_MOST_FILES, 2 * self._most_files)
            if load.size_bytes >= self._most_bytes / 2:
                self._most_bytes *= 2

    def was_late(self, load: Load, *, uploaded: Load) -> None:
        """When its time was over, only so much of it was uploaded."""
        self._keep(load)
        self._bound(uploaded if uploaded.files else load, by=0.5)

    def _keep(self, load: Load) -> None:
        # One without records, of offsets alone, says nothing.
        if load.records:
            self._last = load

    def _bound(self, load: Load, *, by: float) -> None:
        self._most_files = max(1.0, min(_MOST_FILES, by * load.files))
        self._most_bytes = max(1.0, by * load.size_bytes)
