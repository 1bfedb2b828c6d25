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
"""One for each instance, and one for an audit beside them, with which a drill ends."""
AUDIT_PLAN: dict[str, Any] = {"id_place": {"kind": "json", "path": PROJECTED[0]}, "padding_s": 60}
"""By which id its flights are known, as the REST interface takes it; they are audited when somebody asks."""
ID_PREFIX = f"fl.t.{NAME}."
"""With what the transactional ids of its tasks begin."""


def definition(*, cluster: str, spark_master: str) -> dict[str, Any]:
    """Its definition as the REST interface takes it."""
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
        # A member that is killed holds its partitions for this long; the default is 10 s.
        "session_timeout_ms": 6_000,
        "instances": INSTANCES,
        # The first thing that a newcomer is invited to do.
        "allows_drills": True,
        "spark": {"master": spark_master, "executor_memory_mb": 512},
    }
