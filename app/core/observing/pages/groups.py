"""The pages of groups: the list of a cluster, and one group with generations, members, stored and pending offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from app.core.access.signed_in import Viewer
from app.core.clusters import service as clusters
from app.core.clusters.cluster import Cluster as RegisteredCluster
from app.core.clusters.partition import Partition
from app.core.double_processing.overlap import overlaps_of
from app.core.fencing.fencing_event import FencingKind
from app.core.fencing.record import kept_id
from app.core.fencing.service.feed import FencingLine, GroupFencings
from app.core.journals.live_groups import CommittedOffset, GroupKind, GroupState, LiveGroup
from app.core.journals.query_marker import marker_of
from app.core.lag.book import positions_of
from app.core.lag.movement import LagState
from app.core.lag.report import LagReport
from app.core.lag.service import MOST_LIVE, LiveEnds
from app.core.lag.wording import sampling_of
from app.core.observing.group_list import GroupQuery, GroupSort, members_of
from app.core.observing.pages.lag import lag_of, lag_row
from app.core.observing.pages.listing import ListSelection
from app.core.observing.pages.markers import fencing_markers, rebalance_markers
from app.core.observing.pages.reading import reading_of
from app.core.observing.pages.tracks import epochs_of, generations_of, mark_of
from app.core.observing.service import groups
from app.core.observing.service.observations import notice_of
from app.core.observing.snapshot import Snapshot
from app.core.wiring import Wiring, WiringDep
from app.kit.access import Principal
from app.kit.chart_range import ChartRange, window_of
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import NotFoundError
from app.kit.web.pages import screen
from app.kit.web.pages.charts import ChosenRange, page_charts
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.paging import AfterName
from app.kit.web.pages.screen import Look, Screen, url_of
from app.kit.web.pages.shared_looks import OBSERVED
from app.kit.web.pages.timeline import Point, Timeline, timeline_of
from app.kit.words import moment

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Cluster = Annotated[str, Query(max_length=100)]
Name = Annotated[str, Query(alias="name", max_length=32_767)]
PAGE_SIZE = 50

_STATES = (("", "any"), *((state.value, state.value) for state in GroupState))
_KIND_WORDS = {
    GroupKind.CLASSIC: "classic",
    GroupKind.CONSUMER: "consumer (KIP-848)",
    GroupKind.STREAMS: "Streams (KIP-1071)",
    GroupKind.SHARE: "share (KIP-932)",
    GroupKind.OFFSETS_ONLY: "stores offsets only",
    GroupKind.OTHER: "another type",
}
_KINDS = (("", "any"), *((kind.value, words) for kind, words in _KIND_WORDS.items()))
_PENDING = (("", "any"), ("yes", "pending"), ("no", "none pending"))
_LAGS = (("", "any"), *((state.value, state.value) for state in LagState))
_SORTS = (
    (GroupSort.NAME.value, "by name"),
    (GroupSort.LAG_STATE.value, "worst state first"),
    (GroupSort.LAG.value, "most lag first"),
    (GroupSort.LAG_TIME.value, "longest lag first"),
)


class GroupSelection(ListSelection):
    path = ("groups",)
    fields = ("state", "kind", "pending", "lag", "sort")

    def __init__(
        self,
        cluster: Cluster = "",
        search: Annotated[str, Query(max_length=1000)] = "",
        state: Annotated[str, Query(pattern="|".join(f"^{value}$" for value, _ in _STATES))] = "",
        kind: Annotated[str, Query(pattern="|".join(f"^{value}$" for value, _ in _KINDS))] = "",
        pending: Annotated[str, Query(pattern=r"^(yes|no)?$")] = "",
        lag: Annotated[str, Query(pattern="|".join(f"^{value}$" for value, _ in _LAGS))] = "",
        sort: GroupSort = GroupSort.NAME,
        after: AfterName = None,
    ) -> None:
        super().__init__(cluster, search, after)
        self.state = state
        self.kind = kind
        self.pending = pending
        self.lag = lag
        self.sort = sort

    def sorted_by(self, cluster: str, sort: str) -> str:
        """Return the address of the first page of the same list in another order."""
        chosen = {name: getattr(self, name) or None for name in ("search", *self.fields)}
        return url_of(*self.path, cluster=cluster, **(chosen | {"sort": sort}))

    def query(self) -> GroupQuery:
        return GroupQuery(
            search=self.search,
            states=frozenset({GroupState(self.state)}) if self.state else frozenset(),
            kinds=frozenset({GroupKind(self.kind)}) if self.kind else frozenset(),
            has_pending=None if not self.pending else self.pending == "yes",
            lag_states=frozenset({LagState(self.lag)}) if self.lag else frozenset(),
            sort=self.sort,
        )


WantedDep = Annotated[GroupSelection, Depends()]


def looking_at_list(wiring: Wiring, wanted: GroupSelection) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal
        choices = {"state": _STATES, "kind": _KINDS, "pending": _PENDING, "lag": _LAGS, "sort": _SORTS}
        context = await wanted.form(uow, choices)
        cluster = context["cluster"]
        shown = Screen(template="groups/list", title="Groups", context=context, concerns=frozenset())
        if not cluster:
            return shown
        snapshot = wiring.observations.of(cluster)
        found = await groups.list_groups(
            uow,
            wiring.observations,
            wiring.lags,
            cluster=cluster,
            query=wanted.query(),
            after=wanted.after,
            limit=PAGE_SIZE,
        )
        now_ms = int(now.timestamp() * 1000)
        context |= {
            **wanted.page(cluster, found, [_listed(group, found.lag) for group in found.items]),
            "sorts": {sort.value: wanted.sorted_by(cluster, sort.value) for sort in GroupSort},
            "sampling": sampling_of(found.lag, now_ms=now_ms) if found.items else "",
            "reading": reading_of(snapshot, snapshot.group_journal, now=now),
        }
        return replace(shown, concerns=frozenset({notice_of(cluster)}), rhythm=OBSERVED)

    return look


def _listed(group: LiveGroup, report: LagReport) -> Mapping[str, Any]:
    total = report.groups.get(group.group)
    return {**row_of(group), "lag": None if total is None else lag_row(total)}


def row_of(group: LiveGroup) -> Mapping[str, Any]:
    """Return the values for tables and headings."""
    return {
        "group": group.group,
        "kind": _KIND_WORDS[group.kind],
        "state": group.state,
        "has_epoch": group.has_epoch,
        "generation": None if group.generation < 0 else group.generation,
        "members": group.member_count,
        "stored": len(group.offsets),
        "pending": len(group.pending),
        "rebalanced_at": moment(group.rebalances[-1].at_ms) if group.rebalances else None,
    }


def looking_at_one(
    wiring: Wiring, cluster: str, name: str, *, is_each: bool = False, chosen: ChartRange = ChartRange.DAY
) -> Look:
    fencings = GroupFencings(cluster=cluster, group=name)

    async def ask_ends(entry: RegisteredCluster, group: LiveGroup) -> Mapping[Partition, LiveEnds]:
        # No view waits for brokers: it has the newest answers, and requests the next ones.
        return wiring.held_back.ends_of(wiring.brokers, entry, sorted(positions_of(group))[:MOST_LIVE])

    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal
        await clusters.get_cluster(uow, cluster)
        snapshot = wiring.observations.of(cluster)
        context: dict[str, Any] = {
            "cluster": cluster,
            "name": name,
            "reading": reading_of(snapshot, snapshot.group_journal, now=now),
            "lag": None,
            "sampling": "",
        }
        shown = Screen(
            template="groups/detail",
            title=name or "(an empty name)",
            context=context,
            concerns=frozenset({notice_of(cluster)}),
            rhythm=OBSERVED,
        )
        try:
            found = await groups.get_group(
                uow, wiring.observations, wiring.lags, cluster=cluster, group=name, ask_ends=ask_ends, now=now
            )
        except NotFoundError as error:
            # It may appear: the page stays and is refreshed.
            return replace(shown, status=404, context=context | {"row": None, "why_not": error.message})
        group, ids = found.group, tuple(sorted(set(found.transactional_ids.values())))
        fenced = await fencings.newest(uow, transactional_ids=ids, now=now)
        report = wiring.lags.report_of(cluster)
        window = window_of(chosen, now=now)
        markers = [*rebalance_markers(group, cluster=cluster), *fencing_markers(fenced)]
        context |= {
            "row": row_of(group),
            "lag": None if found.lag is None else lag_of(found.lag, is_each=is_each, window=window, markers=markers),
            "charts": page_charts(
                window,
                lambda span: url_of(
                    "groups", "group", cluster=cluster, name=name, partitions="each" if is_each else None, range=span
                ),
                markers=markers,
                kept_since=None if found.lag is None or not found.lag.history else moment(found.lag.history[0].at_ms),
            ),
            "sampling": sampling_of(report, now_ms=int(now.timestamp() * 1000)),
            "not_decoded": group.not_decoded,
            "protocol": None if group.classic is None else group.classic.protocol,
            "leader": None if group.classic is None else group.classic.leader,
            "members": members_of(group),
            "offsets": (offsets := offset_rows(group, found.transactional_ids)),
            "is_query": any(one["marker"] is not None for one in offsets),
            "rebalances": [
                {"number": one.number, "members": one.members, "at": moment(one.at_ms)}
                for one in reversed(group.rebalances)
            ],
            "offsets_aborted": group.offsets_aborted,
            "is_from_journal": group.is_from_journal,
            "overlaps": overlaps_of(group, found.transactional_ids),
            "overlap_counts": group.watch.counts,
            "fencings": fenced,
            "timeline": _timeline(group, ids, fenced, snapshot, now=now),
        }
        return shown

    return look


def _timeline(
    group: LiveGroup, ids: Sequence[str], fenced: Sequence[FencingLine], snapshot: Snapshot, *, now: datetime
) -> Timeline | None:
    """Return the group's generations, and the epochs of the ids that store its offsets.

    A fencing is marked on the victim's lane; a lost membership, and a victim without a lane, on the group's.
    """
    drawn = [snapshot.transactions[name] for name in ids if name in snapshot.transactions]
    of_group: list[Point] = []
    of_ids: dict[str, list[Point]] = {kept_id(one.transactional_id): [] for one in drawn}
    for line in fenced:
        key = line.record.event.key
        of_one = None if key.kind is FencingKind.MEMBERSHIP else of_ids.get(key.transactional_id)
        (of_group if of_one is None else of_one).append(mark_of(line.record))
    tracks = [
        generations_of(group, cluster=snapshot.cluster, marks=of_group),
        *(epochs_of(one, cluster=snapshot.cluster, marks=of_ids[kept_id(one.transactional_id)]) for one in drawn),
    ]
    return timeline_of("Rebalances of this group, and epochs of the ids that store its offsets", tracks, now=now)


def offset_rows(group: LiveGroup, transactional_ids: Mapping[int, str]) -> list[Mapping[str, Any]]:
    """By partition; pending offsets are below stored ones."""

    def row(topic: str, partition: int, found: CommittedOffset, *, is_pending: bool) -> Mapping[str, Any]:
        return {
            "topic": topic,
            "partition": partition,
            "offset": None if found.commit.offset < 0 else found.commit.offset,
            "is_pending": is_pending,
            "marker": marker_of(found.commit.offset, found.commit.metadata),
            "at": moment(found.commit.commit_ms),
            "producer": None if found.producer_id < 0 else f"{found.producer_id}:{found.producer_epoch}",
            "producer_id": found.producer_id,
            "transactional_id": transactional_ids.get(found.producer_id),
        }

    rows = [row(*at, found, is_pending=False) for at, found in group.offsets.items()]
    rows += [row(*at[:2], found, is_pending=True) for at, found in group.pending.items()]
    return sorted(rows, key=lambda one: (one["topic"], one["partition"], one["is_pending"], one["producer_id"]))


@router.get("/groups")
@router.get("/groups/stream")
async def show_list(request: Request, wiring: WiringDep, by: Viewer, wanted: WantedDep) -> Response:
    return await screen.live(request, wiring, by, looking_at_list(wiring, wanted))


@router.get("/groups/group")
@router.get("/groups/group/stream")
async def show(
    request: Request,
    wiring: WiringDep,
    by: Viewer,
    cluster: Cluster,
    name: Name,
    partitions: Annotated[str, Query(pattern="^(each)?$")] = "",
    chosen: ChosenRange = ChartRange.DAY,
) -> Response:
    """The name is not in the path: Kafka allows slashes in it."""
    look = looking_at_one(wiring, cluster, name, is_each=partitions == "each", chosen=chosen)
    return await screen.live(request, wiring, by, look)
