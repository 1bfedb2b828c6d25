"""Pipelines, revisions and their checks in REST."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.core.journals.log_look import Landmark
from app.core.pipelines import pipeline_record, revision, taking_effect
from app.core.pipelines.definition_schema import TakenDefinition
from app.core.pipelines.service import pipelines, trying
from app.core.pipelines.service.trying import TRIED
from app.core.transforms import trying as trying_
from app.core.transforms.trying import MOST_RECORDS
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


class TrialGiven(Body):
    definition: TakenDefinition
    records: Annotated[Count, Field(ge=1, le=MOST_RECORDS, description="The most records of a topic.")] = TRIED
    topic: Annotated[
        str | None,
        Field(max_length=249, description="A source topic; null: the first one, and for a query all of them."),
    ] = None
    partition: Annotated[Count | None, Field(ge=0, lt=2**31, description="null: all of them.")] = None
    start: Annotated[
        str,
        Field(
            alias="from",
            max_length=40,
            description="`end` (the newest records), an offset (of one partition), `start`, `lso`, or a time with its "
            "zone.",
        ),
    ] = Landmark.END.value


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


@shows(trying_.TriedOutput)
class TriedOutput:
    partition = "null: the choice of the partitioner."
    timestamp_ms = "null: the time of writing."


@shows(trying.ShownRecord)
class TriedInput:
    timestamp_ms = "-1: the record has none."


@shows(trying.TriedRecord)
class TriedRecord:
    """A record of the source, and its outputs."""

    outcome = "null: of a query, whose rows are not of one record each."
    outputs = "The first ones of `output_count`."
    error = "Why it is a bad record."
    contents = "The error's own text, which may quote the record."


@shows(trying.OutcomeCounts)
class OutcomeCounts:
    """Numbers of records."""

    routed = "Records with an output to another topic than the sink."


@shows(trying.Trial)
class Trial:
    """The result of a trial."""

    topics = "The source topics that were read."
    counts = "null: of a query."
    outputs = "The number of all."
    rows = "Of a query: the first ones of `outputs`, in order."
    error = "Why Spark ended the query over these records. It may quote a record."
    policy = "The treatment of a bad record by a task."
    fields = "Paths of the fields of the JSON values that were read."
    warnings = "Fields that steps read and no record has."
    notes = "What was not read, and what was not tried."


@shows(revision.Change)
class Change:
    """One field that differs, and the same as a sentence.

    consequence: the effect on records that are in the topics already, if it is not obvious.
    """

    before: Json
    after: Json


@shows(taking_effect.PendingChange)
class PendingChange:
    takes_effect = "When the change takes effect, in a sentence."


class Validation(Answer):
    """is_valid: there are at most warnings. changes: since the current revision, if the pipeline exists."""

    is_valid: bool
    problems: list[ShownProblem]
    changes: list[Shown[taking_effect.PendingChange]]


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
