"""Which cases of a run are drawn, and in which order tests run."""

import random
from collections import defaultdict
from collections.abc import Sequence

import pytest


def not_drawn(items: Sequence[pytest.Item], rng: random.Random) -> list[pytest.Item]:
    """Of each parametrised test marked `faults(keep=N)`, all but N cases drawn at random."""
    families: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    keep: dict[str, int] = {}
    for item in items:
        marker = item.get_closest_marker("faults")
        if marker is not None and "keep" in marker.kwargs:
            family = item.nodeid.partition("[")[0]
            families[family].append(item)
            keep[family] = int(marker.kwargs["keep"])
    return [
        case
        for family, cases in sorted(families.items())
        for case in rng.sample(cases, max(0, len(cases) - keep[family]))
    ]


def cost(item: pytest.Item) -> tuple[bool, ...]:
    """Sorts pure tests first, then database, broker, faults, Spark and browser, so that a run fails early."""
    fixtures: set[str] = set(getattr(item, "fixturenames", ()))
    return (
        item.get_closest_marker("browser") is not None,
        "spark_cluster" in fixtures,
        item.get_closest_marker("faults") is not None,
        bool(fixtures & {"kafka", "kafka_cluster3"}),
        item.get_closest_marker("slow") is not None,
        "postgres_server_url" in fixtures,
    )
