"""Ask for the ends of partitions while a page shows them, and count blocked records.

A view never waits for brokers: it gets the last answer, and triggers a request for the next one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping

import msgspec

from app.core.blocked.facts import Refused
from app.core.clusters.brokers import Brokers, PartitionOffsets
from app.core.clusters.cluster import Cluster
from app.core.clusters.partition import Partition
from app.kit.errors import FencelineError

_ASK_EVERY_S = 1.0
_ASK_AGAIN_S = 5.0
_TIMEOUT_S = 5.0
# Older questions are outdated, and no page needs them any more.
_KEPT_S = 10.0


class _Question(msgspec.Struct):
    """One set of partitions. answers: the newest; ends: those that are no refusals; held: their result with the ones
    before.
    """

    next_at: float
    answered_at: float = 0.0
    answers: Mapping[Partition, PartitionOffsets | Refused] = {}
    ends: Mapping[Partition, PartitionOffsets] = {}
    held: Mapping[Partition, int] = {}


class HeldBack:
    """Used on the server's event loop only.

    Args:
        monotonic: seconds of a monotonic clock.
    """

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._questions: dict[tuple[str, frozenset[Partition]], _Question] = {}
        self._asking: set[asyncio.Task[None]] = set()

    def of(self, brokers: Brokers, cluster: Cluster, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        """Return the number of offsets between the last stable one and the end since the answer before.

        So records that are just being written do not count. A partition without an answer is missing.
        """
        question = self._asked(brokers, cluster, partitions)
        return {} if question is None else question.held

    def ends_of(
        self, brokers: Brokers, cluster: Cluster, partitions: Collection[Partition]
    ) -> Mapping[Partition, PartitionOffsets | Refused]:
        """Return the newest ends; empty before the first answer, and while the cluster does not answer."""
        question = self._asked(brokers, cluster, partitions)
        return {} if question is None else question.answers

    def _asked(self, brokers: Brokers, cluster: Cluster, partitions: Collection[Partition]) -> _Question | None:
        """Request the next answer if it is time. Return the newest one; None without a current one."""
        now = self._monotonic()
        for key, question in list(self._questions.items()):
            if now - max(question.next_at, question.answered_at) > _KEPT_S:
                del self._questions[key]
        if not partitions:
            return None
        key = (cluster.name, frozenset(partitions))
        question = self._questions.setdefault(key, _Question(next_at=now))
        if now >= question.next_at:
            question.next_at = now + _TIMEOUT_S
            task = asyncio.create_task(self._ask(brokers, cluster, key[1], question))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        return question if now - question.answered_at <= _KEPT_S else None

    async def settled(self) -> None:
        """Wait until every request has its answer."""
        await asyncio.gather(*self._asking, return_exceptions=True)

    async def close(self) -> None:
        """No page needs it any more."""
        for task in self._asking:
            task.cancel()
        await self.settled()

    async def _ask(
        self, brokers: Brokers, cluster: Cluster, partitions: frozenset[Partition], question: _Question
    ) -> None:
        try:
            answers = await brokers.offsets_of_each(cluster.connection(), partitions, timeout_s=_TIMEOUT_S)
        except FencelineError:
            # The page shows dashes; the cluster's own page has the problem.
            question.answers, question.ends, question.held = {}, {}, {}
            question.next_at = self._monotonic() + _ASK_AGAIN_S
            return
        ends = {at: one for at, one in answers.items() if isinstance(one, PartitionOffsets)}
        before, question.ends, question.answers = question.ends, ends, answers
        question.held = {
            # The end of a recreated topic is before that of the earlier one.
            at: max(0, min(before[at].high_watermark, now.high_watermark) - now.last_stable)
            for at, now in ends.items()
            if at in before
        }
        question.answered_at = self._monotonic()
        question.next_at = question.answered_at + _ASK_EVERY_S
