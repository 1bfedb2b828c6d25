"""The windows that are due by a plan, and the problems of windows and plans."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.products.audits.plan import (
    begin_of_plan,
    due_windows,
    next_due_at,
    plan_problems,
    time_window,
    window_problems,
)
from app.products.audits.specification import Everything, OffsetRange, OffsetWindow
from tests.support.audit_samples import HOUR, NOON, plan

PADDING = timedelta(seconds=300)


def test_window_is_due_when_it_and_its_padding_are_over() -> None:
    assert due_windows(plan(), now=NOON + HOUR + PADDING - timedelta(seconds=1)) is None
    due = due_windows(plan(), now=NOON + HOUR + PADDING)
    assert due is not None
    assert due.due == time_window(NOON, NOON + HOUR)
    assert due.missed is None
    assert next_due_at(plan()) == NOON + HOUR + PADDING


def test_missed_windows_are_one_range_and_the_newest_is_due() -> None:
    due = due_windows(plan(), now=NOON + 24 * HOUR + PADDING)
    assert due is not None
    assert due.due == time_window(NOON + 23 * HOUR, NOON + 24 * HOUR)
    assert due.missed == time_window(NOON, NOON + 23 * HOUR)


def test_plan_without_a_schedule_has_no_due_window() -> None:
    by_hand = plan(every_s=None)
    assert due_windows(by_hand, now=NOON + 24 * HOUR) is None
    assert next_due_at(by_hand) is None


def test_clock_that_goes_back_makes_no_window_due() -> None:
    assert due_windows(plan(), now=NOON - HOUR) is None


def test_plan_begins_at_the_last_multiple_of_its_window() -> None:
    assert begin_of_plan(NOON + timedelta(minutes=47), 3600) == NOON
    assert begin_of_plan(NOON + timedelta(minutes=47), 900) == NOON + timedelta(minutes=45)


@pytest.mark.parametrize(
    ("window", "field"),
    [
        (time_window(NOON, NOON), "window.end"),
        (time_window(NOON - HOUR, NOON + HOUR), "window.end"),
        (time_window(NOON - 32 * 24 * HOUR, NOON), "window.start"),
        (OffsetWindow(ranges=()), "window.ranges"),
        (OffsetWindow(ranges=(OffsetRange(topic="in", partition=0, start=4, end=4),)), "window.ranges.0"),
        (OffsetWindow(ranges=(OffsetRange(topic="in", partition=0, start=0, end=4),) * 2), "window.ranges"),
    ],
)
def test_invalid_window_is_refused_at_its_field(window: object, field: str) -> None:
    assert [problem.field for problem in window_problems(window, now=NOON)] == [field]  # pyright: ignore[reportArgumentType]


def test_valid_windows_have_no_problems() -> None:
    assert window_problems(time_window(NOON - HOUR, NOON), now=NOON) == []
    assert window_problems(Everything(), now=NOON) == []


@pytest.mark.parametrize("microsecond", [0, 1, 499, 501, 999, 999_999])
def test_window_up_to_now_is_over(microsecond: int) -> None:
    now = NOON.replace(microsecond=microsecond)
    assert window_problems(time_window(now - HOUR, now), now=now) == []


def test_invalid_number_of_a_plan_is_refused_at_its_field() -> None:
    problems = plan_problems(padding_s=-1, every_s=59, tolerance_s=10**9)
    assert [problem.field for problem in problems] == ["padding_s", "every_s", "tolerance_s"]
