"""The demo's pipeline: arrivals at least a quarter of an hour late, with a few fields of each."""

from typing import Any

from app.products.demo.flights import LATE_MINUTES
from app.products.demo.outputs import PROJECTED

NAME = "delayed-flights"
SOURCE_TOPIC = "flights"
SINK_TOPIC = "delayed-flights"
PARTITIONS = 4
INSTANCES = 2
CORES = INSTANCES + 1
"""One core for each instance, and one for the audit at the end of a drill."""
AUDIT_PLAN: dict[str, Any] = {"id_place": {"kind": "json", "path": PROJECTED[0]}, "padding_s": 60}
"""The audit id of its flights, as REST takes it; audits run on request only."""
ID_PREFIX = f"fl.t.{NAME}."
"""The prefix of the transactional ids of its tasks."""


def definition(*, cluster: str, spark_master: str) -> dict[str, Any]:
    """Return its definition as REST takes it."""
    return {
        "cluster": cluster,
        "source_topics": [SOURCE_TOPIC],
        "group_id": NAME,
        "sink_topic": SINK_TOPIC,
        "transform": {
            "kind": "steps",
            "steps": [
                {"op": "filter", "field": "arrival_delay_min", "operator": "ge", "value": LATE_MINUTES},
                {"op": "project", "fields": list(PROJECTED)},
            ],
        },
        # The time for which a killed member keeps its partitions; the default is 10 s.
        "session_timeout_ms": 6_000,
        "instances": INSTANCES,
        # Drills are the first thing that the demo suggests.
        "allows_drills": True,
        "spark": {"master": spark_master, "executor_memory_mb": 512},
    }
