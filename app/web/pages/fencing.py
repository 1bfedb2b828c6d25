"""Fencing events: who fenced my producer, and should I worry?"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from app.domain.access import Principal, Verb
from app.domain.fencing_events.fencing_event import Cause, Confidence
from app.domain.fencing_events.record import KEPT_FOR, FencingFilter
from app.domain.fencing_events.runbook import runbook
from app.domain.fencing_events.story import story_of
from app.domain.observing.snapshot import Phase
from app.domain.storable import moment_of_ms
from app.ports.unit_of_work import UnitOfWork
from app.services import fencing_feed
from app.services.defining import clusters
from app.services.fencing_feed import FencingLine
from app.services.observing.observations import Observations
from app.web.dependencies import Wiring, WiringDep, may
from app.web.pages.frame import screen
from app.web.pages.frame.display import words
from app.web.pages.frame.errors import PageRoute
from app.web.pages.frame.incarnations import drawing_of
from app.web.pages.frame.screen import Look, Screen

router = APIRouter(route_class=PageRoute, include_in_schema=False)
Viewer = Annotated[Principal, may(Verb.VIEW)]
Name = Annotated[str, Query(max_length=100, pattern=r"^[^\x00]*$")]
_PAGE = 50
_AS_IT_SHOULD_BE = (Phase.LIVE, Phase.ABSENT)


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
    Confidence.CERTAIN: "the records allow nothing else",
    Confidence.LIKELY: "what else it could be is rarer",
    Confidence.OPEN: "the records do not tell it from what else it could be",
}


def looking_at_list(
    wiring: Wiring, *, cluster: str, pipeline: str, cause: Cause | None, within: Within, after: str | None
) -> Look:
    async def look(uow: UnitOfWork, principal: Principal, now: datetime) -> Screen:
        del principal
        # What is no fencing is shown to those who ask for it by its name.
        wanted = FencingFilter(
            pipeline=pipeline or None,
            cause=cause,
            since=now - _SPANS[within],
            with_what_is_none=cause is not None and not cause.is_fencing,
        )
        found = await fencing_feed.list_lines(uow, wanted, cluster=cluster or None, after=after, limit=_PAGE)
        counts = await fencing_feed.count_by_cause(uow, wanted, cluster=cluster or None)
        query = {"cluster": cluster or None, "pipeline": pipeline or None, "cause": cause, "within": within}
        context = {
            "lines": found.items,
            "counts": counts,
            "total": sum(counts.values()),
            "older": screen.url_of("fencing", **query, after=found.next_cursor) if found.next_cursor else None,
            "unread": _unread(wiring.observations),
            "is_filtered": bool(cluster or pipeline or cause),
            "clusters": [("", "all"), *((one.name, one.name) for one in await clusters.list_clusters(uow))],
            "causes": [("", "all fencing"), *((one, words(one)) for one in Cause)],
            "spans": list(_WITHIN_WORDS.items()),
            "span": _WITHIN_WORDS[within],
            "chosen": query,
        }
        return Screen(template="fencing/list", title="Fencing", context=context, concerns=frozenset())

    return look


def _unread(observations: Observations) -> list[Mapping[str, str]]:
    """The clusters whose journal of transactions is not read as it should be, and why: nothing is seen of them now."""
    return [
        {"cluster": one.cluster, "phase": status.phase, "problem": status.problem}
        for one in observations.all()
        if (status := one.transaction_journal).phase not in _AS_IT_SHOULD_BE
    ]


@router.get("/fencing")
async def show_list(
    request: Request,
    wiring: WiringDep,
    by: Viewer,
    cluster: Name = "",
    pipeline: Name = "",
    cause: Cause | str = "",
    within: Within = Within.DAY,
    after: str | None = None,
) -> Response:
    look = looking_at_list(
        wiring, cluster=cluster, pipeline=pipeline.strip(), cause=_cause(cause), within=within, after=after
    )
    return await screen.page(request, wiring, by, look)


@router.get("/fencing/stream")
async def follow_list(
    request: Request,
    wiring: WiringDep,
    by: Viewer,
    cluster: Name = "",
    pipeline: Name = "",
    cause: Cause | str = "",
    within: Within = Within.DAY,
    after: str | None = None,
) -> Response:
    look = looking_at_list(
        wiring, cluster=cluster, pipeline=pipeline.strip(), cause=_cause(cause), within=within, after=after
    )
    return screen.stream(request, wiring, by, look)


def _cause(given: str) -> Cause | None:
    """None for all, as the form says it with an empty field, and for a word that is no cause."""
    return Cause(given) if given in set(Cause) else None


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
    """The event for an incident channel: what, how sure, what proves it, what to do."""
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
    return "\n".join(rows)


def _moment(at_ms: int) -> str:
    return moment_of_ms(at_ms).isoformat(timespec="milliseconds")


@router.get("/fencing/{event_id}")
async def show(request: Request, wiring: WiringDep, by: Viewer, event_id: str) -> Response:
    return await screen.page(request, wiring, by, looking_at(event_id))


@router.get("/fencing/{event_id}/stream")
async def follow(request: Request, wiring: WiringDep, by: Viewer, event_id: str) -> Response:
    return screen.stream(request, wiring, by, looking_at(event_id))
