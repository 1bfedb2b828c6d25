"""How a pipeline is audited: by which id of its records, and how often by itself (docs/audits.md)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from app.kit.errors import Problem
from app.kit.storable import moment_of_ms
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
    """What the audits of one pipeline begin with, each of which may ask for something else.

    id_place, source_id_place: what an output is known by, and an input, where that is another place.
    padding_s: an output that lies so far outside of the window is late, not lost.
    every_s: how long the windows are that are audited without being asked for; None: there are none.
    tolerance_s: so long an audit waits for the pipeline to have passed its window; then it is skipped.
    decided_until: the end of the last window that was audited or skipped by the plan; the next one begins there.
    shown_until: the end of the plan's newest window of which it was shown that every output is there, once.
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


class DueWindows(msgspec.Struct, frozen=True, kw_only=True):
    """due: the newest window that is over, with its padding. missed: what lies before it and was never decided."""

    due: TimeWindow
    missed: TimeWindow | None = None


def due_windows(plan: AuditPlan, *, now: datetime) -> DueWindows | None:
    """What the plan has to decide now; None while the next window, or what may come late of it, is not over."""
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
    """When the next window can be audited at the earliest; None: the plan audits nothing by itself."""
    if plan.every_s is None:
        return None
    return plan.decided_until + timedelta(seconds=plan.every_s + plan.padding_s)


def begin_of_plan(now: datetime, every_s: int | None) -> datetime:
    """Where a plan that is made now begins: at the last full hour, or whatever its windows' length makes of the day."""
    if every_s is None:
        return now
    since_epoch_s = int(now.timestamp())
    return datetime.fromtimestamp(since_epoch_s - since_epoch_s % every_s, UTC)


def plan_problems(*, padding_s: int, every_s: int | None, tolerance_s: int) -> list[Problem]:
    """Every mistake in the numbers of a plan, at its field."""
    problems: list[Problem] = []
    if not 0 <= padding_s <= MAX_PADDING_S:
        problems.append(Problem(field="padding_s", message=f"The padding is from 0 to {MAX_PADDING_S:,} seconds"))
    if every_s is not None and every_s not in _EVERY_S:
        problems.append(Problem(field="every_s", message="A window is from a minute to a week long"))
    if not 0 <= tolerance_s <= MAX_TOLERANCE_S:
        problems.append(Problem(field="tolerance_s", message=f"The tolerance is from 0 to {MAX_TOLERANCE_S:,} seconds"))
    return problems


def time_window(begin: datetime, end: datetime) -> TimeWindow:
    """Whole milliseconds, never later than what is given: a window up to now is over."""
    return TimeWindow(start_ms=_whole_ms(begin), end_ms=_whole_ms(end))


def _whole_ms(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(milliseconds=1)


def window_problems(window: Window, *, now: datetime) -> list[Problem]:
    """Why nothing can be said about the window."""
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
        return [Problem(field="window.start", message=f"A window is at most {LONGEST_WINDOW.days} days long")]
    if end > now:
        return [Problem(field="window.end", message="The window is not over yet: what still comes in would be missed")]
    return []


def _offset_problems(window: OffsetWindow) -> list[Problem]:
    if not window.ranges:
        return [Problem(field="window.ranges", message="A window of offsets names at least one partition")]
    places = [(one.topic, one.partition) for one in window.ranges]
    problems = [
        Problem(field=f"window.ranges.{index}", message=f"{one.topic}-{one.partition} ends before it begins")
        for index, one in enumerate(window.ranges)
        if one.start >= one.end
    ]
    if len(set(places)) < len(places):
        problems.append(Problem(field="window.ranges", message="A partition is named twice"))
    return problems
