"""A pipeline as it is stored: its name, its revisions, and its live run."""

from __future__ import annotations

from datetime import datetime

import msgspec

from app.core.pipelines.pipeline import PipelineDefinition
from app.core.runs.run import RunSummary


class Pipeline(msgspec.Struct, frozen=True, kw_only=True):
    """`definition` is that of `current_revision`; `current_run` is the live run, else the last one that ended."""

    id: str
    name: str
    cluster: str
    current_revision: int
    definition: PipelineDefinition
    created_at: datetime
    created_by: str
    changed_at: datetime
    current_run: RunSummary | None = None


class Revision(msgspec.Struct, frozen=True, kw_only=True):
    """One immutable definition of a pipeline; numbers grow by one. `definition_sha256` is over its canonical JSON."""

    pipeline: str
    number: int
    definition: PipelineDefinition
    definition_sha256: str
    transform_source_sha256: str | None
    created_at: datetime
    created_by: str
    note: str | None = None


class TransformSource(msgspec.Struct, frozen=True, kw_only=True):
    """An uploaded Python file, stored by the SHA-256 of its text; many revisions may name it."""

    sha256: str
    source: str
    size_bytes: int
    created_at: datetime
    created_by: str
