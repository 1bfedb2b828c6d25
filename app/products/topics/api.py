"""REST: the topics of a cluster, and their records."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Path, Query
from fastapi.responses import StreamingResponse

from app.core.access.signed_in import Viewer
from app.core.journals.log_entries import EntryState
from app.core.journals.log_look import Landmark, parse_start
from app.core.wiring import WiringDep
from app.kit.web.api.documented import refusals
from app.kit.web.api.paging import After, Limit
from app.kit.web.api.shown import Shown
from app.kit.web.api.words import NameInPath
from app.products.topics import web_looks
from app.products.topics.record_filter import LONGEST_FILTER, filter_of
from app.products.topics.service.records import DOWNLOAD_RECORDS, RecordPage, RecordQuery
from app.products.topics.service.topics import TopicDetail, TopicPage
from app.products.topics.topic_list import TopicQuery, TopicSort

router = APIRouter(prefix="/clusters/{name}/topics", tags=["topics"])

TopicInPath = Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,249}$")]


class RecordSelection:
    """The part of a query that pages and downloads have in common."""

    def __init__(
        self,
        topic: TopicInPath,
        partition: Annotated[int | None, Query(ge=0, lt=2**31, description="Without it, all of them.")] = None,
        start: Annotated[
            str,
            Query(
                alias="from",
                max_length=40,
                description="An offset (of one partition), `start`, `lso` (the last stable offset), `end` (the last "
                "matching records), or a time with its zone.",
            ),
        ] = Landmark.END.value,
        key: Annotated[
            str,
            Query(
                max_length=LONGEST_FILTER,
                description="A part of the key; `field = value` for a field of JSON; in double quotes always a part.",
            ),
        ] = "",
        value: Annotated[str, Query(max_length=LONGEST_FILTER, description="As `key`, for the value.")] = "",
        header: Annotated[
            str,
            Query(max_length=LONGEST_FILTER, description="`name = value`, or a part of a header's name or value."),
        ] = "",
        state: Annotated[EntryState | None, Query(description="Only records of this outcome.")] = None,
        after: After = None,
    ) -> None:
        self._query = RecordQuery(
            topic=topic,
            partition=partition,
            start=parse_start(start),
            wanted=filter_of(key=key, value=value, header=header, state=state or ""),
            after=after,
        )

    def query(self, limit: int) -> RecordQuery:
        return msgspec.structs.replace(self._query, limit=limit)


SelectionDep = Annotated[RecordSelection, Depends()]


@router.get("", responses=refusals(404))
async def list_topics(
    name: NameInPath,
    wiring: WiringDep,
    _: Viewer,
    search: Annotated[str, Query(max_length=249, description="A part of the name; case is ignored.")] = "",
    *,
    internal: Annotated[bool, Query(description="Include topics of the brokers themselves.")] = False,
    sort: TopicSort = TopicSort.NAME,
    after: After = None,
    limit: Limit = 50,
) -> Shown[TopicPage]:
    """List topics with settings, sizes, readers and writers. The list itself is at most 10 s old."""
    query = TopicQuery(search=search, with_internal=internal, sort=sort)
    return await web_looks.list_topics(wiring, cluster=name, query=query, after=after, limit=limit)


@router.get("/{topic}", responses=refusals(404))
async def get_topic(name: NameInPath, topic: TopicInPath, wiring: WiringDep, _: Viewer) -> Shown[TopicDetail]:
    """Return one topic with its partitions: leaders, in-sync replicas, offsets, sizes."""
    return await web_looks.get_topic(wiring, cluster=name, topic=topic)


@router.get("/{topic}/records", responses=refusals(404))
async def list_records(
    name: NameInPath, selection: SelectionDep, wiring: WiringDep, by: Viewer, limit: Limit = 50
) -> Shown[RecordPage]:
    """Return records with their outcomes, of at most 50,000 that are read; for operators.

    Each request is recorded in the command log.
    """
    return await web_looks.browse(by, wiring, cluster=name, query=selection.query(limit))


@router.get(
    "/{topic}/records/download",
    responses=refusals(404) | {200: {"content": {"application/jsonl": {"schema": {"type": "string"}}}}},
    response_class=StreamingResponse,
)
async def download_records(
    name: NameInPath,
    selection: SelectionDep,
    wiring: WiringDep,
    by: Viewer,
    limit: Annotated[int, Query(ge=1, le=DOWNLOAD_RECORDS, description="The most records.")] = 1_000,
) -> StreamingResponse:
    """Download records with whole contents as JSON lines, at most 32 MB; for operators.

    A last line with `is_incomplete` has the reason and the cursor if there are more. Each request is recorded in the
    command log.
    """
    query = selection.query(limit)
    lines = await web_looks.download(by, wiring, cluster=name, query=query)
    named = {"Content-Disposition": f'attachment; filename="{query.topic}.jsonl"'}
    return StreamingResponse(lines, media_type="application/jsonl", headers=named)
