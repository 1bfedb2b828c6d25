"""A look into a partition's log on behalf of somebody: the same for the page and for REST."""

from __future__ import annotations

from collections.abc import Collection

from app.domain.access import Principal, Verb, require
from app.domain.partition_log.look import Landmark
from app.ports.brokers import TransactionalIds
from app.services.defining.clusters import get_cluster
from app.services.observing.transactional_ids import transactional_ids_of
from app.services.partition_log import PartitionLog, look_into_log, note_look_at_records
from app.web.dependencies import Wiring


async def look_for(
    by: Principal,
    wiring: Wiring,
    *,
    cluster: str,
    topic: str,
    partition: int,
    start: int | Landmark,
    limit: int,
    keys: bool,
    values: bool,
) -> PartitionLog:
    """The look; one that shows keys or values leaves a line in the command log.

    No connection to the database is held while the brokers are asked: those may be long in answering.

    Raises ForbiddenError where the role does not allow to see records, NotFoundError, InvalidError for an offset that
    the log does not have, UnavailableError.
    """
    shows_records = keys or values
    if shows_records:
        require(by, Verb.READ_RECORDS)
    async with wiring.unit_of_work() as uow:
        connection = (await get_cluster(uow, cluster)).connection()

    async def ask_ids(producer_ids: Collection[int]) -> TransactionalIds:
        now_ms = int(wiring.clock.now().timestamp() * 1000)
        followed = await transactional_ids_of(
            wiring.observations, cluster=cluster, producer_ids=producer_ids, as_of_ms=now_ms
        )
        if followed is not None:
            return TransactionalIds(followed)
        return await wiring.brokers.read_transactional_ids(connection, producer_ids)

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
