"""The demo's second pipeline: every flight, in Avro files by carrier and day."""

from pathlib import Path
from typing import Any

from app.products.demo.pipeline import SOURCE_TOPIC

NAME = "flights-by-day"
SINK_TOPIC = "flights-by-day"
CORES = 1
"""Beside those of the first pipeline."""
ROTATE_MS = 5_000
"""Somebody looks on: files come within seconds, and hold few flights each. In earnest it would be half a minute."""


def definition(*, cluster: str, spark_master: str, root: Path) -> dict[str, Any]:
    """Its definition as the REST interface takes it. `root` is a folder; who writes first makes it."""
    return {
        "cluster": cluster,
        "source_topics": [SOURCE_TOPIC],
        "group_id": NAME,
        "sink_topic": SINK_TOPIC,
        "files": {
            "root": root.as_uri(),
            "partition_by": [
                {"of": "field", "name": "carrier", "field": "carrier"},
                {"of": "date", "name": "date"},
            ],
            "event_time": "scheduled_departure",
            "rotate_ms": ROTATE_MS,
            "id_field": "flight_id",
        },
        "session_timeout_ms": 6_000,
        "instances": 1,
        "spark": {"master": spark_master, "executor_memory_mb": 512},
    }
