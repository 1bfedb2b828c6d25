"""Ports of orphan scans and collections, which run in the background."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple, Protocol

from app.core.pipelines.pipeline import PipelineDefinition
from app.products.files.orphan_findings import Amount, ConfirmedOrphans
from app.products.files.orphan_look import OrphanResult


class OrphanOrder(NamedTuple):
    """The complete input of an orphan scan or collection.

    definitions: of all revisions that write files. connections: of their clusters by name, secrets as references.
    kafka_cluster_ids: registered cluster ids, by name.
    confirmed: the limit of deletions; None: nothing may be deleted.
    """

    pipeline: str
    created_at: datetime
    definitions: tuple[PipelineDefinition, ...]
    connections: Mapping[str, Mapping[str, str]]
    kafka_cluster_ids: Mapping[str, str]
    confirmed: ConfirmedOrphans | None


class CollectionProgress(NamedTuple):
    """steps: number of actions so far, which grows with every one."""

    told: str
    deleted: Amount
    steps: int


class OrphanJob(Protocol):
    """An order that runs in the background. No method blocks."""

    @property
    def progress(self) -> CollectionProgress: ...

    @property
    def result(self) -> OrphanResult | None:
        """The result; None while it runs."""
        ...

    @property
    def is_stopped(self) -> bool:
        """True if it was stopped; its result then has the deletions so far."""
        ...

    def stop(self) -> None:
        """Stop before the next file at the latest."""
        ...


class OrphanCollectors(Protocol):
    def begin(self, order: OrphanOrder) -> OrphanJob:
        """Start an order. The result has any error."""
        ...
