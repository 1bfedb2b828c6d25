"""A broker's clock by its answers to "is it older than": both bounds hold, at any distance, in few questions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.clocks.clock_offset import ClockOffset, search_offset

START_MS = 1_800_000_000_000


class Broker:
    """behind_ms: its clock behind this one. It answers after a delay, at an unknown moment within it."""

    def __init__(self, *, behind_ms: int, delay_ms: int = 4) -> None:
        self.behind_ms = behind_ms
        self.now_ms = START_MS
        self.questions = 0
        self._delay_ms = delay_ms

    def stamp(self, *, age_ms: int) -> int:
        return self.now_ms - age_ms - self.behind_ms

    def is_older_than(self, stamped_ms: int, duration_ms: int) -> bool:
        self.questions += 1
        self.now_ms += self._delay_ms // 2
        answer = self.now_ms - self.behind_ms - stamped_ms > duration_ms
        self.now_ms += self._delay_ms - self._delay_ms // 2
        return answer


def measured(broker: Broker, *, age_ms: int) -> ClockOffset | None:
    stamped_ms = broker.stamp(age_ms=age_ms)
    return search_offset(
        lambda duration_ms: broker.is_older_than(stamped_ms, duration_ms),
        stamped_ms=stamped_ms,
        now_ms=lambda: broker.now_ms,
    )


@given(
    behind_ms=st.integers(-(10**9), 10**9),
    age_ms=st.integers(0, 10**8),
    delay_ms=st.integers(0, 300),
)
def test_both_bounds_hold_and_are_close(behind_ms: int, age_ms: int, delay_ms: int) -> None:
    broker = Broker(behind_ms=behind_ms, delay_ms=delay_ms)
    found = measured(broker, age_ms=age_ms)
    assert found is not None
    assert found.least_ms <= behind_ms <= found.most_ms
    # A search over many questions is as wide as the slowest of the answers that bound it.
    assert found.most_ms - found.least_ms <= 600 + 60 * delay_ms


@pytest.mark.parametrize("behind_ms", [-100, 0, 100])
def test_clocks_that_agree_are_measured_with_a_few_questions(behind_ms: int) -> None:
    broker = Broker(behind_ms=behind_ms)
    assert measured(broker, age_ms=30_000) is not None
    assert broker.questions <= 4


def test_broker_that_gives_no_answer_has_no_offset() -> None:
    assert search_offset(lambda _: None, stamped_ms=START_MS, now_ms=lambda: START_MS) is None


def test_ages_are_bounds_and_never_below_nothing() -> None:
    behind = ClockOffset(least_ms=299_000, most_ms=301_000, measured_ms=START_MS)
    age = behind.age_of(START_MS - 310_000, now_ms=START_MS)
    assert (age.least_ms, age.most_ms) == (9_000, 11_000)
    age = behind.age_of(START_MS - 300_500, now_ms=START_MS)
    assert (age.least_ms, age.most_ms) == (0, 1_500)
    assert behind.ours(START_MS - 300_000) == START_MS
