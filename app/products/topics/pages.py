"""The pages of topics: the list of a cluster, one topic, and its records."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from app.core.access.signed_in import Viewer
from app.core.clusters.topic import SETTINGS
from app.core.journals.content_view import ContentView, shown_content
from app.core.journals.log_look import Landmark, parse_start
from app.core.wiring import Wiring, WiringDep
from app.kit.access import Principal, Verb, require
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.errors import FencelineError, ForbiddenError, InvalidError, NotFoundError
from app.kit.page import MAX_LIMIT
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.form_errors import by_field, problems_of
from app.kit.web.pages.paging import AfterName, links_of
from app.kit.web.pages.screen import Look, Screen
from app.kit.words import moment
from app.products.topics import web_looks
from app.products.topics.record_filter import STATES, filter_of
from app.products.topics.service.records import DOWNLOAD_RECORDS, RecordPage, RecordQuery
from app.products.topics.topic_list import TopicQuery, TopicSort

router = APIRouter(route_class=PageRoute, include_in_schema=False)
PAGE_SIZE = 50
LIMITS = (20, 50, 200, MAX_LIMIT)
_SORTS = ((TopicSort.NAME, "name"), (TopicSort.PARTITIONS, "most partitions"))
_STATES = (("", "any"), *((state.value, "not known yet" if state == "unknown" else state.value) for state in STATES))
_VIEWS = ((ContentView.AUTO, "JSON, text or hex"), (ContentView.TEXT, "text"), (ContentView.HEX, "hex"))
_FIELDS = ("partition", "from", "key", "value", "header", "state")


class TopicSelection:
    """The input of the list's form."""

    def __init__(
        self,
        name: str,
        search: Annotated[str, Query(max_length=249)] = "",
        sort: TopicSort = TopicSort.NAME,
        after: AfterName = None,
        *,
        internal: bool = False,
    ) -> None:
        self.cluster = name
        self.search = search.strip()
        self.sort = sort
        self.internal = internal
        self.after = after

    def url(self, *, after: str | None = None, internal: bool | None = None) -> str:
        with_internal = self.internal if internal is None else internal
        return screen.url_of(
            "clusters",
            self.cluster,
            "topics",
            search=self.search or None,
            sort=None if self.sort is TopicSort.NAME else self.sort.value,
            internal="true" if with_internal else None,
            after=after,
        )


def looking_at_list(wiring: Wiring, wanted: TopicSelection) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        # The view's own unit of work would keep its connection while brokers are asked.
        del uow, principal, now
        context: dict[str, Any] = {
            "cluster": wanted.cluster,
            "wanted": wanted,
            "sorts": _SORTS,
            "found": None,
            "pages": None,
            "error": None,
            "internal_url": wanted.url(internal=True),
        }
        status = 200
        query = TopicQuery(search=wanted.search, with_internal=wanted.internal, sort=wanted.sort)
        try:
            found = await web_looks.list_topics(
                wiring, cluster=wanted.cluster, query=query, after=wanted.after, limit=PAGE_SIZE
            )
            context |= {"found": found, "pages": links_of(found.next_cursor, wanted.url, after=wanted.after)}
        except NotFoundError:
            raise
        except FencelineError as error:
            context["error"], status = error, error.status
        return Screen(template="topics/list", title=f"Topics of {wanted.cluster}", context=context, status=status)

    return look


def looking_at_one(wiring: Wiring, cluster: str, topic: str) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del uow, principal, now
        context: dict[str, Any] = {"cluster": cluster, "topic": topic, "found": None, "error": None}
        context |= {"settings": SETTINGS, "moment": moment}
        status = 200
        try:
            context["found"] = await web_looks.get_topic(wiring, cluster=cluster, topic=topic)
        except NotFoundError:
            raise
        except FencelineError as error:
            context["error"], status = error, error.status
        return Screen(template="topics/detail", title=topic, context=context, status=status)

    return look


class RecordForm:
    """The input of the page of records, as it was typed."""

    def __init__(
        self,
        name: str,
        topic: str,
        partition: Annotated[str, Query(max_length=20)] = "",
        start: Annotated[str, Query(alias="from", max_length=80)] = Landmark.END.value,
        key: Annotated[str, Query(max_length=1000)] = "",
        value: Annotated[str, Query(max_length=1000)] = "",
        header: Annotated[str, Query(max_length=1000)] = "",
        state: Annotated[str, Query(max_length=20)] = "",
        limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = PAGE_SIZE,
        view: ContentView = ContentView.AUTO,
        after: AfterName = None,
    ) -> None:
        self.cluster = name
        self.topic = topic
        self.partition = partition.strip()
        self.start = start.strip()
        self.key = key
        self.value = value
        self.header = header
        self.state = state
        self.limit = limit
        self.view = view
        self.after = after

    @property
    def is_filtered(self) -> bool:
        return bool(self.key or self.value or self.header or self.state)

    def query(self, now: datetime) -> RecordQuery:
        """Raises InvalidError with the field."""
        if self.partition and not (
            self.partition.isascii() and self.partition.isdecimal() and len(self.partition) < 10
        ):
            raise InvalidError(f"{self.partition} is no partition's number", field="partition")
        return RecordQuery(
            topic=self.topic,
            partition=int(self.partition) if self.partition else None,
            start=parse_start(self.start, now=now),
            wanted=filter_of(key=self.key, value=self.value, header=self.header, state=self.state),
            limit=self.limit,
            after=self.after,
        )

    def url(self, **changed: str | None) -> str:
        """Return the address of the same query with changes; None leaves a part out."""
        return screen.url_of("clusters", self.cluster, "topics", self.topic, "records", **self._fields(changed))

    def download_url(self) -> str:
        changed: Mapping[str, str | None] = {"limit": str(DOWNLOAD_RECORDS), "view": None}
        path = ("api", "v1", "clusters", self.cluster, "topics", self.topic, "records", "download")
        return screen.url_of(*path, **self._fields(changed))

    def _fields(self, changed: Mapping[str, str | None]) -> dict[str, str | None]:
        given = {
            "partition": self.partition or None,
            "from": self.start,
            "key": self.key or None,
            "value": self.value or None,
            "header": self.header or None,
            "state": self.state or None,
            "limit": str(self.limit),
            "view": None if self.view is ContentView.AUTO else self.view.value,
            "after": self.after,
        }
        return {**given, **changed}


FormDep = Annotated[RecordForm, Depends()]


def looking_at_records(wiring: Wiring, form: RecordForm) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del uow
        require(principal, Verb.READ_RECORDS)
        context: dict[str, Any] = {
            "cluster": form.cluster,
            "topic": form.topic,
            "form": form,
            "states": _STATES,
            "views": _VIEWS,
            "limits": [(number, number) for number in sorted({*LIMITS, form.limit})],
            "found": None,
            "problems": {},
            "moment": moment,
            "shown": partial(shown_content, view=form.view),
        }
        status = 200
        try:
            found = await web_looks.browse(principal, wiring, cluster=form.cluster, query=form.query(now))
            context |= {"found": found, **_links(form, found)}
        except (ForbiddenError, NotFoundError):
            raise
        except FencelineError as error:
            # The form stays, to correct its fields.
            context["problems"], status = by_field(problems_of(error), fields=_FIELDS), error.status
        return Screen(template="topics/records", title=f"Records of {form.topic}", context=context, status=status)

    return look


def _links(form: RecordForm, found: RecordPage) -> Mapping[str, Any]:
    """Return the addresses of the neighbouring pages. Only one partition has an earlier page: by its offsets."""
    earlier = None
    if form.partition and len(found.ranges) == 1:
        (one,) = found.ranges
        first = found.records[0].offset if found.records else one.first
        if first > one.bounds.first_offset and not form.is_filtered:
            earlier = form.url(**{"from": str(max(one.bounds.first_offset, first - form.limit)), "after": None})
    return {
        "earlier": earlier,
        "later": form.url(after=found.next_cursor),
        "download": form.download_url(),
    }


@router.get("/clusters/{name}/topics")
async def show_list(
    request: Request, wiring: WiringDep, by: Viewer, wanted: Annotated[TopicSelection, Depends()]
) -> Response:
    return await screen.page(request, wiring, by, looking_at_list(wiring, wanted), is_live=False)


@router.get("/clusters/{name}/topics/{topic}")
async def show(request: Request, wiring: WiringDep, by: Viewer, name: str, topic: str) -> Response:
    return await screen.page(request, wiring, by, looking_at_one(wiring, name, topic), is_live=False)


@router.get("/clusters/{name}/topics/{topic}/records")
async def show_records(request: Request, wiring: WiringDep, by: Viewer, form: FormDep) -> Response:
    """Not refreshed: each view is a row of the command log."""
    return await screen.page(request, wiring, by, looking_at_records(wiring, form), is_live=False)
