"""Pipeline definitions for tests: a sound one to vary, and any one for Hypothesis."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from app.core.pipelines.pipeline import (
    AvroCodec,
    ByDate,
    ByField,
    ByHour,
    Condition,
    DataframeQuery,
    ErrorHandling,
    FailurePolicy,
    FileSink,
    Filter,
    GroupProtocol,
    Identity,
    OffsetFencing,
    OutputMode,
    PipelineDefinition,
    ProcessingGuarantee,
    Project,
    PythonFunction,
    PythonScope,
    Rename,
    Route,
    SchemaConflict,
    SetField,
    SparkSettings,
    StartPosition,
    StateStore,
    StepOperator,
    Steps,
    Stream,
)


def a_definition(**changes: Any) -> PipelineDefinition:
    """A definition in which nothing is wrong, with `changes`."""
    fields: dict[str, Any] = {
        "cluster": "demo",
        "source_topics": ("flights",),
        "group_id": "delayed-flights",
        "sink_topic": "delayed",
        **changes,
    }
    return PipelineDefinition(**fields)


_texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8) | st.sampled_from(
    [
        "yes",
        "null",
        "~",
        "1",
        "1.0",
        "1e5",
        "0x1f",
        "12:30",
        "2024-01-01",
        "- a",
        "a: b",
        "#",
        "'",
        '"',
        "a\nb",
        " ",
        "|",
    ]
)
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
)
_operators = st.sampled_from(StepOperator)
_steps = (
    st.builds(Filter, field=_texts, operator=_operators, value=_json)
    | st.builds(Condition, expression=_texts)
    | st.builds(Project, fields=st.lists(_texts, max_size=3).map(tuple))
    | st.builds(Rename, field=_texts, to=_texts)
    | st.builds(SetField, field=_texts, value=_json)
    | st.builds(Route, field=_texts, operator=_operators, value=_json, topic=_texts)
)
_numbers = st.integers(-5, 100_000)
_streams = st.builds(
    Stream,
    name=_texts,
    topic=_texts,
    schema=_texts,
    event_time=st.none() | _texts,
    watermark_ms=st.none() | _numbers,
)
_transforms = (
    st.just(Identity())
    | st.builds(Steps, steps=st.lists(_steps, max_size=4).map(tuple))
    | st.builds(
        PythonFunction,
        function=_texts,
        scope=st.sampled_from(PythonScope),
        file_name=st.from_regex(r"[a-z_]{1,6}\.py", fullmatch=True),
        sha256=_texts,
    )
    | st.builds(
        DataframeQuery,
        streams=st.lists(_streams, max_size=3).map(tuple),
        checkpoint=_texts,
        sql=st.none() | _texts,
        function=st.none() | _texts,
        file_name=st.none() | st.from_regex(r"[a-z_]{1,6}\.py", fullmatch=True),
        sha256=st.none() | _texts,
        output_mode=st.sampled_from(OutputMode),
        trigger_ms=_numbers,
        max_offsets_per_trigger=st.none() | _numbers,
        state_store=st.sampled_from(StateStore),
        shuffle_partitions=_numbers,
        executor_cores=_numbers,
    )
)
_columns = (
    st.builds(ByField, name=_texts, field=_texts) | st.builds(ByDate, name=_texts) | st.builds(ByHour, name=_texts)
)
_files = st.builds(
    FileSink,
    root=_texts | st.sampled_from(["file:///data", "s3://bucket/a/b", "gs://x", "file://"]),
    partition_by=st.lists(_columns, max_size=3).map(tuple),
    event_time=st.none() | _texts,
    codec=st.sampled_from(AvroCodec),
    rotate_ms=_numbers,
    max_file_mb=_numbers,
    upload_timeout_ms=_numbers,
    conflict=st.sampled_from(SchemaConflict),
    schema=st.none() | st.dictionaries(_texts, _json, max_size=3),
    id_field=st.none() | _texts,
    verifies=st.booleans(),
)
_options = st.dictionaries(_texts, _texts, max_size=3)

definitions = st.builds(
    PipelineDefinition,
    cluster=_texts,
    source_topics=st.lists(_texts, max_size=3).map(tuple),
    group_id=_texts,
    sink_topic=_texts,
    start_position=st.sampled_from(StartPosition),
    group_protocol=st.sampled_from(GroupProtocol),
    transactional_id_prefix=_texts,
    transform=_transforms,
    errors=st.builds(
        ErrorHandling,
        policy=st.sampled_from(FailurePolicy),
        dead_letter_topic=st.none() | _texts,
        max_bad=_numbers,
        window_records=_numbers,
    ),
    files=st.none() | _files,
    processing_guarantee=st.sampled_from(ProcessingGuarantee),
    offset_fencing=st.sampled_from(OffsetFencing),
    commit_interval_ms=_numbers,
    transaction_timeout_ms=_numbers,
    session_timeout_ms=_numbers,
    instances=_numbers,
    tasks_per_instance=_numbers,
    spark=st.builds(SparkSettings, master=_texts, executor_memory_mb=_numbers, conf=_options),
    consumer_overrides=_options,
    producer_overrides=_options,
    allows_drills=st.booleans(),
)
"""Any definition that types allow, sense or not."""
