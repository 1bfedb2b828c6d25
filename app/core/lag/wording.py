"""Lag as people read it."""

from __future__ import annotations

from collections.abc import Iterable

from app.core.lag.movement import LagState
from app.core.lag.report import GroupLag, LagReport, PartitionLag
from app.kit.words import count, duration

_SENTENCES = {
    LagState.SLOW: "The group commits{where}, but its lag grows: it reads more slowly than producers write.",
    LagState.BLOCKED: "An open transaction blocks read_committed consumers at the last stable offset{where}.",
    LagState.NO_MEMBERS: "The group has no members and commits nothing{where}: start a consumer of the group.",
    LagState.NOT_READING: "The group has members, but commits nothing{where}. Check the consumers: failing, paused, or "
    "the partition is not assigned.",
}


def behind_of(rows: Iterable[PartitionLag | GroupLag]) -> str:
    """Return `37 records behind, at most 3 s, reading 400/s` for all of them together."""
    found = list(rows)
    lag = sum(one.lag_records or 0 for one in found)
    if not lag:
        return "0 records behind"
    oldest = max(found, key=lambda one: one.lag_ms or 0)
    age = "" if not oldest.lag_ms else f", {seconds_of(oldest)}"
    rate = sum(one.rate or 0 for one in found)
    reads = f", reading {round(rate):,}/s" if rate >= 1 else ""
    return f"{count(lag, 'record')} behind{age}{reads}"


def seconds_of(one: PartitionLag | GroupLag) -> str:
    """Return the lag in time; a dash if it is not known."""
    if one.lag_ms is None:
        return "–"
    return f"{'≥ ' if one.is_bound and one.lag_ms else ''}{duration(one.lag_ms)}" if one.lag_ms else "0 s"


def sentence_of(total: GroupLag) -> str:
    """Return one sentence about a group's state and its next step."""
    is_some = 0 < total.troubled < total.partitions
    where = f" in {total.troubled:,} of {count(total.partitions, 'partition')}" if is_some else ""
    match total.state:
        case LagState.PAUSED:
            return f"The pipeline {total.pipeline} was paused or stopped by a user; it is {behind_of([total])}."
        case LagState.UNKNOWN:
            return "The lag is not known yet: the state needs two samples, 15 s apart."
        case LagState.HEALTHY:
            missing = total.partitions - total.known
            rest = f" {count(missing, 'partition')} {'is' if missing == 1 else 'are'} not known." if missing else ""
            what = f"is {behind_of([total])}" if total.lag_records else "has read all records"
            return f"The group {what}.{rest}"
        case state:
            return _SENTENCES[state].format(where=where)


def sampling_of(report: LagReport, *, now_ms: int) -> str:
    """Return a sentence if the samples are incomplete or old; empty otherwise."""
    if report.problem:
        age = f" since {duration(now_ms - report.at_ms)}" if report.at_ms >= 0 else ""
        return f"Lag is not known{age}: {report.problem}."
    if report.at_ms < 0:
        return "Lag is not sampled yet."
    notes: list[str] = []
    if report.sampled < report.partitions:
        notes.append(
            f"Each of {report.partitions:,} partitions is sampled every {duration(report.period_ms)}, "
            f"{report.sampled:,} at a time."
        )
    if report.unanswered:
        notes.append(
            f"The leaders of {count(report.unanswered, 'partition')} do not answer: their lag is that of before."
        )
    return " ".join(notes)
