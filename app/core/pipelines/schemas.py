"""Pipelines, revisions and their checks in REST."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.core.pipelines import pipeline_record, revision
from app.core.pipelines.definition_schema import TakenDefinition
from app.core.pipelines.service import pipelines
from app.kit.web.api.bodies import Answer, Body
from app.kit.web.api.problem import ShownProblem
from app.kit.web.api.shown import Items, Json, Shown, shows
from app.kit.web.api.taken import Count
from app.kit.web.api.words import Name, Why

Note = Annotated[str | None, Field(max_length=1000, description="The purpose of this revision, in a few words.")]


class PipelineGiven(Body):
    name: Name
    definition: TakenDefinition
    note: Note = None
    why: Why = None


class ChangeGiven(Body):
    """A new revision. A live run moves to it by a rolling bounce, one instance at a time."""

    definition: TakenDefinition
    expected_revision: Annotated[
        Count | None,
        Field(description="The revision on which this change is based; 412 if there is a newer one. Or use If-Match."),
    ] = None
    note: Note = None
    why: Why = None


class DefinitionGiven(Body):
    definition: TakenDefinition


class Validation(Answer):
    """is_valid: there are at most warnings."""

    is_valid: bool
    problems: list[ShownProblem]


@shows(pipeline_record.Pipeline)
class Pipeline:
    """`definition` is that of `current_revision`; `current_run` the live run, else the last one that ended."""


@shows(pipelines.SavedPipeline)
class SavedPipeline:
    """The result of creating or changing a pipeline; `warnings` did not prevent it.

    is_changed: false if the definition equals the current one, which makes no new revision.
    rolling: a run lives and its instances now move to the new revision, one at a time.
    waits_for_restart: changed fields that only a full restart can apply.
    """


@shows(revision.Change)
class Change:
    """One field that differs, and the same as a sentence.

    consequence: the effect on records that are in the topics already, if it is not obvious.
    """

    before: Json
    after: Json


class Diff(Answer):
    pipeline: str
    from_revision: int
    to_revision: int
    changes: list[Shown[revision.Change]]


@shows(pipeline_record.TransformSource, without=("source",))
class TransformSource:
    pass


@shows(Items[pipeline_record.Revision])
class RevisionList:
    """Newest first."""
