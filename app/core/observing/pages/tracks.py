"""The lanes of a timeline: the epochs of an id, the generations of a group."""

from __future__ import annotations

from collections.abc import Sequence

from app.core.fencing.record import FencingRecord
from app.core.journals.live_groups import LiveGroup
from app.core.journals.live_transactions import LiveTransaction
from app.core.observing.service.past import sentence_of
from app.kit.web.pages.screen import url_of
from app.kit.web.pages.timeline import Point, Tone, Track
from app.kit.words import moment, words


def epochs_of(live: LiveTransaction, *, cluster: str, marks: Sequence[Point] = ()) -> Track:
    """Return the producers and epochs of an id, without routine ones. An epoch that an abort began is marked."""
    spans: list[Point] = []
    for step in live.steps:
        at, label = moment(step.at_ms), f"{step.producer_id}:{step.producer_epoch}"
        if at is not None:
            spans.append(Point(at, label, f"{label}, {sentence_of(step)}"))
    href = url_of("transactions", "id", cluster=cluster, id=live.transactional_id)
    return Track(name=live.transactional_id, spans=spans, marks=marks, href=href)


def generations_of(group: LiveGroup, *, cluster: str, marks: Sequence[Point] = ()) -> Track:
    """Return the generations, or group epochs, of a group."""
    number = "group epoch" if group.has_epoch else "generation"
    spans = [
        Point(at, f"{one.number}", f"{number} {one.number}: members {one.members}")
        for one in group.rebalances
        if (at := moment(one.at_ms)) is not None
    ]
    href = url_of("groups", "group", cluster=cluster, name=group.group)
    return Track(name=group.group, spans=spans, marks=marks, href=href)


def mark_of(record: FencingRecord) -> Point:
    """Return the mark of a fencing, with a link to its event."""
    event = record.event
    return Point(
        event.at, "", f"{words(event.verdict.cause)}: {event.verdict.sentence}", Tone.BAD, fencing_url(record.id)
    )


def fencing_url(event_id: str) -> str:
    return url_of("fencing", event_id)
