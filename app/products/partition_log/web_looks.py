"""Read a partition's log for a user of the page or of REST."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from app.core.clusters.brokers import TransactionalIds
from app.core.clusters.service import get_cluster
from app.core.journals.log_look import LogStart
from app.core.observing.service.transactional_ids import ids_of_producers
from app.core.wiring import Wiring
from app.kit.access import Principal, Verb, require
from app.products.partition_log.service import PartitionLog, look_into_log
from app.products.partition_log.shown_records import note_look_at_records


class AskedIds:
    """The transactional ids that a page has found, so that its refreshes ask the brokers once for each."""

    def __init__(self) -> None:
        self._asked: set[int] = set()
        self._told = TransactionalIds({})

    async def of(
        self, producer_ids: Collection[int], ask: Callable[[Collection[int]], Awaitable[TransactionalIds]]
    ) -> TransactionalIds:
        wanted = set(producer_ids) - self._asked
        if wanted:
            # Refusals too: an unreadable journal would be requested ten times a second.
            self._asked |= wanted
            told = await ask(wanted)
            self._told = TransactionalIds({**self._told.ids, **told.ids}, told.note or self._told.note)
        return self._told


async def look_for(
    by: Principal,
    wiring: Wiring,
    *,
    cluster: str,
    topic: str,
    partition: int,
    start: LogStart,
    limit: int,
    keys: bool,
    values: bool,
    asked: AskedIds | None = None,
) -> PartitionLog:
    """Read the log; a request for keys or values is recorded in the command log.

    asked: of a page that refreshes: its next refresh has ids that are too new to be known yet.

    No database connection is held while the brokers are asked, as they may be slow.

    Raises ForbiddenError if the role may not see records, NotFoundError, InvalidError for an offset outside of the log,
    UnavailableError.
    """
    shows_records = keys or values
    if shows_records:
        require(by, Verb.READ_RECORDS)
    async with wiring.unit_of_work() as uow:
        connection = (await get_cluster(uow, cluster)).connection()

    async def ask_brokers(producer_ids: Collection[int]) -> TransactionalIds:
        if asked is not None:
            return await asked.of(producer_ids, lambda ids: wiring.brokers.read_transactional_ids(connection, ids))
        return await wiring.brokers.read_transactional_ids(connection, producer_ids)

    async def ask_ids(producer_ids: Collection[int]) -> TransactionalIds:
        return await ids_of_producers(
            wiring.observations,
            cluster=cluster,
            producer_ids=producer_ids,
            as_of_ms=int(wiring.clock.now().timestamp() * 1000) if asked is None else 0,
            otherwise=ask_brokers,
        )

    found = await look_into_log(
        wiring.brokers,
        connection,
        ask_ids=ask_ids,
        topic=topic,
        partition=partition,
        start=start,
        limit=limit,
        keys=keys,
        values=values,
    )
    if shows_records:
        async with wiring.unit_of_work() as uow:
            await note_look_at_records(
                uow, found, cluster=cluster, keys=keys, values=values, by=by, now=wiring.clock.now()
            )
            await uow.commit()
    return found
