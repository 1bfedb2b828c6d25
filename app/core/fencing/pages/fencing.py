"""The pages of fencing events."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from app.core.access.signed_in import Viewer
from app.core.clusters import service as clusters
from app.core.fencing.fencing_event import Confidence, FencingCause
from app.core.fencing.pages.incarnations import drawing_of
from app.core.fencing.record import KEPT_FOR, FencingFilter
from app.core.fencing.runbook import runbook
from app.core.fencing.service import feed as fencing_feed
from app.core.fencing.service.feed import FencingLine
from app.core.fencing.story import story_of
from app.core.observing.service import groups
from app.core.observing.service.observations import Observations
from app.core.observing.snapshot import ReadingPhase
from app.core.wiring import Wiring, WiringDep
from app.kit.access import Principal
from app.kit.db.unit_of_work import UnitOfWork
from app.kit.printable import one_line
from app.kit.storable import moment_of_ms
from app.kit.web.api.words import NO_NUL
from app.kit.web.pages import screen
from app.kit.web.pages.errors import PageRoute
from app.kit.web.pages.paging import links_of
from app.kit.web.pages.screen import Look, Screen
from app.kit.words import words

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Name = Annotated[str, Query(max_length=100, pattern=NO_NUL)]
_PAGE = 50
_AS_IT_SHOULD_BE = (ReadingPhase.LIVE, ReadingPhase.ABSENT)


class Within(StrEnum):
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"


_SPANS = {
    Within.HOUR: timedelta(hours=1),
    Within.DAY: timedelta(days=1),
    Within.WEEK: timedelta(days=7),
    Within.MONTH: KEPT_FOR,
}
_WITHIN_WORDS = {
    Within.HOUR: "last hour",
    Within.DAY: "last 24 hours",
    Within.WEEK: "last 7 days",
    Within.MONTH: f"last {KEPT_FOR.days} days",
}
_CONFIDENCE_WORDS = {
    Confidence.CERTAIN: "the evidence allows no other cause",
    Confidence.LIKELY: "the alternatives are rarer",
    Confidence.OPEN: "the evidence cannot distinguish it from the alternatives",
}


class FencingSelection:
    """The values of the page's form; a value that is not chosen is an empty string there."""

    def __init__(
        self,
        cluster: Name = "",
        pipeline: Name = "",
        transactional_id: Annotated[str, Query(alias="id", max_length=32_767)] = "",
        group: Annotated[str, Query(max_length=32_767)] = "",
        cause: FencingCause | str = "",
        within: Within = Within.DAY,
        after: str | None = None,
    ) -> None:
        self.cluster = cluster or None
        self.pipeline = pipeline.strip() or None
        self.transactional_id = transactional_id or None
        self.group = group or None
        # None for all, and for an unknown cause.
        self.cause = FencingCause(cause) if cause in set(FencingCause) else None
        self.within = within
        self.after = after

    @property
    def is_filtered(self) -> bool:
        return any((self.cluster, self.pipeline, self.transactional_id, self.group, self.cause))

    def query(self) -> dict[str, str | None]:
        """Return the form's values, without the cursor."""
        return {
            "cluster": self.cluster,
            "pipeline": self.pipeline,
            "id": self.transactional_id,
            "group": self.group,
            "cause": self.cause,
            "within": self.within,
        }


WantedDep = Annotated[FencingSelection, Depends()]


def looking_at_list(wiring: Wiring, asked: FencingSelection) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal
        # Events that are no fencing are shown only if the filter names their cause.
        of_group = None
        if asked.group is not None:
            of_group = await groups.losses_of(wiring.observations, cluster=asked.cluster, group=asked.group)
        wanted = FencingFilter(
            pipeline=asked.pipeline,
            transactional_id=asked.transactional_id,
            of_group=of_group,
            cause=asked.cause,
            since=now - _SPANS[asked.within],
            with_what_is_none=asked.cause is not None and not asked.cause.is_fencing,
        )
        found = await fencing_feed.list_lines(uow, wanted, cluster=asked.cluster, after=asked.after, limit=_PAGE)
        counts = await fencing_feed.count_by_cause(uow, wanted, cluster=asked.cluster)
        query = asked.query()
        context = {
            "lines": found.items,
            "counts": counts,
            "total": sum(counts.values()),
            "pages": links_of(found.next_cursor, partial(screen.url_of, "fencing", **query)),
            "unread": _unread(wiring.observations),
            "is_filtered": asked.is_filtered,
            "clusters": [("", "all"), *((one.name, one.name) for one in await clusters.list_clusters(uow))],
            "causes": [("", "all fencing"), *((one, words(one)) for one in FencingCause)],
            "spans": list(_WITHIN_WORDS.items()),
            "span": _WITHIN_WORDS[asked.within],
            "chosen": query,
        }
        return Screen(template="fencing/list", title="Fencing events", context=context, concerns=frozenset())

    return look


def _unread(observations: Observations) -> list[Mapping[str, str]]:
    """Return the clusters whose transaction journal is not read completely, with the problem: events there are not
    detected.
    """
    return [
        {"cluster": one.cluster, "phase": status.phase, "problem": status.problem}
        for one in observations.all()
        if (status := one.transaction_journal).phase not in _AS_IT_SHOULD_BE
    ]


@router.get("/fencing")
@router.get("/fencing/stream")
async def show_list(request: Request, wiring: WiringDep, by: Viewer, wanted: WantedDep) -> Response:
    return await screen.live(request, wiring, by, looking_at_list(wiring, wanted))


def looking_at(event_id: str) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal, now
        line = await fencing_feed.get_line(uow, event_id)
        verdict = line.record.event.verdict
        story = story_of(line.record.event)
        context = {
            "line": line,
            "record": line.record,
            "key": line.record.event.key,
            "place": line.record.place,
            "verdict": verdict,
            "confidence_words": _CONFIDENCE_WORDS[verdict.confidence],
            "story": story,
            "drawing": drawing_of(story),
            "runbook": runbook(verdict.cause),
            "partitions": [_partition(name) for name in line.record.place.partitions],
            "text": as_text(line),
            "moment": moment_of_ms,
        }
        title = f"{words(verdict.cause)} of {line.record.event.key.transactional_id or 'an unknown id'}"
        return Screen(template="fencing/detail", title=title, context=context, concerns=frozenset())

    return look


def _partition(name: str) -> Mapping[str, str]:
    topic, _, number = name.rpartition("-")
    return {"name": name, "topic": topic, "number": number}


def as_text(line: FencingLine) -> str:
    """Format the event for an incident channel: cause, confidence, evidence and next steps. Each row is one line."""
    event = line.record.event
    verdict = event.verdict
    others = ", ".join(words(one) for one in verdict.alternatives)
    doubt = f"; it could also be: {others}" if others else ""
    rows = [
        f"{_moment(verdict.at_ms)} {words(verdict.cause)} on {line.cluster or event.key.kafka_cluster_id}",
        verdict.sentence,
        f"{verdict.confidence}: {_CONFIDENCE_WORDS[verdict.confidence]}{doubt}",
        *(f"  {_moment(one.at_ms)} {one.side}: {one.what} ({one.source})" for one in story_of(event).moments),
        *(f"{number}. {step}" for number, step in enumerate(runbook(verdict.cause), 1)),
    ]
    return "\n".join(map(one_line, rows))


def _moment(at_ms: int) -> str:
    return moment_of_ms(at_ms).isoformat(timespec="milliseconds")


@router.get("/fencing/{event_id}")
@router.get("/fencing/{event_id}/stream")
async def show(request: Request, wiring: WiringDep, by: Viewer, event_id: str) -> Response:
    return await screen.live(request, wiring, by, looking_at(event_id))
