"""The rules of recomputations on Spark's own plans: which queries have comparable rows. One Spark session, no Kafka."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import msgspec
import pytest

from app.core.pipelines.pipeline import OutputMode, Stream
from tests.support.dataframes.planning import FLIGHTS, Planner, running_planner

pytestmark = pytest.mark.slow
MINUTE_MS = 60_000
HOUR = "window(at, '1 hour')"
TWICE = f"""
SELECT window(window, '1 day').start AS day, sum(n) AS n
FROM (SELECT window, carrier, count(*) AS n FROM flights GROUP BY {HOUR}, carrier) GROUP BY window(window, '1 day')
"""  # noqa: S608 - the test's own
UPDATE: dict[str, Any] = {"output_mode": OutputMode.UPDATE}
STATE = """
from pyspark.sql.streaming import StatefulProcessor

class Counter(StatefulProcessor):
    def init(self, handle): pass
    def handleInputRows(self, key, rows, timers): yield from rows
    def close(self): pass

def f(spark, streams):
    return streams["flights"].groupBy("carrier").transformWithStateInPandas(
        Counter(), "carrier STRING", "append", "none"
    )
"""


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Generator[Planner]:
    with running_planner(tmp_path_factory.mktemp("planner")) as made:
        yield made


def per(group: str, *, more: str = "count(*) AS n", of: str = "flights") -> str:
    return f"SELECT carrier AS key, {more} FROM {of} GROUP BY {group}, carrier"  # noqa: S608 - the test's own


@pytest.mark.parametrize(
    ("sql", "changes", "window_ms", "keeps_last"),
    [
        ("SELECT carrier, at FROM flights WHERE delay > 15", {}, 0, False),
        ("SELECT carrier, at FROM flights", UPDATE, 0, False),
        (per(HOUR), {}, 60 * MINUTE_MS, False),
        (per(HOUR), UPDATE, 60 * MINUTE_MS, True),
        (per("window(at, '1 hour', '10 minutes', '5 minutes')"), {}, 60 * MINUTE_MS, False),
        (per("window(at, '3 days')", more="avg(delay) AS d, window.end AS e"), {}, 3 * 24 * 60 * MINUTE_MS, False),
        (per("at"), UPDATE, 0, True),
        (per(HOUR, of="(SELECT carrier, at FROM flights UNION ALL SELECT carrier, at FROM flights)"),
         {}, 60 * MINUTE_MS, False),
        (f"WITH late AS (TABLE flights) {per(HOUR, of='late')}",
         {}, 60 * MINUTE_MS, False),
        (per("window(t, '1 hour')", of="(SELECT carrier, at AS t FROM flights)"), {}, 60 * MINUTE_MS, False),
    ],
)  # fmt: skip
def test_comparable_queries(
    planner: Planner, sql: str, changes: dict[str, Any], window_ms: int, keeps_last: bool
) -> None:
    found = planner.plan(sql, is_recomputed=True, **changes)
    is_windowed = "GROUP BY" in sql
    assert found == {"is_windowed": is_windowed, "window_ms": window_ms, "keeps_last": keeps_last}


@pytest.mark.parametrize(
    ("sql", "changes", "part"),
    [
        (per("session_window(at, '5 minutes')"), {}, "Session windows"),
        ("SELECT DISTINCT carrier, at FROM flights", {}, "DISTINCT"),
        ("SELECT a.carrier FROM flights a JOIN flights b ON a.carrier = b.carrier AND a.at = b.at", {}, "A join"),
        ("SELECT carrier FROM flights LIMIT 5", {}, "LIMIT"),
        ("SELECT carrier, now() AS t FROM flights", {}, "current time"),
        (per(HOUR, more="collect_list(delay) AS d"), {}, "collect_list depends on the order"),
        (per(HOUR, more="max_by(delay, at) AS d"), {}, "max_by depends on the order"),
        (TWICE, {}, "twice"),
        ("SELECT carrier AS key, count(*) AS n FROM flights GROUP BY carrier", UPDATE, "never final"),
        ("SELECT count(*) AS n FROM flights GROUP BY window(at, '1 hour')", UPDATE, "requires a column key"),
        (
            "SELECT carrier, count(*) AS n FROM flights GROUP BY carrier",
            {"output_mode": OutputMode.COMPLETE},
            "complete",
        ),
    ],
)
def test_sql_that_a_batch_cannot_prove(planner: Planner, sql: str, changes: dict[str, Any], part: str) -> None:
    assert part in planner.plan(sql, is_recomputed=True, **changes)["message"]


@pytest.mark.parametrize(
    ("source", "part"),
    [
        (STATE, "transformWithState has its state and timers from batch to batch"),
        ("def f(spark, streams):\n    return streams['flights'].dropDuplicatesWithinWatermark(['carrier'])\n",
         "no dropDuplicatesWithinWatermark in batch"),
        ("def f(spark, streams):\n    return streams['flights'].dropDuplicates(['carrier', 'at'])\n",
         "first to arrive"),
    ],
)  # fmt: skip
def test_functions_that_a_batch_cannot_prove(planner: Planner, source: str, part: str) -> None:
    assert part in planner.plan(source=source, is_recomputed=True)["message"]


def test_windows_need_the_event_time_of_each_stream(planner: Planner) -> None:
    other = Stream(name="other", topic="other", schema="carrier STRING, at TIMESTAMP")
    sql = per(HOUR)
    assert (
        "Stream other has no event time" in planner.plan(sql, streams=(FLIGHTS, other), is_recomputed=True)["message"]
    )
    timeless = msgspec.structs.replace(FLIGHTS, event_time=None, watermark_ms=None)
    own = "def f(spark, streams):\n    return streams['flights'].withWatermark('at', '1 hour')\n"
    assert planner.plan(source=own, streams=(timeless,), is_recomputed=True)["is_windowed"] is False
    windows = own.replace(".withWatermark('at', '1 hour')", ".withWatermark('at', '1 hour').groupBy('at').count()")
    assert "watermark of its own" in planner.plan(source=windows, is_recomputed=True)["message"]
