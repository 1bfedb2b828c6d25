"""A pipeline's definition: sources, transform, sink and guarantee."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec


class ProcessingGuarantee(StrEnum):
    EXACTLY_ONCE = "exactly_once"
    EXACTLY_ONCE_V2 = "exactly_once_v2"
    AT_LEAST_ONCE = "at_least_once"


class OffsetFencing(StrEnum):
    GROUP_ONLY = "group_only"
    GENERATION = "generation"


class GroupProtocol(StrEnum):
    """`classic` is cooperative-sticky; `consumer` is KIP-848, whose session timeout belongs to the broker."""

    CLASSIC = "classic"
    CONSUMER = "consumer"


class StartPosition(StrEnum):
    """The start of a group without any committed offset on its source topics; resolved once, then committed."""

    EARLIEST = "earliest"
    LATEST = "latest"


class FailurePolicy(StrEnum):
    FAIL = "fail"
    SKIP = "skip"
    DEAD_LETTER = "dead_letter"


class StepOperator(StrEnum):
    """Comparisons of a filter step. `exists` and `missing` take no value; `in` takes a list."""

    EQ = "eq"
    NE = "ne"
    LT = "lt"
    LE = "le"
    GT = "gt"
    GE = "ge"
    IN = "in"
    EXISTS = "exists"
    MISSING = "missing"


class Filter(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="filter"):
    """Keep the record if `field operator value` holds; `field` is a path such as `arrival.delay`."""

    field: str
    operator: StepOperator
    value: Any = None


class Condition(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="condition"):
    """Keep the record if the CEL expression over `record` is true."""

    expression: str


class Project(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="project"):
    """Keep only these fields, in this order; a field that is absent stays absent."""

    fields: tuple[str, ...]


class Rename(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="rename"):
    field: str
    to: str


class SetField(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="set"):
    """Set `field` to a JSON value."""

    field: str
    value: Any


class Route(msgspec.Struct, frozen=True, kw_only=True, tag_field="op", tag="route"):
    """Send the record to `topic` instead of the sink topic if `field operator value` holds; the first match wins."""

    field: str
    operator: StepOperator
    value: Any = None
    topic: str


Step = Filter | Condition | Project | Rename | SetField | Route


class Identity(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="identity"):
    """Keys, values, headers and timestamps pass unchanged."""


class Steps(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="steps"):
    """Declarative steps over JSON values, compiled once, run in order. Keys, headers and timestamps pass unchanged."""

    steps: tuple[Step, ...]


class PythonScope(StrEnum):
    RECORD = "record"
    BATCH = "batch"
    ARROW = "arrow"


class PythonFunction(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="python"):
    """A function in an uploaded file; the file's SHA-256 is part of the revision and checked on the executor.

    `record` scope: `f(record: Record) -> Record | list[Record] | None`;
    `batch` scope: `f(records: list[Record]) -> list[list[Record]]`, one list of outputs for each input;
    `arrow` scope: `f(batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch | pyarrow.Table`, a row for each output.
    """

    function: str
    scope: PythonScope = PythonScope.RECORD
    file_name: str
    sha256: str


class OutputMode(StrEnum):
    """Structured Streaming's output modes. COMPLETE writes all rows again in every batch."""

    APPEND = "append"
    UPDATE = "update"
    COMPLETE = "complete"


class StateStore(StrEnum):
    ROCKSDB = "rocksdb"
    MEMORY = "memory"


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """A source topic as a streaming DataFrame.

    name: of the view in SQL, and the key in `streams` of a Python file.
    schema: of the values, JSON objects, as a DDL text: `carrier STRING, delay INT`. The record's own columns are
        `_key`, `_topic`, `_partition`, `_offset` and `_timestamp`.
    event_time, watermark_ms: the timestamp column that has the watermark, and the longest delay of a row behind it.
        None: the stream has no watermark.
    """

    name: str
    topic: str
    schema: str
    event_time: str | None = None
    watermark_ms: int | None = None


class DataframeQuery(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="dataframe"):
    """A Structured Streaming query over the source topics: SQL, or a function of an uploaded file.

    The function is `f(spark: SparkSession, streams: dict[str, DataFrame]) -> DataFrame`. The result has the columns of
    Spark's Kafka sink. Without a column `value`, the value is a JSON object of the other columns.

    A batch is one transaction for each of the `tasks_per_instance` writers; a pipeline of this kind has one instance.

    checkpoint: location of the query's checkpoint, which no other query has.
    trigger_ms: the shortest time between the starts of two batches.
    max_offsets_per_trigger: the largest number of source records of a batch.
    shuffle_partitions: number of partitions of the state; fixed by the first batch of a checkpoint.
    """

    streams: tuple[Stream, ...]
    checkpoint: str
    sql: str | None = None
    function: str | None = None
    file_name: str | None = None
    sha256: str | None = None
    output_mode: OutputMode = OutputMode.APPEND
    trigger_ms: int = 1000
    max_offsets_per_trigger: int | None = None
    state_store: StateStore = StateStore.ROCKSDB
    shuffle_partitions: int = 4
    executor_cores: int = 2


Transform = Identity | Steps | PythonFunction | DataframeQuery


def sha256_of(transform: Transform) -> str | None:
    """Return the SHA-256 of the transform's uploaded file; None without a file."""
    return transform.sha256 if isinstance(transform, PythonFunction | DataframeQuery) else None


class ErrorHandling(msgspec.Struct, frozen=True, kw_only=True):
    """The treatment of a bad record; more than `max_bad` in `window_records` stops the pipeline."""

    policy: FailurePolicy = FailurePolicy.FAIL
    dead_letter_topic: str | None = None
    max_bad: int = 1000
    window_records: int = 100_000


class PartitionColumn(msgspec.Struct, frozen=True, kw_only=True, tag_field="of"):
    """One partition column of a file's records; its path has `name`."""

    name: str


class ByField(PartitionColumn, frozen=True, kw_only=True, tag="field"):
    """The text of a field of the record; `field` is a path such as `user.id`."""

    field: str


class ByDate(PartitionColumn, frozen=True, kw_only=True, tag="date"):
    """The day of the event time, in UTC: 2013-01-31."""


class ByHour(PartitionColumn, frozen=True, kw_only=True, tag="hour"):
    """The hour of the event time, in UTC: 00 to 23."""


class AvroCodec(StrEnum):
    ZSTANDARD = "zstandard"
    DEFLATE = "deflate"
    NULL = "null"


class SchemaConflict(StrEnum):
    """The treatment of a field whose type has changed: a union of both types, or a bad record."""

    UNION = "union"
    BAD_RECORD = "bad_record"


class FileSink(msgspec.Struct, frozen=True, kw_only=True):
    """Outputs are written to Avro files under `root`, and references to them to the sink topic, with the offsets.

    root: `file:///…`, or an address for fsspec, such as `s3://bucket/prefix`.
    event_time: a field with milliseconds since 1970 or an ISO 8601 text; None: the timestamp of the Kafka record.
    rotate_ms: the longest wait of records for their checkpoint; it replaces the commit interval.
    upload_timeout_ms: the longest time for all uploads of a checkpoint; after it the checkpoint is aborted.
    schema: an Avro record schema that every record must fit; None: the schema is inferred.
    verifies: after each commit its files are read again and compared with the ids of the input (`id_field`).
    """

    root: str
    partition_by: tuple[ByField | ByDate | ByHour, ...] = ()
    event_time: str | None = None
    codec: AvroCodec = AvroCodec.ZSTANDARD
    rotate_ms: int = 30_000
    max_file_mb: int = 128
    upload_timeout_ms: int = 60_000
    conflict: SchemaConflict = SchemaConflict.UNION
    schema: dict[str, Any] | None = None
    id_field: str | None = None
    verifies: bool = False


class SparkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The place of the instances. `conf` has allow-listed keys only (app/core/allow_lists/options.py)."""

    master: str = "local"
    executor_memory_mb: int = 512
    conf: dict[str, str] = {}


class PipelineDefinition(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings of a revision. Immutable; a change is a new revision.

    group_id: empty only in a definition that is given: `with_group` (definition.py) takes the pipeline's name.
    files: None: outputs are records of the sink topic.
    commit_interval_ms: without effect on a pipeline with files; see `commits_every_ms`.
    allows_drills: whether drills may freeze and kill its instances (app/products/drills).
    """

    cluster: str
    source_topics: tuple[str, ...]
    group_id: str = ""
    sink_topic: str
    start_position: StartPosition = StartPosition.EARLIEST
    group_protocol: GroupProtocol = GroupProtocol.CLASSIC
    transactional_id_prefix: str = "fl"
    transform: Transform = msgspec.field(default_factory=Identity)
    errors: ErrorHandling = msgspec.field(default_factory=ErrorHandling)
    files: FileSink | None = None
    processing_guarantee: ProcessingGuarantee = ProcessingGuarantee.EXACTLY_ONCE_V2
    offset_fencing: OffsetFencing = OffsetFencing.GENERATION
    commit_interval_ms: int = 100
    transaction_timeout_ms: int = 10_000
    session_timeout_ms: int = 10_000
    instances: int = 1
    tasks_per_instance: int = 1
    spark: SparkSettings = msgspec.field(default_factory=SparkSettings)
    consumer_overrides: dict[str, str] = {}
    producer_overrides: dict[str, str] = {}
    allows_drills: bool = False

    @property
    def dataframe(self) -> DataframeQuery | None:
        """Return the query of a pipeline of kind `dataframe`; None for the others."""
        return self.transform if isinstance(self.transform, DataframeQuery) else None

    @property
    def commits_every_ms(self) -> int:
        """Return the longest time that a checkpoint is open; one with files may end earlier, by their size."""
        return self.commit_interval_ms if self.files is None else self.files.rotate_ms
