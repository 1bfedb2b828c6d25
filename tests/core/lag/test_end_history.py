"""Lag in seconds by the history of a partition's end: exact within an eighth, bounded, and honest where it begins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.lag.end_history import KEPT_MS, EndHistory, PassedAt

PERIOD_MS = 15_000


def history_of(*points: tuple[int, int]) -> EndHistory:
    history = EndHistory()
    for at_ms, end in points:
        assert history.note(at_ms, end)
    return history


def test_offset_between_two_samples_has_a_time_between_them() -> None:
    history = history_of((0, 0), (10_000, 100))
    assert history.passed(49) == PassedAt(4950, is_bound=False)
    assert history.passed(99) == PassedAt(9950, is_bound=False)


def test_offset_at_the_end_was_not_passed() -> None:
    assert history_of((0, 0), (10_000, 100)).passed(100) is None
    assert EndHistory().passed(0) is None


def test_offset_before_the_history_was_passed_at_its_begin_at_the_latest() -> None:
    assert history_of((5_000, 70), (20_000, 90)).passed(69) == PassedAt(5_000, is_bound=True)
    assert history_of((5_000, 70), (20_000, 90)).passed(70) == PassedAt(5_375, is_bound=False)


def test_record_after_hours_of_silence_is_as_old_as_its_sample() -> None:
    history = history_of(*((at * PERIOD_MS, 7) for at in range(2_000)), (2_000 * PERIOD_MS, 8))
    passed = history.passed(7)
    assert passed is not None
    assert 1_999 * PERIOD_MS <= passed.at_ms <= 2_000 * PERIOD_MS
    assert len(history.times) == 3, "an end that stands still needs two samples"


@pytest.mark.parametrize("sample", [(20_000, 50), (10_000, 200), (5_000, 200)], ids=["end", "same time", "clock"])
def test_history_begins_anew_when_the_end_or_the_clock_goes_back(sample: tuple[int, int]) -> None:
    history = history_of((0, 0), (10_000, 100))
    assert not history.note(*sample)
    assert (history.times.tolist(), history.ends.tolist()) == ([sample[0]], [sample[1]])


@given(
    rates=st.lists(st.integers(min_value=0, max_value=5_000), min_size=1, max_size=40),
    each=st.integers(min_value=1, max_value=200),
    share=st.floats(min_value=0, max_value=0.999),
)
def test_thinned_history_errs_by_an_eighth_of_the_age_at_most(rates: list[int], each: int, share: float) -> None:
    history, at_ms, end = EndHistory(), 0, 0
    samples = [(0, 0)]
    history.note(0, 0)
    for rate in rates:
        for _ in range(each):
            at_ms, end = at_ms + PERIOD_MS, end + rate
            samples.append((at_ms, end))
            history.note(at_ms, end)
    kept = [(at, e) for at, e in samples if at >= at_ms - KEPT_MS]
    first, last = history.ends[0], end
    offset = first + int((last - first) * share)
    passed = history.passed(offset)
    assert len(history.times) <= 200
    assert history.times[0] >= at_ms - KEPT_MS - PERIOD_MS * each * len(rates)
    if passed is None or passed.is_bound:
        assert offset in (last, first) or last == first
        return
    after = next(at for at, e in samples if e > offset)
    error_ms = abs(passed.at_ms - (after - PERIOD_MS / 2))
    assert error_ms <= max(60_000, (at_ms - after) / 8 + PERIOD_MS) + PERIOD_MS, (kept[:3], passed, after, at_ms)


def test_history_of_a_busy_day_is_small() -> None:
    history = EndHistory()
    for at in range(2 * KEPT_MS // PERIOD_MS):
        history.note(at * PERIOD_MS, at * 1_000)
    assert len(history.times) <= 97
    now_ms = history.times[-1]
    assert now_ms - KEPT_MS - 3 * 3_600_000 <= history.times[0] <= now_ms - KEPT_MS
