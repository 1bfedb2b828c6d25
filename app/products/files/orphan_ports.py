"""Finding and deleting orphans, carried out beside the request that ordered it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, Protocol

from app.core.pipelines.pipeline import PipelineDefinition
from app.products.files.orphan_findings import Amount, Confirmed
from app.products.files.orphan_look import OrphanResult


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
