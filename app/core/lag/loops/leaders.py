"""Ask the leaders of one cluster for the ends of partitions, by a lasting connection in a thread of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from app.core.blocked.facts import Refused
from app.core.clusters.cluster import Cluster
from app.core.clusters.partition import Partition
from app.core.clusters.service import refuse_other_cluster
from app.core.hanging.brokers import PARTITIONS_A_REQUEST, SearchBrokers, SearchConnection
from app.core.lag.book import Answer
from app.kit.errors import FencelineError

_ANSWER_WITHIN_S = 5.0
_TOPICS_AGAIN_S = 60.0
_MOVED_AGAIN_S = 10.0


class Leaders:
    """A frozen leader uses up a part of one request's time, and only its partitions have no answer."""

    def __init__(self, cluster: Cluster, brokers: SearchBrokers) -> None:
        self.cluster = cluster
        self._brokers = brokers
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"lag of {cluster.name}")
        self._held_open = ExitStack()
        self._connection: SearchConnection | None = None
        self._there: frozenset[Partition] = frozenset()
        self._missing: frozenset[Partition] = frozenset()
        self._is_stale = False
        self._topics_at = float("-inf")

    async def ends(self, wanted: Collection[Partition]) -> dict[Partition, Answer]:
        """Return the ends of each, or why there are none. Raises a FencelineError if no broker answers."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._thread, self._ask, wanted)
        except FencelineError:
            await loop.run_in_executor(self._thread, self._disconnect)
            raise

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._disconnect)
        self._thread.shutdown(wait=False)

    def _ask(self, wanted: Collection[Partition]) -> dict[Partition, Answer]:
        connection = self._connection or self._connect()
        self._learn(connection, frozenset(wanted))
        asked = [at for at in wanted if at in self._there]
        found: dict[Partition, Answer] = {
            at: Refused("", "the topic or partition does not exist") for at in wanted if at not in self._there
        }
        for begin in range(0, len(asked), PARTITIONS_A_REQUEST):
            some = asked[begin : begin + PARTITIONS_A_REQUEST]
            answer = connection.stable_ends(some)
            self._is_stale |= answer.is_stale
            why = Refused("", "; ".join(answer.silent) or "its leader has moved")
            found |= dict.fromkeys(some, why)
            found |= answer.ends
        return found

    def _learn(self, connection: SearchConnection, wanted: frozenset[Partition]) -> None:
        """Ask for all topics and their leaders if unknown ones are wanted, and again after a while if some are missing
        or have moved.
        """
        missing, passed_s = wanted - self._there, time.monotonic() - self._topics_at
        is_due = passed_s >= (_MOVED_AGAIN_S if self._is_stale else _TOPICS_AGAIN_S)
        if missing - self._missing or (is_due and (missing or self._is_stale)):
            self._there = frozenset(connection.all_partitions())
            self._missing = wanted - self._there
            self._is_stale = False
            self._topics_at = time.monotonic()

    def _connect(self) -> SearchConnection:
        opening = self._brokers.open_search(self.cluster.connection(), timeout_s=_ANSWER_WITHIN_S)
        connection = self._held_open.enter_context(opening)
        refuse_other_cluster(self.cluster, connection.kafka_cluster_id)
        self._connection = connection
        return connection

    def _disconnect(self) -> None:
        self._connection = None
        self._there = self._missing = frozenset()
        self._is_stale = False
        held_open, self._held_open = self._held_open, ExitStack()
        held_open.close()
