"""The number of partitions of topics, by the brokers' last answers; requested when a worker names an unknown one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping

from app.kit.errors import FencelineError

ASKED_EVERY_S = 5.0
_Ask = Callable[[Collection[str]], Awaitable[Mapping[str, int]]]


class PartitionCounts:
    """Used on the server's event loop only. No caller waits for brokers: their answers count from then on.

    Args:
        monotonic: seconds of a monotonic clock.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._known: dict[str, dict[str, int]] = {}
        self._asked_at: dict[tuple[str, str], float] = {}
        self._asking: set[asyncio.Task[None]] = set()

    def of(self, kafka_cluster_id: str) -> Mapping[str, int]:
        """By topic; without those that were not requested, or not answered."""
        return self._known.get(kafka_cluster_id, {})

    def ask(self, kafka_cluster_id: str, topics: Collection[str], ask: _Ask) -> None:
        """Request these topics from brokers, unless that was done in the last seconds."""
        now = self._monotonic()
        due = [
            topic
            for topic in topics
            if now - self._asked_at.get((kafka_cluster_id, topic), float("-inf")) >= ASKED_EVERY_S
        ]
        if due:
            self._asked_at.update({(kafka_cluster_id, topic): now for topic in due})
            task = asyncio.create_task(self._ask(kafka_cluster_id, due, ask))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def settled(self) -> None:
        """Wait until every request has its answer."""
        await asyncio.gather(*self._asking)

    async def _ask(self, kafka_cluster_id: str, topics: Collection[str], ask: _Ask) -> None:
        try:
            told = await ask(topics)
        except FencelineError:
            # Unknown, as before: the cluster's own page has the problem.
            return
        self._known.setdefault(kafka_cluster_id, {}).update(told)
