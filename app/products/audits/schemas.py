"""REST schemas of audits: requests, results, and audit plans."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from pydantic import Field

from app.core.pipelines.definition_schema import TopicName
from app.kit.storable import moment_of_ms
from app.kit.web.api.bodies import Answer, Body, Given
from app.kit.web.api.shown import Shown, made, model_of, shows
from app.kit.web.api.taken import Taken, takes, takes_by_hand
from app.kit.web.api.words import Moment, Why
from app.products.audits import audit as domain_audit
from app.products.audits import comparison as domain_comparison
from app.products.audits import plan as domain_plan
from app.products.audits import result, specification
from app.products.audits.comparison import MAX_FIELDS
from app.products.audits.plan import DEFAULT_PADDING_S, DEFAULT_TOLERANCE_S, next_due_at, time_window
from app.products.audits.result import AuditResult, AuditVerdict
from app.products.audits.telling import audit_sentence

Seconds = Annotated[int, Field(ge=0, lt=2**31)]
Offset = Annotated[int, Field(ge=0, lt=2**63)]


@takes(specification.JsonField)
class JsonField:
    """The id is a field of the value."""

    path: Annotated[str, Field(min_length=1, max_length=1000, description="A path such as `order.id`.")]


@takes(specification.HeaderId)
class HeaderId:
    """The id is the last header of this name."""

    name: Annotated[str, Field(min_length=1, max_length=1000)]


@takes(specification.RecordKey)
class RecordKey:
    """The id is the record's key."""


class TimeWindow(Given):
    """Records of the input with timestamps from `start` up to and excluding `end`."""

    kind: Literal["time"]
    start: Annotated[Moment, Field(strict=False)]
    end: Annotated[Moment, Field(strict=False)]

    def to_domain(self) -> specification.TimeWindow:
        return time_window(self.start, self.end)

    @classmethod
    def of_window(cls, window: specification.TimeWindow) -> TimeWindow:
        return cls.model_construct(kind="time", start=moment_of_ms(window.start_ms), end=moment_of_ms(window.end_ms))


takes_by_hand(specification.TimeWindow, TimeWindow, taken=TimeWindow.to_domain, shown=TimeWindow.of_window)


@takes(specification.OffsetRange)
class OffsetRange:
    topic: TopicName
    partition: Annotated[int, Field(ge=0, lt=2**31)]
    start: Offset
    end: Annotated[Offset, Field(description="The first offset after the window.")]


@takes(specification.OffsetWindow)
class OffsetWindow:
    """These offsets of the input. Outputs are found by time."""

    ranges: Annotated[list[OffsetRange], Field(min_length=1, max_length=10_000)]


@takes(domain_comparison.TopicBaseline)
class TopicBaseline:
    """The records of a topic on the pipeline's cluster."""

    topic: TopicName


@takes(domain_comparison.FilesBaseline)
class FilesBaseline:
    """All files below a folder."""

    location: Annotated[str, Field(max_length=400, description="`file:///data/old`, or `s3://bucket/prefix`.")]


@takes(domain_comparison.TableBaseline)
class TableBaseline:
    """A table or view, read by JDBC. user, password: references to secrets (`env:…`, `file:…`)."""

    url: Annotated[str, Field(max_length=1000, description="A JDBC URL that the administrator allows.")]
    table: Annotated[str, Field(min_length=1, max_length=200)]
    user: Annotated[str, Field(max_length=200)] | None
    password: Annotated[str, Field(max_length=200)] | None
    driver: Annotated[str, Field(max_length=200, description="The class of the JDBC driver.")] | None


@takes(domain_comparison.Recomputation)
class Recomputation:
    """The rows of the pipeline's own query, of kind `dataframe`, as a batch job over the same source records."""


Path = Annotated[str, Field(min_length=1, max_length=1000)]


@takes(domain_comparison.Comparison)
class Comparison:
    """The output of another system for the same input, and the rules by which records are equal.

    A recomputation requires `time_field` only: the event time of an output, such as the start of its window.
    time_field, baseline_time_field: the field with a record's time; null: its timestamp in Kafka.
    """

    output_topic: TopicName | None
    time_field: Path | None
    baseline_time_field: Path | None
    fields: Annotated[
        list[Path], Field(max_length=MAX_FIELDS, description="The compared fields; none: all fields of both sides.")
    ]
    ignored_fields: Annotated[list[Path], Field(max_length=MAX_FIELDS, description="Fields that are not compared.")]
    tolerance: Annotated[float, Field(ge=0, description="Largest difference of two equal numbers.")]


@takes(specification.Everything)
class Everything:
    """All records of the topics."""


class AuditGiven(Body):
    """A requested audit. Omitted fields come from the pipeline's audit plan, else from the defaults.

    source_id_place: place of the id in inputs, if it differs from outputs.
    """

    window: Taken[specification.Window]
    id_place: Taken[specification.IdPlace] | None = None
    source_id_place: Taken[specification.IdPlace] | None = None
    padding_s: Annotated[
        Seconds | None, Field(description="Time outside the window in which an output is late, not lost.")
    ] = None
    tolerance_s: Annotated[
        Seconds | None,
        Field(description="Time to wait until the pipeline has passed the window, before the audit is skipped."),
    ] = None
    why: Why = None


class ComparisonGiven(AuditGiven):
    """A requested comparison. Omitted fields come from the pipeline's comparison plan, else from the defaults.

    source_id_place: place of the id in the baseline, if it differs from outputs.
    """

    comparison: Taken[domain_comparison.Comparison] | None = None


class AuditPlanGiven(Body):
    """An audit plan. every_s: length of the scheduled windows; null: on request only."""

    id_place: Taken[specification.IdPlace]
    source_id_place: Taken[specification.IdPlace] | None = None
    padding_s: Seconds = DEFAULT_PADDING_S
    every_s: Seconds | None = None
    tolerance_s: Seconds = DEFAULT_TOLERANCE_S
    why: Why = None


class ComparisonPlanGiven(AuditPlanGiven):
    """A comparison plan. every_s: length of the scheduled windows; null: on request only."""

    comparison: Taken[domain_comparison.Comparison]


@shows(domain_plan.AuditPlan, optional=("comparison",))
class AuditPlan:
    """A plan for audits, or for comparisons if `comparison` is set.

    decided_until: start of the next window. next_due_at: earliest time of its audit.
    shown_until: end of the plan's newest clean window.
    """

    next_due_at: datetime | None = made(next_due_at)


@shows(result.FindingTally)
class Tally:
    """Number of ids, and number of their outputs."""


@shows(result.AuditCounts, optional=("files", "dangling", "different", "duplicated_in_baseline", "not_comparable"))
class AuditCounts:
    """Counts of the window.

    pending: inputs that the pipeline has not committed yet, without expected outputs.
    dropped: inputs that the transform filters out.
    skipped, dead_lettered, stopping: inputs for which the transform fails, by failure policy.
    undelivered: outputs among the dead letters, since brokers refused them.
    elsewhere: outputs in topics that were not read. repeated: ids that several inputs have.
    missing and unexplained prove nothing, since not all could be read or judged.
    files: verified and read files, if outputs are records of files.
    dangling: references to files that are missing or differ, and the records that these files should have.
    In a comparison, expected are the records of the baseline, and unexpected are in the output only.
    different: ids on both sides with other fields. duplicated_in_baseline: equal records that it repeats.
    not_comparable: recomputed rows that may depend on records beyond the range, without a verdict.
    """


@shows(result.RecordPlace, optional=True)
class Place:
    """The place of a record, or for an output in a file, of its reference. file: its path below the root."""


@shows(result.FieldValues)
class FieldValues:
    """A field's values on both sides, as shortened JSON; null: the field is missing."""


@shows(result.Example, optional=("why", "values", "baseline_file"))
class Example:
    """One id with a finding. id, values: with `with_ids` only. why: the difference of a dangling reference's file.

    values: in a comparison, the fields that differ, or those of the only record. baseline_file: that has the record.
    """


@shows(result.RangeRead)
class RangeRead:
    """The offsets of a partition that were read, `read_start` up to `read_end`, and of the window, `start` to `end`."""


@shows(result.Gap)
class Gap:
    """A part of the audit that was not read or cannot be judged."""


@shows(result.EventTimes)
class EventTimes:
    """Event times from `start_ms` up to and excluding `end_ms`; null: without a bound."""


@shows(result.AuditResult, without=("audit_id",), optional=("baseline", "fields", "compared"))
class Result:
    """Exact counts and bounded examples. A list of audits omits examples, ranges and partitions.

    baseline: what a comparison compared with, in words. fields: those that differ, most first. compared: in a
    recomputation, the event times of the rows that depend on no record beyond the range.
    """


@shows(domain_audit.AuditProgress)
class AuditProgress:
    """offsets: number of offsets to read in total, 0 until it is known."""


def _without_ids(audit: domain_audit.Audit) -> AuditResult | None:
    if audit.result is None:
        return None
    examples = tuple(msgspec.structs.replace(example, id=None, values=()) for example in audit.result.examples)
    return msgspec.structs.replace(audit.result, examples=examples)


# Its driver and `stops_as` are internal.
@shows(
    domain_audit.Audit,
    optional=("comparison",),
    without=("host", "jvm_pid", "log_path", "process_started_at", "python_pid", "stops_as"),
)
class Audit:
    """sentence: its state or result as a sentence. verdict: only if it is done."""

    sentence: str = made(audit_sentence)
    verdict: AuditVerdict | None
    result: Shown[AuditResult] | None = made(_without_ids)


def with_ids(audit: domain_audit.Audit) -> Answer:
    """Return the answer with the ids of the examples."""
    return model_of(domain_audit.Audit).of(audit, result=audit.result)
