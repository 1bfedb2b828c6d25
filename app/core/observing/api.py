"""REST: transactions and groups of a cluster, managed and foreign, with the freshness of each answer."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Query

from app.core.access.signed_in import Viewer
from app.core.clusters.store import ClusterStore
from app.core.journals.live_groups import GroupKind, GroupState
from app.core.lag.movement import LagState
from app.core.lag.service import ask_live
from app.core.observing.group_list import GroupQuery, GroupSort
from app.core.observing.schemas.groups import Group, GroupDetail, GroupList
from app.core.observing.schemas.lag import LagSampling
from app.core.observing.schemas.reading import JournalReading, ObserverReading
from app.core.observing.schemas.transactions import (
    StateWord,
    Transaction,
    TransactionDetail,
    TransactionList,
    TransactionPace,
)
from app.core.observing.service import groups, transactions
from app.core.observing.transaction_list import IdOwnership, TransactionQuery, TransactionSort
from app.core.wiring import WiringDep
from app.kit.web.api.any_name import ANY_NAME
from app.kit.web.api.documented import refusals
from app.kit.web.api.paging import After, Limit
from app.kit.web.api.words import NameInPath
from app.kit.web.dependencies import Uow

router = APIRouter(prefix="/clusters/{name}", tags=["observing"])

Search = Annotated[str, Query(max_length=1000, description="A part of the name; case is ignored.")]
# Kafka allows every character in both, also slashes, and empty names. Longer ones do not fit into an address.
IdPath = Annotated[str, Path(max_length=4_000)]


@router.get("/observer", responses=refusals(404))
async def get_observer(name: NameInPath, uow: Uow, wiring: WiringDep, _: Viewer) -> ObserverReading:
    """Return the state of this server's reading of the cluster's journals: source, age and completeness."""
    await uow.of(ClusterStore).get(name)
    return ObserverReading.of_snapshot(wiring.observations.of(name), now=wiring.clock.now())


@router.get("/transactions", responses=refusals(404))
async def list_transactions(
    name: NameInPath,
    uow: Uow,
    wiring: WiringDep,
    _: Viewer,
    search: Search = "",
    state: Annotated[list[StateWord], Query(description="Kafka's names; none: all.")] = [],  # noqa: B006 - FastAPI copies it
    is_open: Annotated[bool | None, Query(description="True: it may block read_committed consumers.")] = None,
    min_open_s: Annotated[float, Query(ge=0, le=1e9, description="Open for at least this time.")] = 0,
    owner: IdOwnership | None = None,
    pipeline: Annotated[
        str | None,
        Query(max_length=100, description="Only its tasks' ids; `owner` is ignored then."),
    ] = None,
    sort: TransactionSort = TransactionSort.OLDEST,
    after: After = None,
    limit: Limit = 50,
) -> TransactionList:
    """List every transactional id of the cluster, of any client."""
    now = wiring.clock.now()
    query = TransactionQuery(
        search=search,
        states=frozenset(state),
        is_open=is_open,
        min_open_ms=int(min_open_s * 1000),
        owner=owner,
        sort=sort,
    )
    page = await transactions.list_transactions(
        uow,
        wiring.observations,
        cluster=name,
        query=query,
        now=now,
        pipeline=pipeline,
        after=after,
        limit=limit,
    )
    return TransactionList(
        items=[Transaction.of_observed(item, now=now) for item in page.items],
        next_cursor=page.next_cursor,
        matching=page.matching,
        reading=JournalReading.of_status(page.journal, now=now),
    )


# Not below /transactions: an id may be called like a command there.
@router.get(f"/transactional-ids/{{transactional_id:{ANY_NAME}}}", responses=refusals(404))
async def get_transaction(
    name: NameInPath, transactional_id: IdPath, uow: Uow, wiring: WiringDep, _: Viewer
) -> TransactionDetail:
    """Return one transactional id, with the steps of its producer id and epoch and its pending offsets."""
    detail = await transactions.get_transaction(
        uow, wiring.observations, cluster=name, transactional_id=transactional_id
    )
    return TransactionDetail.of_detail(detail, now=wiring.clock.now())


@router.get("/transaction-pace", responses=refusals(404))
async def get_transaction_pace(name: NameInPath, uow: Uow, wiring: WiringDep, _: Viewer) -> TransactionPace:
    """Return, for each second, the number of open transactions, the age of the oldest, commits and aborts."""
    now = wiring.clock.now()
    return TransactionPace.of_pace(
        await transactions.get_pace(uow, wiring.observations, cluster=name, now=now), now=now
    )


@router.get("/groups", responses=refusals(404))
async def list_groups(
    name: NameInPath,
    uow: Uow,
    wiring: WiringDep,
    _: Viewer,
    search: Search = "",
    state: Annotated[list[GroupState], Query(description="Kafka's names; none: all.")] = [],  # noqa: B006 - as above
    kind: Annotated[list[GroupKind], Query()] = [],  # noqa: B006 - as above
    has_pending: Annotated[bool | None, Query(description="True: an open transaction has offsets of it.")] = None,
    lag_state: Annotated[list[LagState], Query(description="None: all.")] = [],  # noqa: B006 - as above
    sort: GroupSort = GroupSort.NAME,
    after: After = None,
    limit: Limit = 50,
) -> GroupList:
    """List every group of the cluster, of any client, with its lag."""
    query = GroupQuery(
        search=search,
        states=frozenset(state),
        kinds=frozenset(kind),
        has_pending=has_pending,
        lag_states=frozenset(lag_state),
        sort=sort,
    )
    page = await groups.list_groups(
        uow, wiring.observations, wiring.lags, cluster=name, query=query, after=after, limit=limit
    )
    return GroupList(
        items=[Group.of_live(item, page.lag.groups.get(item.group)) for item in page.items],
        lag_sampling=LagSampling.of_report(page.lag),
        next_cursor=page.next_cursor,
        matching=page.matching,
        reading=JournalReading.of_status(page.journal, now=wiring.clock.now()),
    )


@router.get(f"/groups/{{group:{ANY_NAME}}}", responses=refusals(404))
async def get_group(name: NameInPath, group: IdPath, uow: Uow, wiring: WiringDep, _: Viewer) -> GroupDetail:
    """Return one group: lag, members with assignment and target, stored and pending offsets, its newest rebalances."""
    detail = await groups.get_group(
        uow,
        wiring.observations,
        wiring.lags,
        cluster=name,
        group=group,
        ask_ends=partial(ask_live, wiring.brokers),
        now=wiring.clock.now(),
    )
    return GroupDetail.of_detail(detail, now=wiring.clock.now())
