"""Settings and log sizes of topics, kept for a moment.

DescribeConfigs and DescribeLogDirs take tens of milliseconds on a broker with 10,000 partitions. Leaders and in-sync
replicas take one or two, and are never kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from app.core.clusters.partition import Partition

KNOWN_S = 10.0
_MOST = 20_000
Settings = Mapping[str, str]


class TopicDetails(NamedTuple):
    """settings: None if they may not be read. sizes: of the leaders' logs that answered; note: why some are missing."""

    settings: Settings | None
    sizes: Mapping[Partition, int]
    note: str = ""


class KnownDetails:
    """Complete details, at most KNOWN_S old, by the client's settings and the topic's id. Safe from any thread.

    Other credentials may have other permissions, and a topic that was created again has another id.
    """

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._known: dict[tuple[frozenset[tuple[str, str]], str], tuple[float, TopicDetails]] = {}

    def of(self, resolved: Settings, topic_ids: Collection[str]) -> dict[str, TopicDetails]:
        """Return the known ones by topic id."""
        key, since = frozenset(resolved.items()), self._now() - KNOWN_S
        found = {topic_id: self._known.get((key, topic_id)) for topic_id in topic_ids}
        return {topic_id: known[1] for topic_id, known in found.items() if known is not None and known[0] > since}

    def keep(self, resolved: Settings, topic_id: str, details: TopicDetails) -> None:
        """Keep details, unless a part of them is missing."""
        if details.settings is None or details.note:
            return
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[frozenset(resolved.items()), topic_id] = (self._now(), details)
