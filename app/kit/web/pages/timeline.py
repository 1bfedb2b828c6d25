"""Timelines: lanes of spans in sequence, with marks. A table shows the same data.

Long gaps are shortened, so that a second of last week is as visible as the present.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from typing import NamedTuple

MAX_LANES = 12
# Narrower than this no label fits.
_LABELLED_PERCENT = 12.0


class Tone(StrEnum):
    """The style of a bar or a mark. LATE: after the end of its ownership."""

    PLAIN = "plain"
    NEWEST = "newest"
    OLD = "old"
    NEW = "new"
    LATE = "late"
    BAD = "bad"


class Point(NamedTuple):
    """The start of a span, or a mark. href: the page of the mark's subject."""

    at: datetime
    label: str
    title: str
    tone: Tone = Tone.PLAIN
    href: str | None = None


class Track(NamedTuple):
    """One lane: spans, each until the next one begins and the last until now. href: the page of the lane's subject."""

    name: str
    spans: Sequence[Point]
    marks: Sequence[Point] = ()
    href: str | None = None


@dataclass(frozen=True, kw_only=True)
class Bar:
    """left, width: in percent of the timeline."""

    left: float
    width: float
    label: str = ""
    title: str
    tone: Tone = Tone.PLAIN


@dataclass(frozen=True, kw_only=True)
class Mark:
    left: float
    title: str
    tone: Tone = Tone.PLAIN
    href: str | None = None


@dataclass(frozen=True, kw_only=True)
class TimelineLane:
    name: str
    detail: str = ""
    href: str | None = None
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """words: a description for screen readers. since: the start of a timeline that ends now; else it is complete.
    cut: the position of a removal in all lanes. left_out: the number of omitted lanes."""

    words: str
    lanes: tuple[TimelineLane, ...]
    since: datetime | None = None
    cut: float | None = None
    left_out: int = 0


def timeline_of(words: str, tracks: Sequence[Track], *, now: datetime) -> Timeline | None:
    """Draw from the oldest span to now, in any order of input; None when there is none.

    A time from a clock ahead of this server's is at the end of the timeline. Earlier marks are omitted.
    """
    told = [track for track in tracks if track.spans]
    if not told:
        return None
    since = min(span.at for track in told for span in track.spans)
    shown = [_on_line(track, since) for track in told[:MAX_LANES]]
    end_ms = _ms(now)
    times = {min(_ms(point.at), end_ms) for track in shown for point in (*track.spans, *track.marks)}
    reached = places({*times, _ms(since), end_ms})
    return Timeline(
        words=words,
        since=since,
        lanes=tuple(_lane(track, reached, end_ms) for track in shown),
        left_out=len(told) - len(shown),
    )


def places(times_ms: Iterable[int], *, margin: float = 0.0) -> Mapping[int, float]:
    """Place the times, in percent: in order, with distances by the logarithm of their gaps.

    margin: the free part at both ends.
    """
    ordered = sorted(set(times_ms))
    if len(ordered) == 1:
        return {ordered[0]: 50.0 if margin else 0.0}
    reached = [0.0]
    for before, after in pairwise(ordered):
        reached.append(reached[-1] + math.log2(2 + after - before))
    room = 100 - 2 * margin
    return {at: round(margin + room * one / reached[-1], 1) for at, one in zip(ordered, reached, strict=True)}


def _on_line(track: Track, since: datetime) -> Track:
    return track._replace(
        spans=sorted(track.spans, key=lambda span: span.at), marks=[mark for mark in track.marks if mark.at >= since]
    )


def _lane(track: Track, reached: Mapping[int, float], end_ms: int) -> TimelineLane:
    def left(at: datetime) -> float:
        return reached[min(_ms(at), end_ms)]

    ends = [*(left(span.at) for span in track.spans[1:]), reached[end_ms]]
    bars: list[Bar] = []
    for span, end in zip(track.spans, ends, strict=True):
        width = round(end - left(span.at), 1)
        label = span.label if width >= _LABELLED_PERCENT else ""
        bars.append(Bar(left=left(span.at), width=width, label=label, title=span.title, tone=span.tone))
    bars[-1] = replace(bars[-1], tone=Tone.NEWEST)
    marks = tuple(Mark(left=left(mark.at), title=mark.title, tone=mark.tone, href=mark.href) for mark in track.marks)
    return TimelineLane(name=track.name, href=track.href, bars=tuple(bars), marks=marks)


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)
