"""The demo's third pipeline: the mean delay of arrivals by carrier and hour, a window aggregation in Spark SQL."""

from pathlib import Path
from typing import Any

from app.products.demo.pipeline import SOURCE_TOPIC

NAME = "delay-by-hour"
SINK_TOPIC = "delay-by-hour"
WATERMARK_DAYS = 30
"""A second of the demo's feed is about three weeks of flights: the delay covers a second between partitions."""
_SQL = """\
SELECT carrier AS key,
       carrier,
       date_format(window.start, "yyyy-MM-dd'T'HH:mm") AS hour,
       count(*) AS flights,
       count(arrival_delay_min) AS arrived,
       avg(arrival_delay_min) AS mean_delay_min
FROM flights
GROUP BY carrier, window(scheduled_departure, '1 hour')"""
_DAY_MS = 24 * 3_600_000


def definition(*, cluster: str, checkpoint: Path) -> dict[str, Any]:
    """Return its definition as REST takes it. `checkpoint` is a folder, which the first driver creates."""
    return {
        "cluster": cluster,
        "source_topics": [SOURCE_TOPIC],
        "group_id": NAME,
        "sink_topic": SINK_TOPIC,
        "transform": {
            "kind": "dataframe",
            "streams": [
                {
                    "name": "flights",
                    "topic": SOURCE_TOPIC,
                    "schema": "carrier STRING, scheduled_departure TIMESTAMP, arrival_delay_min INT",
                    "event_time": "scheduled_departure",
                    "watermark_ms": WATERMARK_DAYS * _DAY_MS,
                }
            ],
            "sql": _SQL,
            "checkpoint": checkpoint.as_uri(),
            "executor_cores": 1,
            "shuffle_partitions": 1,
            "state_store": "memory",
        },
        "transaction_timeout_ms": 60_000,
        "session_timeout_ms": 6_000,
        # Driver and executor in one process: two cores are to run all of the demo.
        "spark": {"master": "local"},
    }
