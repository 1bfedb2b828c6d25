"""Specifications of audits: all topics of outputs, and all fields of a pipeline."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from app.core.pipelines.pipeline import (
    ErrorHandling,
    FailurePolicy,
    FileSink,
    PipelineDefinition,
    Route,
    SetField,
    StepOperator,
    Steps,
)
from app.products.audits.specification import (
    AuditSpecification,
    Everything,
    HeaderId,
    IdPlace,
    JsonField,
    OffsetRange,
    OffsetWindow,
    RecordKey,
    TimeWindow,
    Window,
    sink_topics_of,
    specification_of,
)

TEXT = st.text(min_size=1, max_size=20)
OFFSETS = st.integers(min_value=0, max_value=2**46)
IDS: st.SearchStrategy[IdPlace] = st.one_of(
    st.builds(JsonField, path=TEXT), st.builds(HeaderId, name=TEXT), st.just(RecordKey())
)
RANGES = st.builds(OffsetRange, topic=TEXT, partition=st.integers(0, 1000), start=OFFSETS, end=OFFSETS)
WINDOWS: st.SearchStrategy[Window] = st.one_of(
    st.builds(TimeWindow, start_ms=OFFSETS, end_ms=OFFSETS),
    st.builds(OffsetWindow, ranges=st.lists(RANGES, max_size=3).map(tuple)),
    st.just(Everything()),
)
ROUTES = (
    Route(field="a", operator=StepOperator.EXISTS, topic="aside"),
    SetField(field="b", value=1),
    Route(field="c", operator=StepOperator.EXISTS, topic="sink"),
    Route(field="c", operator=StepOperator.EXISTS, topic="aside"),
)


def a_definition(errors: ErrorHandling | None = None) -> PipelineDefinition:
    return PipelineDefinition(
        cluster="demo",
        source_topics=("one", "two"),
        group_id="group",
        sink_topic="sink",
        transform=Steps(steps=ROUTES),
        errors=errors or ErrorHandling(),
    )


def test_routes_and_dead_letters_are_sinks_once_each() -> None:
    letters = ErrorHandling(policy=FailurePolicy.DEAD_LETTER, dead_letter_topic="letters")
    assert sink_topics_of(a_definition()) == ("sink", "aside")
    assert sink_topics_of(a_definition(letters)) == ("sink", "aside", "letters")


def test_unused_dead_letter_topic_is_no_sink() -> None:
    unused = ErrorHandling(policy=FailurePolicy.SKIP, dead_letter_topic="letters")
    assert "letters" not in sink_topics_of(a_definition(unused))


def test_files_need_references_dead_letters_and_all_roots() -> None:
    letters = ErrorHandling(policy=FailurePolicy.DEAD_LETTER, dead_letter_topic="letters")
    definition = msgspec.structs.replace(a_definition(letters), files=FileSink(root="file:///now"))
    assert sink_topics_of(definition) == ("sink", "letters"), "an output for another topic is a bad record"
    said = specification_of(
        definition,
        audit_id="an audit",
        pipeline="pipeline",
        revision=3,
        window=Everything(),
        id=JsonField(path="id"),
        file_roots=("s3://before", "file:///now"),
    )
    assert said.files == definition.files
    assert said.file_roots == ("file:///now", "s3://before")
    assert msgspec.json.decode(msgspec.json.encode(said), type=AuditSpecification) == said


@given(id=IDS, source_id=st.none() | IDS, window=WINDOWS, padding_ms=st.integers(0, 10**9))
def test_specification_is_serialised_without_loss(
    id: IdPlace,  # noqa: A002 - the field's name
    source_id: IdPlace | None,
    window: Window,
    padding_ms: int,
) -> None:
    said = specification_of(
        a_definition(),
        audit_id="an audit",
        pipeline="pipeline",
        revision=3,
        window=window,
        id=id,
        source_id=source_id,
        padding_ms=padding_ms,
        transform_source="def f(record): return record\n" * 500,
    )
    assert msgspec.json.decode(msgspec.json.encode(said), type=AuditSpecification) == said
