"""The demo's second pipeline: every flight, in Avro files by carrier and day."""

from pathlib import Path
from typing import Any

from app.products.demo.pipeline import SOURCE_TOPIC

NAME = "flights-by-day"
SINK_TOPIC = "flights-by-day"
CORES = 1
"""Separate from those of the first pipeline."""
ROTATE_MS = 5_000
"""Short for a demo, so that files appear within seconds with few flights each. In production it would be 30 s."""


def definition(*, cluster: str, spark_master: str, root: Path) -> dict[str, Any]:
    """Return its definition as REST takes it. `root` is a folder, which the first writer creates."""
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
