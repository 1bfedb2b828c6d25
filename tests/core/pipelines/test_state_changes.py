"""Changes of a query that keep its state, that need a new checkpoint, and that cannot be judged."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from app.core.pipelines.pipeline import Identity, OutputMode, SparkSettings, StateStore, Stream
from app.core.pipelines.state_changes import StateEffect, state_changes
from tests.core.pipelines.test_dataframe_checks import A_FILE, FLIGHTS, a_query, a_query_pipeline

NEW, UNKNOWN = StateEffect.NEW_CHECKPOINT, StateEffect.UNKNOWN
MORE = Stream(name="more", topic="more", schema="id INT")


@pytest.mark.parametrize(
    "changes",
    [
        {"trigger_ms": 5000},
        {"max_offsets_per_trigger": 5},
        {"executor_cores": 4},
    ],
)
def test_bounds_of_a_batch_keep_the_state(changes: dict[str, Any]) -> None:
    assert state_changes(a_query_pipeline(), a_query_pipeline(a_query(**changes))) == []


def test_writers_memory_and_timeouts_keep_the_state() -> None:
    spark = SparkSettings(executor_memory_mb=900)
    after = a_query_pipeline(tasks_per_instance=3, transaction_timeout_ms=90_000, spark=spark)
    assert state_changes(a_query_pipeline(), after) == []


@pytest.mark.parametrize(
    ("changes", "field", "effect"),
    [
        ({"output_mode": OutputMode.UPDATE}, "transform.output_mode", NEW),
        ({"shuffle_partitions": 8}, "transform.shuffle_partitions", NEW),
        ({"state_store": StateStore.MEMORY}, "transform.state_store", NEW),
        ({"checkpoint": "file:///data/new", "sql": "SELECT 1", "shuffle_partitions": 9}, "transform.checkpoint", NEW),
        ({"streams": (FLIGHTS, MORE)}, "transform.streams", NEW),
        ({"streams": (MORE,)}, "transform.streams", NEW),
        ({"streams": (msgspec.structs.replace(FLIGHTS, schema="a INT"),)}, "transform.streams.0.schema", UNKNOWN),
        ({"sql": "SELECT carrier FROM flights"}, "transform.sql", UNKNOWN),
        (A_FILE, "transform.file_name", UNKNOWN),
    ],
)
def test_a_change_of_the_query(changes: dict[str, Any], field: str, effect: StateEffect) -> None:
    (found,) = state_changes(a_query_pipeline(), a_query_pipeline(a_query(**changes)))
    assert (found.field, found.effect) == (field, effect)


@pytest.mark.parametrize(("field", "value"), [("cluster", "b"), ("group_id", "b"), ("sink_topic", "b")])
def test_markers_do_not_move(field: str, value: str) -> None:
    changes: dict[str, Any] = {field: value}
    (found,) = state_changes(a_query_pipeline(), a_query_pipeline(**changes))
    assert (found.field, found.effect) == (field, NEW)


def test_another_file_or_function_cannot_be_judged() -> None:
    before = a_query_pipeline(a_query(**A_FILE))
    (found,) = state_changes(before, a_query_pipeline(a_query(**{**A_FILE, "sha256": "1" * 64})))
    assert (found.field, found.effect) == ("transform.sha256", UNKNOWN)
    (found,) = state_changes(before, a_query_pipeline(a_query(**{**A_FILE, "function": "g"})))
    assert (found.field, found.effect) == ("transform.function", UNKNOWN)


def test_settings_of_spark_sql_cannot_be_judged() -> None:
    after = a_query_pipeline(spark=SparkSettings(conf={"spark.sql.ansi.enabled": "false", "spark.io.x": "1"}))
    (found,) = state_changes(a_query_pipeline(), after)
    assert (found.field, found.effect) == ("spark.conf.spark.sql.ansi.enabled", UNKNOWN)


def test_the_order_of_streams_cannot_be_judged() -> None:
    before, after = ((FLIGHTS, MORE), (MORE, FLIGHTS))
    (found,) = state_changes(a_query_pipeline(a_query(streams=before)), a_query_pipeline(a_query(streams=after)))
    assert (found.field, found.effect) == ("transform.streams", UNKNOWN)


def test_a_pipeline_that_becomes_a_query_or_was_one_does_not_go_on() -> None:
    for before, after in ((Identity(), a_query()), (a_query(), Identity())):
        (found,) = state_changes(a_query_pipeline(transform=before), a_query_pipeline(transform=after))
        assert (found.field, found.effect) == ("transform.kind", NEW)
    assert state_changes(a_query_pipeline(transform=Identity()), a_query_pipeline(transform=Identity())) == []
