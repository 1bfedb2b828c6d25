"""Records that an open transaction keeps from readers of committed data, by partition, while somebody looks.

A look never waits for brokers: it gets what is known, and has them asked for the next one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping

import msgspec

from app.core.clusters.brokers import Brokers, PartitionOffsets, TopicPartition
from app.core.clusters.cluster import Cluster
from app.kit.errors import FencelineError

_ASK_EVERY_S = 1.0
_ASK_AGAIN_S = 5.0
_TIMEOUT_S = 5.0
# What was asked longer ago than this says nothing of now, and nobody looks any more.
_KEPT_S = 10.0


class _Question(msgspec.Struct):
    """One set of partitions. ends: the newest answer; held: what it and the one before it told together."""

    next_at: float
    answered_at: float = 0.0
    ends: Mapping[TopicPartition, PartitionOffsets] = {}
    held: Mapping[TopicPartition, int] = {}


class HeldBack:
    """Used on the server's event loop only.

    Args:
        monotonic: seconds of a clock that nobody sets.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._questions: dict[tuple[str, frozenset[TopicPartition]], _Question] = {}
        self._asking: set[asyncio.Task[None]] = set()

    def of(
        self, brokers: Brokers, cluster: Cluster, partitions: Collection[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """Offsets between the last stable one and the end that have been there since the answer before.

        So what is only just being written is none of them. A partition that nobody told of is missing.
        """
        now = self._monotonic()
        for key, question in list(self._questions.items()):
            if now - max(question.next_at, question.answered_at) > _KEPT_S:
                del self._questions[key]
        if not partitions:
            return {}
        key = (cluster.name, frozenset(partitions))
        question = self._questions.setdefault(key, _Question(next_at=now))
        if now >= question.next_at:
            question.next_at = now + _TIMEOUT_S
            task = asyncio.create_task(self._ask(brokers, cluster, key[1], question))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        return question.held if now - question.answered_at <= _KEPT_S else {}

    async def settled(self) -> None:
        """Wait until every question has its answer."""
        await asyncio.gather(*self._asking, return_exceptions=True)

    async def close(self) -> None:
        """Nobody looks any more."""
        for task in self._asking:
            task.cancel()
        await self.settled()

    async def _ask(
        self, brokers: Brokers, cluster: Cluster, partitions: frozenset[TopicPartition], question: _Question
    ) -> None:
        try:
            ends = await brokers.offsets(cluster.connection(), partitions, timeout_s=_TIMEOUT_S)
        except FencelineError:
            # Whoever reads the page is told by dashes; what is wrong with the cluster is said where that is asked.
            question.ends, question.held = {}, {}
            question.next_at = self._monotonic() + _ASK_AGAIN_S
            return
        before, question.ends = question.ends, ends
        question.held = {
            # The end of a topic that was made anew lies before that of the one which had its name.
            at: max(0, min(before[at].high_watermark, now.high_watermark) - now.last_stable)
            for at, now in ends.items()
            if at in before
        }
        question.answered_at = self._monotonic()
        question.next_at = question.answered_at + _ASK_EVERY_S
