"""What services ask of the database about files that pipelines wrote, and about how far their references were read."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from app.domain.files.checkpoint import FileCheckpoint
from app.domain.files.reading import FileWatchState, Reception, TopicReading
from app.domain.files.schema_history import FileSchema
from app.domain.files.totals import HourTotal, PartitionTotal, Total
from app.domain.files.written_file import FileFilter, FileRecord, WrittenFile
from app.domain.page import Page


class WatchedPipeline(NamedTuple):
    """A pipeline whose current revision has a file sink."""

    name: str
    cluster: str
    sink_topic: str


class Added(NamedTuple):
    """new: those that were not there. repeated: the others, each with where the reference lies that is kept."""

    new: tuple[WrittenFile, ...]
    repeated: tuple[tuple[WrittenFile, str], ...]


class FileRepository(Protocol):
    """Files by pipeline and path, their totals, checkpoints and schemas."""

    async def add(self, pipeline: str, files: Sequence[WrittenFile]) -> Added:
        """Keep those whose path is not known; of one path the first of `files`."""
        ...

    async def count(self, pipeline: str, files: Sequence[WrittenFile]) -> None:
        """Add to the totals by partition, by hour and by checkpoint."""
        ...

    async def keep_schemas(self, pipeline: str, schemas: Sequence[FileSchema]) -> None:
        """Add to the files of those that are known by their fingerprint, keep the others."""
        ...

    async def list(self, pipeline: str, wanted: FileFilter, *, after: str | None, limit: int) -> Page[FileRecord]:
        """Newest first, by `referenced_at`."""
        ...

    async def partitions(self, pipeline: str, *, limit: int) -> tuple[builtins.list[PartitionTotal], int]:
        """Those with the most bytes, and how many partitions are kept."""
        ...

    async def hours(self, pipeline: str, *, since: datetime) -> builtins.list[HourTotal]:
        """Oldest first; hours without a file are left out."""
        ...

    async def checkpoints(self, pipeline: str, *, limit: int) -> builtins.list[FileCheckpoint]:
        """Newest first, by `referenced_at`."""
        ...

    async def schemas(self, pipeline: str, *, limit: int) -> builtins.list[FileSchema]:
        """Newest first, by `first_at`."""
        ...


class FileReadingRepository(Protocol):
    """How far references were read; moved in the transaction that keeps what was read."""

    async def watched(self) -> list[WatchedPipeline]:
        """Every pipeline whose current revision has a file sink, by name."""
        ...

    async def readings(self, pipelines: Collection[str]) -> Mapping[str, Sequence[TopicReading]]:
        """Of each that has any, by topic and partition."""
        ...

    async def begin(self, pipeline: str, *, now: datetime) -> bool:
        """Make the pipeline's watch unless it is there, and lock it until the end; False: there is no such pipeline."""
        ...

    async def move(self, pipeline: str, steps: Sequence[tuple[TopicReading | None, TopicReading]]) -> bool:
        """From how it was read, None for not at all, to how it is read now; False, and no more to be done in the unit
        than to leave it, where somebody else moved one of them meanwhile."""
        ...

    async def note_look(self, pipeline: str, total: Total, received: Reception, *, now: datetime) -> None:
        """An answer was got, with so much in it."""
        ...

    async def note_problem(self, pipelines: Collection[str], problem: str, *, now: datetime) -> None:
        """Why none, or not all, is got of these pipelines; empty: nothing is wrong. One that stands keeps its time."""
        ...

    async def watches(self, pipelines: Collection[str]) -> Mapping[str, FileWatchState]:
        """Of each that has one."""
        ...
