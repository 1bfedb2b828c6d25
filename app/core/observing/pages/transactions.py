"""The pages of transactions: the transactional ids of a cluster, and one id with its history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from app.core.access.signed_in import Viewer
from app.core.clusters import service as clusters
from app.core.hanging.pending import pending_holds
from app.core.hanging.report import HangingLine
from app.core.journals.live_transactions import LiveTransaction
from app.core.journals.transaction_state import TransactionStatus
from app.core.observing.pages.charts import age_chart_of, open_chart_of, pace_chart_of
from app.core.observing.pages.listing import ListSelection
from app.core.observing.pages.markers import ClusterFencings
from app.core.observing.pages.reading import reading_of
from app.core.observing.pages.tracks import epochs_of, fencing_url, generations_of
from app.core.observing.service import transactions
from app.core.observing.service.observations import notice_of
from app.core.observing.service.past import IdPast, PastEvent, Storyteller
from app.core.observing.service.transactions import ObservedTransaction
from app.core.observing.snapshot import Snapshot
from app.core.observing.transaction_list import IdOwnership, TransactionQuery, TransactionSort
from app.core.overview.service import LIST_LIMIT
from app.core.pipelines.store import PipelineStore
from app.core.wiring import Wiring, WiringDep
from app.kit.access import Principal
from app.kit.chart_range import ChartRange, window_of
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import NotFoundError
from app.kit.web.pages import screen
from app.kit.web.pages.charts import ChosenRange, page_charts
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.paging import AfterName
from app.kit.web.pages.screen import Look, Screen
from app.kit.web.pages.shared_looks import OBSERVED
from app.kit.web.pages.timeline import Point, Timeline, Tone, timeline_of
from app.kit.words import moment, words

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Cluster = Annotated[str, Query(max_length=100)]
Id = Annotated[str, Query(alias="id", max_length=32_767)]
PAGE_SIZE = 50

_OPEN = "open"
_STATES = (("", "any"), (_OPEN, "open"), *((status.word, status.word) for status in TransactionStatus))
_OWNERS = (("", "any"), (IdOwnership.OURS, "managed by Fenceline"), (IdOwnership.FOREIGN, "foreign"))
# No pipeline's name has a colon in it.
_OF = "pipeline:"
_AGES = (("", "any time"), ("1", "1 s"), ("10", "10 s"), ("60", "1 min"), ("600", "10 min"))
_SORTS = (
    (TransactionSort.LONG_OPEN, "long open first, then by id"),
    (TransactionSort.OLDEST, "longest open first"),
    (TransactionSort.CHANGED, "changed last first"),
    (TransactionSort.ID, "by id"),
)


class TransactionSelection(ListSelection):
    path = ("transactions",)
    fields = ("state", "min_open_s", "owner", "sort", "range")

    def __init__(
        self,
        cluster: Cluster = "",
        search: Annotated[str, Query(max_length=1000)] = "",
        state: Annotated[str, Query(pattern="|".join(f"^{value}$" for value, _ in _STATES))] = "",
        min_open_s: Annotated[str, Query(pattern=r"^\d{0,9}$")] = "",
        owner: Annotated[str, Query(pattern=rf"^(ours|foreign|{_OF}[A-Za-z0-9_-]{{1,100}})?$")] = "",
        sort: TransactionSort = TransactionSort.LONG_OPEN,
        after: AfterName = None,
        chosen: ChosenRange = ChartRange.QUARTER,
    ) -> None:
        super().__init__(cluster, search, after)
        self.state = state
        self.min_open_s = min_open_s
        self.owner = owner
        self.sort = sort
        self.chosen = chosen

    @property
    def range(self) -> str:
        """The range in addresses; empty for the usual one."""
        return "" if self.chosen is ChartRange.QUARTER else self.chosen.value

    def in_range(self, cluster: str, span: str) -> str:
        """Return the address of this page with another range of its charts."""
        chosen = {name: getattr(self, name) or None for name in ("search", *self.fields)}
        return screen.url_of(*self.path, cluster=cluster, **(chosen | {"range": span}), after=self.after)

    @property
    def pipeline(self) -> str | None:
        return self.owner.removeprefix(_OF) if self.owner.startswith(_OF) else None

    def query(self) -> TransactionQuery:
        return TransactionQuery(
            search=self.search,
            states=frozenset() if self.state in ("", _OPEN) else frozenset({self.state}),
            is_open=True if self.state == _OPEN else None,
            min_open_ms=int(self.min_open_s or 0) * 1000,
            owner=IdOwnership(self.owner) if self.owner and self.pipeline is None else None,
            sort=self.sort,
        )


WantedDep = Annotated[TransactionSelection, Depends()]


def looking_at_list(wiring: Wiring, wanted: TransactionSelection) -> Look:
    choosable: Sequence[tuple[str, str]] = ()
    fencings = ClusterFencings()

    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        nonlocal choosable
        del principal
        # The form is outside of the streamed region, so a stream need not query it again.
        choosable = choosable or await _owners(uow)
        context = await wanted.form(uow, {"state": _STATES, "owner": choosable, "min_open_s": _AGES, "sort": _SORTS})
        cluster = context["cluster"]
        if not cluster:
            return Screen(template="transactions/list", title="Transactions", context=context)
        snapshot = wiring.observations.of(cluster)
        found = await transactions.list_transactions(
            uow,
            wiring.observations,
            cluster=cluster,
            query=wanted.query(),
            now=now,
            pipeline=wanted.pipeline,
            pace_span=wanted.chosen.length,
            after=wanted.after,
            limit=PAGE_SIZE,
        )
        search = wiring.observations.search_of(cluster)
        now_ms = int(now.timestamp() * 1000)
        window = window_of(wanted.chosen, now=now)
        markers = await fencings.since(uow, window.since, cluster=cluster, now=now)
        holds = pending_holds(snapshot, search.hanging, now_ms=now_ms) if search.hanging else ()
        context |= {
            "hangs": [HangingLine(cluster=cluster, transaction=one) for one in search.hanging],
            "blocked": [one for one in holds if one.is_hanging],
            "search_problem": search.warning(now_ms),
            **wanted.page(cluster, found, [row_of(item) for item in found.items]),
            "oldest": found.tally.oldest and row_of(ObservedTransaction(live=found.tally.oldest, owner=None)),
            "reading": reading_of(snapshot, snapshot.transaction_journal, now=now),
            "pace": found.pace[-1] if found.pace else None,
            "charts": page_charts(
                window,
                partial(wanted.in_range, cluster),
                markers=markers,
                kept_since=moment(found.pace[0].second * 1000) if found.pace else None,
            ),
            "open_chart": open_chart_of(found.pace, window, markers),
            "age_chart": age_chart_of(found.pace, window, markers),
            "pace_chart": pace_chart_of(found.pace, window, markers),
        }
        return Screen(
            template="transactions/list",
            title="Transactions",
            context=context,
            concerns=frozenset({notice_of(cluster)}),
            rhythm=OBSERVED,
        )

    return look


async def _owners(uow: UnitOfWork) -> list[tuple[str, str]]:
    """Return the owners to choose from."""
    pipelines = (await uow.of(PipelineStore).list(after=None, limit=LIST_LIMIT)).items
    return [*_OWNERS, *((f"{_OF}{one.name}", f"pipeline {one.name}") for one in pipelines)]


def row_of(item: ObservedTransaction) -> Mapping[str, Any]:
    """Return the values for tables and headings."""
    live, state = item.live, item.live.state
    return {
        "id": live.transactional_id,
        "owner": item.owner,
        "state": state.status.word,
        "is_open": live.is_open,
        "producer_id": state.producer_id,
        "producer_epoch": state.producer_epoch,
        "opened_at": moment(state.start_ms) if live.is_open else None,
        "times_out_at": moment(live.times_out_at_ms),
        "changed_at": moment(state.last_update_ms),
        "partitions": state.partition_names if live.is_open else (),
        "commits": live.commits if live.is_from_journal else None,
        "aborts": live.aborts if live.is_from_journal else None,
    }


def looking_at_one(wiring: Wiring, cluster: str, transactional_id: str) -> Look:
    storyteller = Storyteller()

    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal
        kafka_cluster_id = (await clusters.get_cluster(uow, cluster)).kafka_cluster_id
        context: dict[str, Any] = {"cluster": cluster, "transactional_id": transactional_id}
        snapshot = wiring.observations.of(cluster)
        context["reading"] = reading_of(snapshot, snapshot.transaction_journal, now=now)
        shown = Screen(
            template="transactions/detail",
            title=transactional_id or "(an empty id)",
            context=context,
            concerns=frozenset({notice_of(cluster)}),
            rhythm=OBSERVED,
        )
        try:
            found = await transactions.get_transaction(
                uow, wiring.observations, cluster=cluster, transactional_id=transactional_id
            )
        except NotFoundError as error:
            # It may appear: the page stays and is refreshed.
            return replace(shown, status=404, context=context | {"row": None, "why_not": error.message})
        item = found.transaction
        story = await storyteller.story_of(
            uow, item.live, item.owner, groups=snapshot.groups, kafka_cluster_id=kafka_cluster_id, now=now
        )
        context |= {
            "row": row_of(item),
            "live": item.live,
            "holder": story.holder,
            "pending": found.pending_offsets,
            "past": story.past,
            "timeline": _timeline(story, item.live, snapshot, now=now),
        }
        return shown

    return look


def _timeline(story: IdPast, live: LiveTransaction, snapshot: Snapshot, *, now: datetime) -> Timeline | None:
    """Return the id's epochs and events, and the generations of the groups whose offsets it stores."""
    marks = [_mark_of(event) for event in story.past if not event.is_step]
    served = [snapshot.groups[name] for name in story.groups if name in snapshot.groups]
    tracks = [
        epochs_of(live, cluster=snapshot.cluster, marks=marks),
        *(generations_of(group, cluster=snapshot.cluster) for group in served),
    ]
    return timeline_of("Producers and epochs of this id, and rebalances of the groups that it serves", tracks, now=now)


def _mark_of(event: PastEvent) -> Point:
    title = f"{words(event.what)}: {event.sentence}"
    if event.fencing_id is None:
        return Point(event.at, "", title)
    return Point(event.at, "", title, Tone.BAD, fencing_url(event.fencing_id))


@router.get("/transactions")
@router.get("/transactions/stream")
async def show_list(request: Request, wiring: WiringDep, by: Viewer, wanted: WantedDep) -> Response:
    return await screen.live(request, wiring, by, looking_at_list(wiring, wanted))


@router.get("/transactions/id")
@router.get("/transactions/id/stream")
async def show(request: Request, wiring: WiringDep, by: Viewer, cluster: Cluster, transactional_id: Id) -> Response:
    """The id is not in the path: Kafka allows slashes in it, dots alone, and an empty id."""
    return await screen.live(request, wiring, by, looking_at_one(wiring, cluster, transactional_id))
