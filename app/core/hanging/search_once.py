"""One search for hanging transactions by the brokers alone: it needs no server and no database."""

from __future__ import annotations

from app.core.blocked.brokers import TransactionBrokers
from app.core.clusters.brokers import Connection
from app.core.hanging.report import SearchReport
from app.core.hanging.search import PartitionSearch

_LOOK_WITHIN_S = 30.0


async def search_once(brokers: TransactionBrokers, connection: Connection, *, now_ms: int, limit: int) -> SearchReport:
    """Search a cluster without a running search: check the first `limit` of its blocked partitions.

    Transactions of any age are checked: one that ends during the check is excluded (docs/adr/0017).
    """
    held = await brokers.held_back(connection)
    chosen = sorted(held.ends)[:limit]
    search = PartitionSearch("", asks_per_s=limit)
    search.note_ends({at: held.ends[at] for at in chosen}, now_ms=now_ms)
    if chosen:
        looked = await brokers.look_at_partitions(connection, chosen, with_waiting=False, timeout_s=_LOOK_WITHIN_S)
        for facts in looked:
            search.note_look(facts, now_ms=now_ms)
    more = len(held.ends) - len(chosen)
    left_out = (f"{more:,} more partitions are blocked and were not checked",) if more else ()
    return SearchReport(
        cluster=connection["bootstrap.servers"],
        swept_ms=now_ms,
        partitions=held.asked,
        held_back=len(held.ends),
        asked=len(chosen),
        silent=(*held.silent, *left_out),
        unclear=search.unclear,
        unclear_count=len(search.unclear),
        hanging=search.found,
    )
