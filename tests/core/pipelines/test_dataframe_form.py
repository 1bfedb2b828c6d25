"""A query of DataFrames in the form: its fields come back, and each problem is at a field of its page."""

from __future__ import annotations

import pytest

from app.core.pipelines.pages import dataframe_form
from app.core.pipelines.pages.form import definition_of, form_of, values_of
from app.core.pipelines.pipeline import DataframeQuery, ErrorHandling, FailurePolicy, Identity, Stream
from app.kit.errors import Problem
from tests.core.pipelines.test_dataframe_checks import A_FILE, FLIGHTS, a_query, a_query_pipeline

MORE = Stream(name="more", topic="more", schema="id INT, at TIMESTAMP", event_time="at", watermark_ms=0)


@pytest.mark.parametrize(
    "query",
    [a_query(), a_query(**A_FILE), a_query(streams=(FLIGHTS, MORE), sql="SELECT *\nFROM flights")],
    ids=["sql", "file", "streams"],
)
def test_a_query_comes_back_from_the_form_as_it_was(query: DataframeQuery) -> None:
    topics = tuple(stream.topic for stream in query.streams)
    definition = a_query_pipeline(query, source_topics=topics)
    assert definition_of(values_of("p", definition)) == definition


def test_source_topics_become_streams_and_streams_become_source_topics() -> None:
    values = {**values_of("p", a_query_pipeline(transform=Identity())), "transform.kind": "dataframe"}
    values["source_topics"] = "late.flights, other"
    chosen = dataframe_form.completed(values)
    assert [stream["name"] for stream in dataframe_form.streams_of(chosen)] == ["late_flights", "other"]
    chosen["transform.streams.0.topic"] = "new"
    assert dataframe_form.completed(chosen)["source_topics"] == "new, other"


@pytest.mark.parametrize(("given", "shown"), [("10000", "60000"), ("20000", "20000")])
def test_a_query_that_is_just_chosen_has_a_valid_timeout_instead_of_the_default(given: str, shown: str) -> None:
    values = {**values_of("p", a_query_pipeline(transform=Identity())), "transform.kind": "dataframe"}
    chosen = dataframe_form.completed({**values, "transaction_timeout_ms": given})
    assert chosen["transaction_timeout_ms"] == shown
    assert dataframe_form.completed({**chosen, "transaction_timeout_ms": given})["transaction_timeout_ms"] == given


def test_settings_that_a_query_does_not_have_are_left_behind() -> None:
    errors = ErrorHandling(policy=FailurePolicy.SKIP)
    before = values_of("p", a_query_pipeline(transform=Identity(), errors=errors, instances=3))
    values = {**before, "transform.kind": "dataframe", "sink": "files"}
    values |= {
        "transform.streams.0.name": "flights",
        "transform.streams.0.topic": "in",
        "transform.streams.0.schema": FLIGHTS.schema,
        "transform.sql": "SELECT * FROM flights",
        "transform.checkpoint": "file:///data/checkpoints/p",
        "transform.max_offsets_per_trigger": "1000",
    }
    assert definition_of(values) == a_query_pipeline()


@pytest.mark.parametrize(
    ("field", "shown_at"),
    [
        ("source_topics.0", "transform.streams.0.topic"),
        ("source_topics", "transform.streams"),
        ("transform.streams.0.schema", "transform.streams.0.schema"),
        ("transform.sql", "transform.sql"),
        ("transform.sha256", "transform.file"),
        ("transform.output_mode", "transform.output_mode"),
        ("tasks_per_instance", "tasks_per_instance"),
    ],
)
def test_a_problem_is_at_a_field_of_the_page(field: str, shown_at: str) -> None:
    form = form_of(values_of("p", a_query_pipeline()), [Problem(field=field, message="wrong")])
    assert list(form.problems) == [shown_at]


def test_a_problem_of_a_field_that_a_query_does_not_have_is_above_the_form() -> None:
    form = form_of(values_of("p", a_query_pipeline()), [Problem(field="commit_interval_ms", message="wrong")])
    assert [problem.message for problem in form.general] == ["wrong"]
