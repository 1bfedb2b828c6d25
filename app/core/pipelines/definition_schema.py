"""A definition in REST: app/core/pipelines/pipeline.py with the bounds and values that OpenAPI shows."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from app.core.pipelines import pipeline
from app.kit.web.api.taken import Taken, takes

TopicName = Annotated[str, Field(min_length=1, max_length=249)]
Text = Annotated[str, Field(min_length=1)]
FieldPath = Annotated[str, Field(min_length=1, description="A path such as `arrival.delay`.")]
ColumnName = Annotated[
    str, Field(min_length=1, description="Part of paths as `name=value`: ASCII letters, digits and `_`.")
]
EXAMPLE: dict[str, Any] = {
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


@takes(pipeline.Filter)
class FilterStep:
    """Keep the record if `field operator value` holds."""

    field: FieldPath


@takes(pipeline.Condition)
class ConditionStep:
    """Keep the record if the CEL expression over `record` is true."""


@takes(pipeline.Project)
class ProjectStep:
    """Keep only these fields, in this order."""

    fields: list[FieldPath]


@takes(pipeline.Rename)
class RenameStep:
    field: FieldPath
    to: FieldPath


_LONGEST_DELAY_MS = 2**42
"""139 years, in milliseconds: Spark counts the delay in microseconds of 64 bits."""


@takes(pipeline.SetField)
class SetStep:
    """Set `field` to a JSON value."""

    field: FieldPath


@takes(pipeline.Route)
class RouteStep:
    """Send the record to `topic` instead of the sink topic if `field operator value` holds; the first match wins."""

    field: FieldPath
    topic: TopicName


@takes(pipeline.Identity)
class IdentityTransform:
    """Keys, values, headers and timestamps pass unchanged."""


@takes(pipeline.Steps)
class StepsTransform:
    """Declarative steps over JSON values, run in order."""


@takes(pipeline.PythonFunction)
class PythonTransform:
    """A function in an uploaded file (`PUT /api/v1/transform-sources/{sha256}`). It runs on the executors."""

    function: Text
    file_name: Text
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


@takes(pipeline.Stream)
class SourceStream:
    """A source topic as a streaming DataFrame."""

    name: Annotated[str, Field(min_length=1, description="The name of the view in SQL, and the key in `streams`.")]
    topic: TopicName
    schema: Annotated[
        str, Field(min_length=1, description="Schema of the values, JSON objects, as DDL: `carrier STRING, delay INT`.")
    ]
    event_time = "The timestamp column with the watermark; null: the stream has none."
    watermark_ms: Annotated[
        int | None,
        Field(lt=_LONGEST_DELAY_MS, description="The longest delay of a row behind the newest event time."),
    ]


@takes(pipeline.DataframeQuery)
class DataframeTransform:
    """A Structured Streaming query over the source topics: SQL, or `function` of an uploaded file. It has one
    instance; `tasks_per_instance` is the number of writers, each with a transaction for each batch."""

    streams: Annotated[list[SourceStream], Field(min_length=1)]
    checkpoint: Annotated[str, Field(min_length=1, description="Location of the query's checkpoint, used by it alone.")]
    sql = "A query over the streams by their names. Null: `function` of the uploaded file is called."
    function = "`f(spark, streams) -> DataFrame` of the uploaded file."
    sha256: Annotated[str | None, Field(pattern="^[0-9a-f]{64}$")]
    output_mode = "`complete` writes all rows again in every batch."
    trigger_ms = "The shortest time between the starts of two batches."
    max_offsets_per_trigger = "The largest number of source records of a batch; null: all."
    state_store = "Where executors keep state. RocksDB keeps it on disk."
    shuffle_partitions = "Number of partitions of the state. The first batch of a checkpoint fixes it."
    executor_cores = "Number of cores of the application's executors together."


@takes(pipeline.ErrorHandling)
class ErrorHandling:
    """The treatment of a record that cannot be processed."""


@takes(pipeline.ByField)
class FieldColumn:
    """The text of a field of the output."""

    name: ColumnName
    field: FieldPath


@takes(pipeline.ByDate)
class DateColumn:
    """The day of the event time, in UTC: `2013-01-31`."""

    name: ColumnName


@takes(pipeline.ByHour)
class HourColumn:
    """The hour of the event time, in UTC: `00` to `23`."""

    name: ColumnName


@takes(pipeline.FileSink)
class FileSink:
    """Outputs, JSON objects, are written to Avro files, with references to the files in the sink topic. One transaction
    commits the references with the input offsets, after all files of the checkpoint are uploaded and verified."""

    root: Annotated[
        str, Field(min_length=1, description="The folder of the files: `file:///folder`, or `s3://bucket/prefix`.")
    ]
    partition_by = "The partition values that all records of a file share, in the order of the path. At most 6 columns."
    event_time: Annotated[
        FieldPath | None,
        Field(
            description="A field with milliseconds since 1970 or an ISO 8601 text, for dates and hours; null: the "
            "timestamp of the Kafka record."
        ),
    ]
    codec = "The compression of a file's blocks."
    rotate_ms = (
        "The longest time until records are uploaded in files and committed, 1 s to 1 h; it "
        "replaces `commit_interval_ms`."
    )
    max_file_mb = "A file of this size ends its checkpoint early."
    upload_timeout_ms = (
        "The longest time for all uploads of a checkpoint; after it the checkpoint is aborted and its "
        "input is read again. With `transaction_timeout_ms` at most a third of `max.poll.interval.ms`."
    )
    conflict = "The treatment of a field whose type has changed: a union of both, or a bad record."
    schema = (
        "An Avro record schema that every output must fit, or it is a bad record; null: inferred from "
        "the records of each file."
    )
    id_field: Annotated[FieldPath | None, Field(description="The field with the id of a record, for `verifies`.")]
    verifies = (
        "Read the files of each commit again and compare their ids with those of the "
        "input; a difference stops the pipeline."
    )


@takes(pipeline.SparkSettings)
class SparkSettings:
    """The Spark master and resources of the instances; `conf` takes allow-listed keys only."""


@takes(pipeline.PipelineDefinition, example=EXAMPLE)
class Definition:
    """All settings of a revision. A change is a new revision."""

    cluster = "The name of a registered Kafka cluster."
    source_topics: Annotated[list[TopicName], Field(min_length=1)]
    group_id: Annotated[str, Field(max_length=249, description="The consumer group. Empty: the pipeline's name.")]
    sink_topic: TopicName
    files = "Write files, with references to them in the sink topic; null: outputs are records of the sink topic."
    commit_interval_ms = "The longest time between two commits. It has no effect with `files`: see `files.rotate_ms`."
    allows_drills = "Allow operators to freeze and kill its instances in a drill."


TakenDefinition = Taken[pipeline.PipelineDefinition]
