"""A line of time: spans that follow each other until now, and marks upon them. What each is, a table says as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

# Narrower than this no label fits.
_LABELLED_PERCENT = 12.0
_SHORTEST = timedelta(milliseconds=1)


class Point(NamedTuple):
    """Where a span begins, or a mark is."""

    at: datetime
    label: str
    title: str


@dataclass(frozen=True, kw_only=True)
class Bar:
    """left, width: in percent of the line."""

    left: float
    width: float
    label: str
    title: str


@dataclass(frozen=True, kw_only=True)
class Mark:
    left: float
    title: str


@dataclass(frozen=True, kw_only=True)
class Timeline:
    since: datetime
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]


def timeline_of(spans: Sequence[Point], marks: Sequence[Point], *, now: datetime) -> Timeline | None:
    """From the oldest span to now, whatever the order they come in; None when there is none.

    A clock that is ahead of ours puts what it tells at the end of the line. Marks from before the line are left out.
    """
    if not spans:
        return None
    ordered = sorted(spans, key=lambda span: span.at)
    since = ordered[0].at
    whole = max(now - since, _SHORTEST)

    def left(at: datetime) -> float:
        return round(min(max((at - since) / whole, 0.0), 1.0) * 100, 1)

    ends = [*(left(span.at) for span in ordered[1:]), left(now)]
    bars: list[Bar] = []
    for span, end in zip(ordered, ends, strict=True):
        begin = left(span.at)
        width = round(max(end - begin, 0.0), 1)
        label = span.label if width >= _LABELLED_PERCENT else ""
        bars.append(Bar(left=begin, width=width, label=label, title=span.title))
    shown = tuple(Mark(left=left(mark.at), title=mark.title) for mark in marks if mark.at >= since)
    return Timeline(since=since, bars=tuple(bars), marks=shown)
