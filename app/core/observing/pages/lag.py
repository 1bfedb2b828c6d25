"""The lag of a group on its page: figures, one sentence, folded partitions, and two charts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from app.core.lag.movement import LagState
from app.core.lag.report import GroupLag, LagSample, PartitionLag, folded
from app.core.lag.service import GroupLagDetail, Lags
from app.core.lag.wording import sampling_of, seconds_of, sentence_of
from app.core.pipelines.pipeline_record import Pipeline
from app.kit.chart_range import ChartWindow
from app.kit.web.pages.charts import Chart, ChartLine, ChartMarker, chart_of
from app.kit.words import moment

MOST_ROWS = 200
_NOTICES = {LagState.BLOCKED: "bad", LagState.NOT_READING: "bad", LagState.SLOW: "warn"}


def lag_row(total: GroupLag) -> Mapping[str, Any]:
    """Return the values of a group in a list."""
    return {
        "state": total.state,
        "records": total.lag_records,
        "seconds": seconds_of(total),
        "ms": total.lag_ms,
        "is_partial": total.known < total.partitions,
        "known": total.known,
        "partitions": total.partitions,
        "sentence": sentence_of(total),
        "old_since": None,
    }


def lags_of(lags: Lags, pipelines: Iterable[Pipeline], *, now: datetime) -> Mapping[str, Mapping[str, Any]]:
    """Return the values of each pipeline's group by the pipeline's name; without those of groups without a sample.

    old_since: the time of values that are not current; None otherwise.
    """
    now_ms = int(now.timestamp() * 1000)
    found: dict[str, Mapping[str, Any]] = {}
    for pipeline in pipelines:
        report = lags.report_of(pipeline.cluster)
        total = report.groups.get(pipeline.definition.group_id)
        if total is None:
            continue
        is_current = report.is_current(now_ms=now_ms)
        sentence = sentence_of(total) if is_current else sampling_of(report, now_ms=now_ms)
        found[pipeline.name] = {
            **lag_row(total),
            "sentence": sentence,
            "old_since": None if is_current else moment(report.at_ms),
        }
    return found


def lag_of(
    detail: GroupLagDetail, *, is_each: bool, window: ChartWindow, markers: Sequence[ChartMarker] = ()
) -> Mapping[str, Any]:
    """Return the values of a group's page. is_each: a row for each partition. window, markers: of its charts."""
    history = [one for one in detail.history if window.since.timestamp() <= one.at_ms / 1000]
    rows = [(one,) for one in sorted(detail.rows, key=lambda one: one.at)] if is_each else folded(detail.rows)
    shown = rows if is_each else rows[:MOST_ROWS]
    total = detail.total
    return {
        **lag_row(total),
        "since": moment(total.since_ms),
        "rate": total.rate,
        "blocked": total.blocked,
        "tone": _NOTICES.get(total.state, ""),
        "rows": [_row(found) for found in shown],
        "left_out": sum(len(found) for found in rows[len(shown) :]),
        "is_each": is_each,
        "is_folded": any(len(found) > 1 for found in rows),
        "records_chart": _chart(
            ChartLine("records", "--chart-in", [one.lag_records for one in history]),
            " records",
            history,
            window,
            markers,
        ),
        "time_chart": _chart(
            ChartLine(
                "oldest unread record",
                "--warn",
                [None if one.lag_ms is None else one.lag_ms / 1000 for one in history],
            ),
            " s",
            history,
            window,
            markers,
        ),
        "has_history": len(detail.history) > 1,
    }


def _row(found: Sequence[PartitionLag]) -> Mapping[str, Any]:
    """Return one row for equal partitions: sums of records, and the oldest time."""
    first = found[0]
    is_one = len(found) == 1
    oldest = max(found, key=lambda one: one.lag_ms or 0)
    since = [one.since_ms for one in found if one.since_ms is not None]
    return {
        "id": str(first.at),
        "topic": first.at.topic,
        "partition": first.at.partition if is_one else None,
        "name": str(first.at) if is_one else f"{first.at.topic} {_numbers([one.at.partition for one in found])}",
        "count": len(found),
        "state": first.state,
        "committed": first.committed if is_one else None,
        "end": first.end if is_one else None,
        "last_stable": first.last_stable if is_one else None,
        "records": None if first.lag_records is None else sum(one.lag_records or 0 for one in found),
        "markers": sum(one.unread or 0 for one in found if one.is_only_markers),
        "blocked": sum(one.blocked or 0 for one in found),
        "seconds": seconds_of(oldest),
        "ms": oldest.lag_ms,
        "since": moment(min(since)) if since else None,
        "problem": first.problem,
        "as_of": moment(first.as_of_ms),
    }


def _numbers(numbers: Sequence[int]) -> str:
    """Return partition numbers as ranges: `0-2, 5`."""
    ranges: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _chart(
    line: ChartLine, unit: str, history: Sequence[LagSample], window: ChartWindow, markers: Sequence[ChartMarker]
) -> Chart:
    # The newest sample is of the five minutes that end after now.
    seconds = [min(one.at_ms // 1000, int(window.until.timestamp())) for one in history]
    return chart_of([line], seconds, unit=unit, window=window, markers=markers)
