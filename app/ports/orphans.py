"""Looking for orphans and deleting them: what the database keeps of it, and who does it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import NamedTuple, Protocol

from app.domain.files.orphan_findings import Amount, Confirmed
from app.domain.files.orphan_look import OrphanLook, OrphanResult
from app.domain.pipelines.pipeline import PipelineDefinition


class OrphanLookRepository(Protocol):
    async def add(self, look: OrphanLook) -> OrphanLook:
        """Keep it, and of those that have ended only the newest; its id is the database's.

        Raises ConflictError while another one of the pipeline lives.
        """
        ...

    async def get(self, look_id: str, *, for_update: bool = False) -> OrphanLook: ...

    async def living(self) -> list[OrphanLook]:
        """Those that have not ended, the oldest first."""
        ...

    async def newest(self, pipeline: str) -> list[OrphanLook]:
        """All that are kept of it, the newest first."""
        ...

    async def newest_findings(self, names: Collection[str]) -> Mapping[str, OrphanLook]:
        """Of each pipeline the newest that judged something, if there is any."""
        ...

    async def save(self, look: OrphanLook, *, attempt: int) -> bool:
        """Write what changes in its life; False: it has ended, or this is not the attempt that it is at."""
        ...

    async def save_progress(self, look_id: str, told: str, deleted: Amount, *, attempt: int) -> bool:
        """False as of `save`."""
        ...


class OrphanOrder(NamedTuple):
    """Everything that must be known to look for the orphans of a pipeline.

    definitions: of all revisions that write files. connections: of their clusters by name, secrets as references.
    kafka_cluster_ids: by name, as they were registered.
    confirmed: what may be deleted of what is found; None: nothing.
    """

    pipeline: str
    created_at: datetime
    definitions: tuple[PipelineDefinition, ...]
    connections: Mapping[str, Mapping[str, str]]
    kafka_cluster_ids: Mapping[str, str]
    confirmed: Confirmed | None


class Progress(NamedTuple):
    """steps: grows with whatever is done, however small."""

    told: str
    deleted: Amount
    steps: int


class OrphanJob(Protocol):
    """An order that is being carried out, beside whoever ordered it. None of these waits."""

    @property
    def progress(self) -> Progress: ...

    @property
    def result(self) -> OrphanResult | None:
        """None: it is at work."""
        ...

    @property
    def is_stopped(self) -> bool:
        """Somebody had it stopped; its result then says how far it came."""
        ...

    def stop(self) -> None:
        """Nothing more is deleted once this has been heard, before the next file at the latest."""
        ...


class OrphanCollectors(Protocol):
    def begin(self, order: OrphanOrder) -> OrphanJob:
        """What goes wrong is told by the result."""
        ...
