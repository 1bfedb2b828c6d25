"""Plans of dataframe pipelines, and the field that each error names. One Spark session, no Kafka."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import msgspec
import pytest

from app.core.pipelines.pipeline import OutputMode, Stream
from tests.support.dataframes.planning import FLIGHTS, Planner, running_planner

PER_HOUR = "SELECT carrier AS key, window(at, '1 hour') AS hour, count(*) AS n FROM flights GROUP BY carrier, 2"


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Generator[Planner]:
    with running_planner(tmp_path_factory.mktemp("planner")) as made:
        yield made


pytestmark = pytest.mark.slow


def test_columns_that_the_sink_does_not_have_become_the_value(planner: Planner) -> None:
    assert planner.plan(PER_HOUR) == {"key": "string", "value": "string"}
    assert planner.plan("SELECT _key, _topic, _partition, _offset, _timestamp FROM flights") == {"value": "string"}


def test_a_value_of_its_own_is_kept(planner: Planner) -> None:
    kept = planner.plan("SELECT carrier AS value, 1 AS partition, at AS timestamp FROM flights")
    assert kept == {"value": "string", "partition": "int", "timestamp": "timestamp"}


def test_a_function_gets_the_session_and_the_streams(planner: Planner) -> None:
    source = "def f(spark, streams):\n    return streams['flights'].where('delay > 15').select('carrier')\n"
    assert planner.plan(source=source) == {"value": "string"}


def test_several_writers_take_a_deterministic_plan(planner: Planner) -> None:
    assert planner.plan(PER_HOUR, writers=2) == {"key": "string", "value": "string"}


@pytest.mark.parametrize(
    ("sql", "field", "part"),
    [
        ("SELECT", "transform.sql", "Syntax error"),
        ("SELECT nope FROM flights", "transform.sql", "`nope` cannot be resolved"),
        ("SELECT * FROM ships", "transform.sql", "`ships` cannot be found"),
        ("DROP VIEW flights", "transform.sql", "Syntax error at or near 'DROP'"),
        ("SET spark.sql.shuffle.partitions=1", "transform.sql", "Syntax error"),
        ("SELECT 1 AS one", "transform.sql", "reads no stream"),
        ("SELECT * FROM text.`/etc/passwd`", "transform.sql", "cannot be found"),
        ("SELECT reflect('java.lang.System', 'getenv', 'HOME') AS a FROM flights", "transform.sql", "not allowed"),
        ("SELECT try_reflect('java.lang.System', 'getenv', 'HOME') AS a FROM flights", "transform.sql", "not allowed"),
        ("SELECT TRANSFORM(carrier) USING 'cat' AS (a) FROM flights", "transform.sql", "not allowed"),
        ("SELECT carrier AS value, delay FROM flights", "transform.sql", "column delay is not written"),
        ("SELECT delay AS key, carrier FROM flights", "transform.sql", "Column key is int. It must be string or bin"),
        ("SELECT carrier AS key FROM flights", "transform.sql", "no column for the value"),
        ("SELECT carrier, delay AS carrier FROM flights", "transform.sql", "two columns of one name"),
        ("SELECT count(*) AS n FROM flights", "transform.output_mode", "without watermark"),
    ],
)
def test_sql_without_a_plan_names_its_field(planner: Planner, sql: str, field: str, part: str) -> None:
    refused = planner.plan(sql)
    assert refused.get("field") == field, refused
    assert part in refused["message"]
    assert "\n" not in refused["message"]
    assert "SQLSTATE" not in refused["message"]


def _flights(**changes: Any) -> Stream:
    return msgspec.structs.replace(FLIGHTS, **changes)


@pytest.mark.parametrize(
    ("streams", "field", "part"),
    [
        ((_flights(schema="carrier STRING delay"),), "transform.streams.0.schema", "Syntax error"),
        ((_flights(schema="INT"),), "transform.streams.0.schema", "one type"),
        ((_flights(schema="_KEY INT"),), "transform.streams.0.schema", "exists twice"),
        ((FLIGHTS, _flights(name="b", event_time="then")), "transform.streams.1.event_time", "`then` cannot be"),
        ((_flights(event_time="delay"),), "transform.streams.0.event_time", "delay"),
        ((_flights(name="a.b"),), "transform.streams.0.name", "no name of a view"),
        ((FLIGHTS, _flights(name="Flights")), "transform.streams.1.name", "Two streams"),
    ],
)
def test_a_stream_that_cannot_be_read_names_its_field(
    planner: Planner, streams: tuple[Stream, ...], field: str, part: str
) -> None:
    refused = planner.plan(PER_HOUR, streams=streams)
    assert refused.get("field") == field, refused
    assert part in refused["message"]


@pytest.mark.parametrize(
    ("source", "field", "message"),
    [
        ("def f(spark):\n    pass\n", "transform.function", "must be callable with 2 arguments"),
        ("def g(spark, streams):\n    pass\n", "transform.function", "no function `f`"),
        ("def f(spark, streams)\n", "transform.file_name", "line 1"),
        ("def f(spark, streams):\n    return 1\n", "transform.function", "returned int"),
        ("def f(spark, streams):\n    raise KeyError('secret')\n", "transform.function", "q.py, line 2: KeyError"),
        (
            "def f(spark, streams):\n    return streams['flights'].select('nope')\n",
            "transform.function",
            "`nope` cannot be resolved",
        ),
    ],
)
def test_a_file_without_a_plan_names_its_field(planner: Planner, source: str, field: str, message: str) -> None:
    refused = planner.plan(source=source)
    assert refused.get("field") == field, refused
    assert message in refused["message"]
    assert "secret" not in refused["message"]


def test_another_file_than_the_revisions_is_refused(planner: Planner) -> None:
    refused = planner.plan(source="def f(spark, streams):\n    pass\n", sha256="0" * 64)
    assert refused.get("field") == "transform.sha256"


def test_several_writers_of_random_rows_are_refused(planner: Planner) -> None:
    random_rows = "SELECT carrier, rand() AS r FROM flights"
    assert planner.plan(random_rows) == {"value": "string"}
    assert planner.plan(random_rows, writers=2)["field"] == "tasks_per_instance"


def test_complete_needs_an_aggregation(planner: Planner) -> None:
    refused = planner.plan("SELECT carrier FROM flights", output_mode=OutputMode.COMPLETE)
    assert refused["field"] == "transform.output_mode"
