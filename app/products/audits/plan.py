"""The audit plan of a pipeline: the id of its records, and the schedule (docs/audits.md)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from app.kit.errors import Problem
from app.kit.storable import moment_of_ms
from app.products.audits.comparison import Comparison
from app.products.audits.specification import Everything, IdPlace, OffsetWindow, TimeWindow, Window

DEFAULT_EVERY_S = 3_600
DEFAULT_PADDING_S = 300
DEFAULT_TOLERANCE_S = 1_800
LONGEST_WINDOW = timedelta(days=31)
MAX_PADDING_S = 86_400
MAX_TOLERANCE_S = 7 * 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EVERY_S = range(60, 7 * 86_400 + 1)


class AuditPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The defaults and the schedule of one pipeline's audits, or of its comparisons.

    id_place, source_id_place: place of the id in outputs, and in inputs or in the baseline if that differs.
    comparison: what a plan for comparisons compares with; None: it is a plan for audits.
    padding_s: time outside the window in which an output is late, not lost.
    every_s: length of the scheduled windows; None without a schedule.
    tolerance_s: time that an audit waits for the pipeline to pass its window, before it is skipped.
    decided_until: end of the plan's last window, audited or skipped; the next one begins there.
    shown_until: end of the plan's newest clean window.
    """

    pipeline: str
    id_place: IdPlace
    source_id_place: IdPlace | None = None
    padding_s: int = DEFAULT_PADDING_S
    every_s: int | None = None
    tolerance_s: int = DEFAULT_TOLERANCE_S
    decided_until: datetime
    shown_until: datetime | None = None
    changed_at: datetime
    changed_by: str
    comparison: Comparison | None = None


class DueWindows(msgspec.Struct, frozen=True, kw_only=True):
    """due: the newest window that is over, with its padding. missed: the range before it that was not audited."""

    due: TimeWindow
    missed: TimeWindow | None = None


def due_windows(plan: AuditPlan, *, now: datetime) -> DueWindows | None:
    """Return the windows that are due now; None until the next window and its padding are over."""
    if plan.every_s is None:
        return None
    every, padding = timedelta(seconds=plan.every_s), timedelta(seconds=plan.padding_s)
    over = (now - padding - plan.decided_until) // every
    if over < 1:
        return None
    due_from = plan.decided_until + (over - 1) * every
    missed = time_window(plan.decided_until, due_from) if over > 1 else None
    return DueWindows(due=time_window(due_from, due_from + every), missed=missed)


def next_due_at(plan: AuditPlan) -> datetime | None:
    """Return the earliest time for the audit of the next window; None without a schedule."""
    if plan.every_s is None:
        return None
    return plan.decided_until + timedelta(seconds=plan.every_s + plan.padding_s)


def begin_of_plan(now: datetime, every_s: int | None) -> datetime:
    """Return the start of a new plan: the last full hour, or the last multiple of another window length."""
    if every_s is None:
        return now
    since_epoch_s = int(now.timestamp())
    return datetime.fromtimestamp(since_epoch_s - since_epoch_s % every_s, UTC)


def plan_problems(*, padding_s: int, every_s: int | None, tolerance_s: int) -> list[Problem]:
    """Return the problems of a plan's numbers, each with its field."""
    problems: list[Problem] = []
    if not 0 <= padding_s <= MAX_PADDING_S:
        problems.append(Problem(field="padding_s", message=f"The padding must be 0 to {MAX_PADDING_S:,} seconds"))
    if every_s is not None and every_s not in _EVERY_S:
        problems.append(Problem(field="every_s", message="The length of a window must be one minute to one week"))
    if not 0 <= tolerance_s <= MAX_TOLERANCE_S:
        problems.append(Problem(field="tolerance_s", message=f"The tolerance must be 0 to {MAX_TOLERANCE_S:,} seconds"))
    return problems


def time_window(begin: datetime, end: datetime) -> TimeWindow:
    """Round a window down to milliseconds, so that a window up to now is over."""
    return TimeWindow(start_ms=_whole_ms(begin), end_ms=_whole_ms(end))


def _whole_ms(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(milliseconds=1)


def window_problems(window: Window, *, now: datetime) -> list[Problem]:
    """Return the problems of a window that cannot be audited."""
    match window:
        case TimeWindow():
            return _time_problems(moment_of_ms(window.start_ms), moment_of_ms(window.end_ms), now)
        case OffsetWindow():
            return _offset_problems(window)
        case Everything():
            return []


def _time_problems(begin: datetime, end: datetime, now: datetime) -> list[Problem]:
    if begin >= end:
        return [Problem(field="window.end", message="The window ends before it begins")]
    if end - begin > LONGEST_WINDOW:
        return [Problem(field="window.start", message=f"A window may have at most {LONGEST_WINDOW.days} days")]
    if end > now:
        return [Problem(field="window.end", message="The window is not over yet: later records would be missed")]
    return []


def _offset_problems(window: OffsetWindow) -> list[Problem]:
    if not window.ranges:
        return [Problem(field="window.ranges", message="A window of offsets requires at least one partition")]
    places = [(one.topic, one.partition) for one in window.ranges]
    problems = [
        Problem(field=f"window.ranges.{index}", message=f"{one.topic}-{one.partition} ends before it begins")
        for index, one in enumerate(window.ranges)
        if one.start >= one.end
    ]
    if len(set(places)) < len(places):
        problems.append(Problem(field="window.ranges", message="A partition is named twice"))
    return problems
