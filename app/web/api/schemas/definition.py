"""A definition at the edge: app/domain/pipelines/pipeline.py with strict types and the words that OpenAPI shows."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from pydantic import ConfigDict, Field, JsonValue

from app.domain.pipelines.pipeline import (
    AvroCodec,
    FailurePolicy,
    GroupProtocol,
    OffsetFencing,
    PipelineDefinition,
    ProcessingGuarantee,
    PythonScope,
    SchemaConflict,
    StartPosition,
    StepOperator,
)
from app.web.api.schemas.base import Given
from app.web.api.schemas.shown import stands_for

TopicName = Annotated[str, Field(min_length=1, max_length=249)]
FieldPath = Annotated[str, Field(min_length=1, description="A path such as `arrival.delay`.")]
Count = Annotated[int, Field(ge=-(2**31), lt=2**31)]
"""Bounds of the database; what is sensible is said by app/domain/pipelines/pipeline_checks.py, with the reason."""
Operator = Annotated[StepOperator, Field(strict=False)]


class FilterStep(Given):
    """Keep the record if `field operator value` holds."""

    op: Literal["filter"]
    field: FieldPath
    operator: Operator
    value: JsonValue = None


class ConditionStep(Given):
    """Keep the record if the CEL expression over `record` is true."""

    op: Literal["condition"]
    expression: str


class ProjectStep(Given):
    """Keep only these fields, in this order."""

    op: Literal["project"]
    fields: list[FieldPath]


class RenameStep(Given):
    op: Literal["rename"]
    field: FieldPath
    to: FieldPath


class SetStep(Given):
    """Set `field` to a JSON value."""

    op: Literal["set"]
    field: FieldPath
    value: JsonValue


class RouteStep(Given):
    """Send the record to `topic` instead of the sink topic if `field operator value` holds; the first match wins."""

    op: Literal["route"]
    field: FieldPath
    operator: Operator
    value: JsonValue = None
    topic: TopicName


Step = Annotated[FilterStep | ConditionStep | ProjectStep | RenameStep | SetStep | RouteStep, Field(discriminator="op")]


class IdentityTransform(Given):
    """Keys, values, headers and timestamps pass unchanged."""

    kind: Literal["identity"]


class StepsTransform(Given):
    """Declarative steps over JSON values, run in order."""

    kind: Literal["steps"]
    steps: list[Step]


class PythonTransform(Given):
    """A function in an uploaded file (`PUT /api/v1/transform-sources/{sha256}`). It runs on the executors."""

    kind: Literal["python"]
    function: Annotated[str, Field(min_length=1)]
    scope: Annotated[PythonScope, Field(strict=False)] = PythonScope.RECORD
    file_name: Annotated[str, Field(min_length=1)]
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


Transform = Annotated[IdentityTransform | StepsTransform | PythonTransform, Field(discriminator="kind")]


class ErrorHandling(Given):
    """What happens to a record that cannot be processed."""

    policy: Annotated[FailurePolicy, Field(strict=False)] = FailurePolicy.FAIL
    dead_letter_topic: str | None = None
    max_bad: Count = 1000
    window_records: Count = 100_000


ColumnName = Annotated[
    str, Field(min_length=1, description="Stands in paths as `name=value`: ASCII letters, digits and `_`.")
]


class FieldColumn(Given):
    """The text of a field of the output."""

    of: Literal["field"]
    name: ColumnName
    field: FieldPath


class DateColumn(Given):
    """The day of the event time, in UTC: `2013-01-31`."""

    of: Literal["date"]
    name: ColumnName


class HourColumn(Given):
    """The hour of the event time, in UTC: `00` to `23`."""

    of: Literal["hour"]
    name: ColumnName


Column = Annotated[FieldColumn | DateColumn | HourColumn, Field(discriminator="of")]


class FileSink(Given):
    """Outputs, JSON objects, go into Avro files; references to these go to the sink topic, in one transaction with the
    input offsets, once all files of the checkpoint are uploaded and verified."""

    root: Annotated[
        str, Field(min_length=1, description="Where files are written: `file:///folder`, or `s3://bucket/prefix`.")
    ]
    partition_by: Annotated[
        list[Column],
        Field(description="What the records of one file have in common, in the order of the path. At most 6 columns."),
    ] = Field(default=[])
    event_time: Annotated[
        FieldPath | None,
        Field(
            description="A field with milliseconds since 1970 or an ISO 8601 text, for dates and hours; null: the "
            "timestamp of the Kafka record."
        ),
    ] = None
    codec: Annotated[AvroCodec, Field(strict=False, description="How blocks of a file are compressed.")] = (
        AvroCodec.ZSTANDARD
    )
    rotate_ms: Annotated[
        Count,
        Field(
            description="How long records wait at most until their files are uploaded and committed, 1 s to 1 h; it "
            "stands in for `commit_interval_ms`."
        ),
    ] = 30_000
    max_file_mb: Annotated[
        Count, Field(description="A file that has grown to this size ends its checkpoint before its time.")
    ] = 128
    upload_timeout_ms: Annotated[
        Count,
        Field(
            description="How long all uploads of a checkpoint may take together; after that it is aborted and its "
            "input is read again. With `transaction_timeout_ms` at most a third of `max.poll.interval.ms`."
        ),
    ] = 60_000
    conflict: Annotated[
        SchemaConflict,
        Field(
            strict=False,
            description="Of a record whose type at a place is another than before: a union of both, or a bad record.",
        ),
    ] = SchemaConflict.UNION
    schema_: Annotated[
        dict[str, JsonValue] | None,
        Field(
            alias="schema",
            description="An Avro record schema that every output must fit, or it is a bad record; null: inferred from "
            "the records of each file.",
        ),
    ] = None
    id_field: Annotated[FieldPath | None, Field(description="The field with the id of a record, for `verifies`.")] = (
        None
    )
    verifies: Annotated[
        bool,
        Field(
            description="Whether the files of each commit are read again and their ids compared with those that came "
            "in; a difference stops the pipeline."
        ),
    ] = False


class SparkSettings(Given):
    """Where the instances run; `conf` takes allow-listed keys only."""

    master: str = "local"
    executor_memory_mb: Count = 512
    conf: dict[str, str] = Field(default={})


class Definition(Given):
    """Everything that a revision fixes. A change is a new revision."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "cluster": "demo",
                    "source_topics": ["flights"],
                    "group_id": "delayed-flights",
                    "sink_topic": "delayed-flights",
                    "transform": {
                        "kind": "steps",
                        "steps": [
                            {"op": "filter", "field": "arrival_delay_min", "operator": "ge", "value": 15},
                            {"op": "project", "fields": ["flight_id", "carrier", "arrival_delay_min"]},
                        ],
                    },
                    "instances": 2,
                    "spark": {"master": "local"},
                }
            ]
        }
    )

    cluster: Annotated[str, Field(description="A registered Kafka cluster, by its name here.")]
    source_topics: Annotated[list[TopicName], Field(min_length=1)]
    group_id: Annotated[str, Field(min_length=1)]
    sink_topic: TopicName
    start_position: Annotated[StartPosition, Field(strict=False)] = StartPosition.EARLIEST
    group_protocol: Annotated[GroupProtocol, Field(strict=False)] = GroupProtocol.CLASSIC
    transactional_id_prefix: str = "fl"
    transform: Transform = IdentityTransform(kind="identity")
    errors: ErrorHandling = ErrorHandling()
    files: Annotated[
        FileSink | None,
        Field(description="Write files, and to the sink topic references to them; null: outputs are its records."),
    ] = None
    processing_guarantee: Annotated[ProcessingGuarantee, Field(strict=False)] = ProcessingGuarantee.EXACTLY_ONCE_V2
    offset_fencing: Annotated[OffsetFencing, Field(strict=False)] = OffsetFencing.GENERATION
    commit_interval_ms: Annotated[
        Count, Field(description="How long a transaction is fed. With `files` it has no effect: see `files.rotate_ms`.")
    ] = 100
    transaction_timeout_ms: Count = 10_000
    session_timeout_ms: Count = 10_000
    instances: Count = 1
    tasks_per_instance: Count = 1
    spark: SparkSettings = SparkSettings()
    consumer_overrides: dict[str, str] = Field(default={})
    producer_overrides: dict[str, str] = Field(default={})
    allows_drills: Annotated[
        bool, Field(description="Whether operators may freeze and kill its instances on purpose, as a drill.")
    ] = False

    def to_domain(self) -> PipelineDefinition:
        """The same definition as the domain has it. Its meaning is checked there (pipeline_checks.py)."""
        return msgspec.convert(self.model_dump(mode="json", by_alias=True), PipelineDefinition)


stands_for(PipelineDefinition, Definition)
