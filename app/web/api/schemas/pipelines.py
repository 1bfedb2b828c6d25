"""Pipelines, revisions and their checks at the edge."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import Field, JsonValue

from app.domain.runs.run import DesiredRunState, RunState
from app.web.api.schemas.base import Answer, Body
from app.web.api.schemas.definition import Count, Definition
from app.web.api.schemas.words import Name, Why

Note = Annotated[str | None, Field(max_length=1000, description="What this revision is for, in a few words.")]


class PipelineGiven(Body):
    name: Name
    definition: Definition
    note: Note = None
    why: Why = None


class ChangeGiven(Body):
    """A new revision. A run that lives takes it up by a rolling bounce, one instance at a time."""

    definition: Definition
    expected_revision: Annotated[
        Count | None,
        Field(description="The revision that this change was made from; 412 if there is a newer one. Or use If-Match."),
    ] = None
    note: Note = None
    why: Why = None


class DefinitionGiven(Body):
    definition: Definition


class Problem(Answer):
    """One thing that is wrong (or, as a warning, unwise), at the field that a person would change."""

    field: str
    message: str
    is_warning: bool


class Validation(Answer):
    """is_valid: nothing but warnings was found."""

    is_valid: bool
    problems: list[Problem]


class RunSummary(Answer):
    id: str
    revision: int
    desired: DesiredRunState
    state: RunState
    started_at: datetime
    started_by: str
    ended_at: datetime | None
    end_reason: str | None


class Pipeline(Answer):
    """`definition` is that of `current_revision`; `current_run` the run that lives, else the last one that ended."""

    id: str
    name: str
    cluster: str
    current_revision: int
    definition: Definition
    created_at: datetime
    created_by: str
    changed_at: datetime
    current_run: RunSummary | None


class PipelinePage(Answer):
    items: list[Pipeline]
    next_cursor: str | None


class SavedPipeline(Answer):
    """What creating or changing came to; `warnings` were not in the way.

    is_changed: false when the definition equals the current one, which makes no new revision.
    rolling: a run lives and its instances now move to the new revision, one at a time.
    waits_for_restart: changed fields that only a full restart can bring in.
    """

    pipeline: Pipeline
    warnings: list[Problem]
    is_changed: bool
    rolling: bool
    waits_for_restart: list[str]


class Revision(Answer):
    pipeline: str
    number: int
    definition: Definition
    definition_sha256: str
    transform_source_sha256: str | None
    created_at: datetime
    created_by: str
    note: str | None


class RevisionList(Answer):
    """Newest first."""

    items: list[Revision]


class Change(Answer):
    """One field that differs, and the same as a sentence.

    consequence: what it means for records that are in the topics already, where that is not obvious.
    """

    field: str
    before: JsonValue
    after: JsonValue
    sentence: str
    consequence: str | None


class Diff(Answer):
    pipeline: str
    from_revision: int
    to_revision: int
    changes: list[Change]


class TransformSource(Answer):
    sha256: str
    size_bytes: int
    created_at: datetime
    created_by: str
