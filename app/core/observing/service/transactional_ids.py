"""Find the transactional ids of producer ids in the server's own state, without reading a journal again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping

from app.core.clusters.brokers import TransactionalIds
from app.core.journals.live_transactions import LiveTransaction
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import ReadingPhase

_CATCH_UP_S = 1.0
_LOOK_AGAIN_S = 0.25


async def transactional_ids_of(
    observations: Observations, *, cluster: str, producer_ids: Collection[int], as_of_ms: int
) -> dict[int, str] | None:
    """The transactional ids that have or had these producer ids; None where the journal is not followed live.

    Wait for ids newer than the snapshot: until the journal is read up to `as_of_ms` (by this process's clock), but
    no longer than a second.
    """
    wanted = frozenset(producer_ids)
    until = time.monotonic() + _CATCH_UP_S
    while True:
        snapshot = observations.of(cluster)
        if snapshot.transaction_journal.phase is not ReadingPhase.LIVE:
            return None
        found = await asyncio.to_thread(_matching, snapshot.transactions, wanted)
        is_new_enough = len(found) == len(wanted) or snapshot.transaction_journal.as_of_ms >= as_of_ms
        if is_new_enough or time.monotonic() > until:
            return found
        await observations.newer(cluster, than=snapshot.number, timeout_s=_LOOK_AGAIN_S)


async def ids_of_producers(
    observations: Observations,
    *,
    cluster: str,
    producer_ids: Collection[int],
    as_of_ms: int,
    otherwise: Callable[[Collection[int]], Awaitable[TransactionalIds]],
) -> TransactionalIds:
    """Do as `transactional_ids_of`; where the journal is not followed live, ask the brokers by `otherwise`."""
    followed = await transactional_ids_of(observations, cluster=cluster, producer_ids=producer_ids, as_of_ms=as_of_ms)
    return await otherwise(producer_ids) if followed is None else TransactionalIds(followed)


def _matching(transactions: Mapping[str, LiveTransaction], wanted: frozenset[int]) -> dict[int, str]:
    found: dict[int, str] = {}
    for name, live in transactions.items():
        state = live.state
        for producer_id in wanted & {state.producer_id, state.previous_producer_id, state.next_producer_id}:
            found[producer_id] = name
    # A search in every id's history takes several times as long.
    if missing := wanted - found.keys():
        for name, live in transactions.items():
            for producer_id in missing.intersection(step.producer_id for step in live.steps):
                found[producer_id] = name
    return found
