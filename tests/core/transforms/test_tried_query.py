"""Trials of queries on records, by Spark in the child process: the rows, the refusals, and the bounds of the child."""

from __future__ import annotations

import functools
import json
from typing import Any

import msgspec
import pytest

from app.core.journals.log_content import MAX_CONTENT_BYTES, bytes_of
from app.core.pipelines.pipeline import DataframeQuery, OutputMode, Stream
from app.core.transforms import tried_query
from app.core.transforms.asked_process import ProcessEnd
from app.core.transforms.tried_query import try_query
from app.core.transforms.trying import MOST_ROWS, QueryAnswer, SampleRecord
from app.edges.embedded.java import find_java
from app.kit.errors import InvalidError, UnavailableError
from tests.support.definitions import a_definition
from workers.transforms.user_code import sha256_of

FLIGHTS = Stream(
    name="flights",
    topic="in-flights",
    schema="carrier STRING, delay INT, at TIMESTAMP",
    event_time="at",
    watermark_ms=60_000,
)
WEATHER = Stream(
    name="weather", topic="in-weather", schema="wind INT, at TIMESTAMP", event_time="at", watermark_ms=60_000
)
PER_HOUR = (
    "SELECT carrier AS key, window.start AS hour, count(*) AS n FROM flights GROUP BY window(at, '1 hour'), carrier"
)
ROW_BY_ROW = "SELECT carrier, delay FROM flights WHERE delay >= 15"
SCHEMA = "transform.streams.1.schema"


@functools.cache
def _java_home() -> str:
    return str(find_java().home)


def record(value: object, offset: int = 0, *, topic: str = "in-flights", key: bytes | None = None) -> SampleRecord:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return SampleRecord(topic=topic, partition=3, offset=offset, timestamp_ms=1_700_000_000_000, key=key, value=data)


def flight(carrier: str, delay: object, at: str, offset: int = 0) -> SampleRecord:
    return record({"carrier": carrier, "delay": delay, "at": f"2013-01-01T{at}:00Z"}, offset)


DAY = (
    flight("UA", 20, "01:10", 0),
    flight("AA", 3, "01:20", 1),
    flight("UA", 40, "01:50", 2),
    flight("UA", 5, "09:00", 3),
    # Late: a query whose watermark follows the record before would drop it.
    flight("AA", 90, "00:30", 4),
)


async def tried(
    sql: str | None = None,
    *records: SampleRecord,
    source: str | None = None,
    streams: tuple[Stream, ...] = (FLIGHTS,),
    time_limit_s: float = 240.0,
    **changes: Any,
) -> QueryAnswer:
    if source is not None:
        changes = {"function": "f", "file_name": "q.py", "sha256": sha256_of(source), **changes}
    query = DataframeQuery(streams=streams, checkpoint="", sql=sql, **changes)
    return await try_query(
        a_definition(transform=query, tasks_per_instance=1, sink_topic="out"),
        records or DAY,
        source=source,
        java_home=_java_home(),
        # Two cores may be busy with other tests.
        start_limit_s=240.0,
        time_limit_s=time_limit_s,
    )


async def refused(sql: str | None = None, **given: Any) -> InvalidError:
    with pytest.raises(InvalidError) as caught:
        await tried(sql, **given)
    assert "\n" not in caught.value.message
    return caught.value


def values(answer: QueryAnswer) -> list[Any]:
    assert answer.error is None
    return [json.loads(bytes_of(row.value) or b"null") for row in answer.rows]


def keyed(answer: QueryAnswer) -> list[tuple[bytes | None, Any]]:
    return list(zip((bytes_of(row.key) for row in answer.rows), values(answer), strict=True))


@pytest.mark.slow
async def test_filter_has_the_rows_of_its_records_in_order_of_their_values() -> None:
    found = await tried(ROW_BY_ROW)
    assert values(found) == [
        {"carrier": "AA", "delay": 90},
        {"carrier": "UA", "delay": 20},
        {"carrier": "UA", "delay": 40},
    ]
    assert found.count == 3
    assert {row.topic for row in found.rows} == {"out"}


@pytest.mark.slow
async def test_all_windows_are_shown_also_open_ones_and_late_ones() -> None:
    found = keyed(await tried(PER_HOUR))
    assert found == [
        (b"AA", {"hour": "2013-01-01T00:00:00.000Z", "n": 1}),
        (b"AA", {"hour": "2013-01-01T01:00:00.000Z", "n": 1}),
        (b"UA", {"hour": "2013-01-01T01:00:00.000Z", "n": 2}),
        (b"UA", {"hour": "2013-01-01T09:00:00.000Z", "n": 1}),
    ]


@pytest.mark.slow
async def test_join_of_two_streams_has_the_records_of_both_topics() -> None:
    found = await tried(
        "SELECT carrier AS key, delay, wind FROM flights f JOIN weather w ON f.at = w.at",
        *DAY,
        record({"wind": 7, "at": "2013-01-01T01:10:00Z"}, topic="in-weather"),
        streams=(FLIGHTS, WEATHER),
    )
    assert keyed(found) == [(b"UA", {"delay": 20, "wind": 7})]


@pytest.mark.slow
async def test_function_of_dataframes_is_run() -> None:
    source = "def f(spark, streams):\n    return streams['flights'].where('delay > 50').select('carrier', '_offset')\n"
    assert values(await tried(source=source)) == [{"carrier": "AA", "_offset": 4}]


@pytest.mark.slow
async def test_row_has_every_column_of_the_sink_and_its_own_order_is_kept() -> None:
    sql = (
        "SELECT 'far' AS topic, 2 AS partition, _timestamp AS timestamp, _key AS key, encode(carrier, 'utf-16') AS "
        "value, array(named_struct('key', 'h', 'value', X'00fe'), named_struct('key', 'n', 'value', NULL)) AS headers "
        "FROM flights"
    )
    given = record({"carrier": "UA", "delay": 1}, key=b"\xff")
    (row,) = (await tried(sql, given)).rows
    assert (row.topic, row.partition, row.timestamp_ms) == ("far", 2, 1_700_000_000_000)
    assert (bytes_of(row.key), bytes_of(row.value)) == (b"\xff", b"\xfe\xff\x00U\x00A")
    assert [(one.name, bytes_of(one.value)) for one in row.headers] == [("h", b"\x00\xfe"), ("n", None)]
    by_number = "SELECT carrier AS key, count(*) AS n FROM flights GROUP BY carrier ORDER BY n DESC"
    assert keyed(await tried(by_number, output_mode=OutputMode.COMPLETE)) == [(b"UA", {"n": 3}), (b"AA", {"n": 2})]


@pytest.mark.slow
async def test_rows_beyond_the_bound_are_counted_and_long_values_are_cut() -> None:
    long = "€" * 300_000
    found = await tried("SELECT carrier, explode(sequence(1, 1000)) AS n FROM flights", flight(long, 1, "01:10"))
    assert (len(found.rows), found.count) == (MOST_ROWS, 1000)
    value = found.rows[0].value
    assert value is not None
    assert (value.is_cut, value.is_base64) == (True, False)
    assert value.size_bytes > len(long.encode())
    assert len(value.text.encode()) <= MAX_CONTENT_BYTES
    assert set(value.text[20:]) == {"€"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sql", "delay", "part"),
    [
        (ROW_BY_ROW, "late", "the value of in-flights-3@9 does not fit the schema of flights"),
        ("SELECT CAST(carrier AS INT) AS n FROM flights WHERE _offset = 9", 1, "'UA' of the type"),
        ("SELECT size(sequence(1L, 1000000000L + delay)) AS n FROM flights", 1, "OutOfMemoryError"),
    ],
)
async def test_error_over_the_records_is_one_sentence_and_no_row(sql: str, delay: object, part: str) -> None:
    found = await tried(sql, *DAY, flight("UA", delay, "01:10", 9))
    assert found.error is not None
    assert part in found.error
    assert "\n" not in found.error
    assert (found.rows, found.count) == ((), 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "field", "part"),
    [
        ({"sql": "SELECT nope FROM flights"}, "transform.sql", "`nope` cannot be resolved"),
        ({"sql": "SELECT count(*) AS n FROM flights"}, "transform.output_mode", "without watermark"),
        ({"sql": ROW_BY_ROW, "streams": (FLIGHTS, msgspec.structs.replace(WEATHER, schema="wind"))}, SCHEMA, "Syntax"),
        (
            {"source": "def f(spark, streams): return streams['flights'].dropDuplicatesWithinWatermark(['carrier'])"},
            "transform.function",
            "Spark cannot run it as a batch, as Try does: dropDuplicatesWithinWatermark is not supported",
        ),
    ],
)
async def test_query_that_cannot_be_tried_is_refused_at_its_field(given: dict[str, Any], field: str, part: str) -> None:
    error = await refused(given.pop("sql", None), **given)
    assert error.field == field, error.message
    assert part in error.message


@pytest.mark.slow
@pytest.mark.parametrize(
    "result",
    [
        "streams['flights'].select(f.udf(lambda x: x, 'int')('delay').alias('d'))",
        "streams['flights'].select('delay').mapInPandas(lambda batches: batches, 'delay int')",
        "streams['flights'].where(\"delay > (SELECT max(one(delay)) FROM flights)\").select('delay')",
    ],
)
async def test_function_in_python_for_each_row_is_refused_in_words(result: str) -> None:
    source = (
        "from pyspark.sql import functions as f\n"
        "def f_(spark, streams):\n"
        "    spark.udf.register('one', lambda x: 1, 'int')\n"
        f"    if not streams['flights'].isStreaming: return {result}\n"
        "    return streams['flights'].select('delay')\n"
    )
    error = await refused(source=source, function="f_")
    assert error.field == "transform.function"
    assert "Try starts no process of Python for rows" in error.message


@pytest.mark.slow
async def test_process_of_python_that_no_plan_shows_is_not_started() -> None:
    source = (
        "def f(spark, streams):\n"
        "    beside = spark.sparkContext.parallelize([('UA', 1)]).map(lambda pair: pair)\n"
        "    return streams['flights'].join(beside.toDF('carrier string, n int'), 'carrier').select('carrier', 'n')\n"
    )
    found = await tried(source=source)
    assert found.error is not None
    assert "starts a process" in found.error


@pytest.mark.slow
async def test_endless_query_is_ended_at_the_time_limit() -> None:
    sql = (
        "SELECT carrier FROM flights, LATERAL explode(sequence(1, 100000)) a(x), LATERAL explode(sequence(1, 100000)) "
        "b(y), LATERAL explode(sequence(1, 100000)) c(z) WHERE x * y + z < 0"
    )
    error = await refused(sql, time_limit_s=20.0)
    assert error.field == "transform.sql"
    assert "still running after 20 s" in error.message


@pytest.mark.slow
async def test_answer_that_the_file_writes_is_no_result() -> None:
    source = (
        "import os\n"
        "def f(spark, streams):\n"
        "    for fd in range(3, 60):\n"
        '        try: os.write(fd, b\'{"rows": [], "count": -1}\\n\')\n'
        "        except OSError: pass\n"
        "    os._exit(0)\n"
    )
    error = await refused(source=source)
    assert error.field == "transform.function"
    assert "exit code 0" in error.message


def output(**content: Any) -> dict[str, Any]:
    return {"topic": "out", "value": {"text": "x", "size_bytes": 1, **content}}


@pytest.mark.parametrize(
    "answer",
    [
        {"rows": [output()] * (MOST_ROWS + 1), "count": 100},
        {"rows": [output()], "count": 0},
        {"rows": [output(is_base64=True)], "count": 1},
        {"rows": [{"topic": "t" * 250}], "count": 1},
        {"rows": [{"topic": "t", "partition": 2**40}], "count": 1},
        {"rows": [{"topic": "t", "timestamp_ms": 2**70}], "count": 1},
        {"count": 2**60},
        {"error": "x" * 2_001},
        {"message": "x", "field": "cluster"},
    ],
)
async def test_impossible_answer_is_refused(monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]) -> None:
    await played(monkeypatch, answer={"rows": [output()], "count": 1})
    with pytest.raises(InvalidError, match="no valid answer"):
        await played(monkeypatch, answer=answer)


async def test_control_characters_of_a_forged_error_are_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await played(monkeypatch, answer={"error": "a\x1b[31m\nb"})).error == "a␛[31m␊b"


async def played(monkeypatch: pytest.MonkeyPatch, *, answer: dict[str, Any]) -> QueryAnswer:
    """The answer of a child that wrote it and killed itself, as the real one does."""

    async def ended(*given: Any, **more: Any) -> ProcessEnd:
        return ProcessEnd(started=True, answer=msgspec.json.encode(answer), exit_code=-9)

    monkeypatch.setattr(tried_query, "run_spark_check", ended)
    query = DataframeQuery(streams=(FLIGHTS,), checkpoint="", sql=ROW_BY_ROW)
    return await try_query(a_definition(transform=query), DAY, source=None, java_home="/usr")


async def test_server_without_java_or_isolation_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    definition = a_definition(transform=DataframeQuery(streams=(FLIGHTS,), checkpoint="", sql=ROW_BY_ROW))
    with pytest.raises(UnavailableError, match="no Java"):
        await try_query(definition, DAY, source=None)
    with pytest.raises(UnavailableError, match="bubblewrap"):
        await try_query(definition, DAY, source=None, java_home="/usr")
